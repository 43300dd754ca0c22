"""--generate: a balanced proposal with as few moves as possible (row A6; pure).

What must hold: every replica on one of the chosen brokers, no broker twice in a partition, and, where racks are known,
replicas of a partition in as many racks as there are and as evenly as possible. What is wanted beyond that: brokers
differ by at most one replica, and preferred leaders are spread as evenly as the replicas allow. A replica stays where
it is unless one of these moves it; which replica of a partition leads costs nothing and is chosen last.

Three steps: take away what must not stay and put it on the brokers with the fewest replicas; move replicas from the
fullest broker to the emptiest while they differ by two; pass leaderships on, from broker to broker along a chain of
shared partitions, while that evens them out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from minikafka.client.reassigning.plan import PlanError
from minikafka.model import TopicPartition

Assignment = Mapping[TopicPartition, Sequence[int]]
Racks = Mapping[int, str | None]
_Chain = list[tuple[TopicPartition, int]]


def propose(current: Assignment, brokers: Racks) -> dict[TopicPartition, tuple[int, ...]]:
    """Place the partitions on ``brokers`` (id -> rack), evenly. PlanError when there are too few of them."""
    proposal = _Proposal(current, brokers)
    proposal.place_missing()
    proposal.even_out()
    proposal.spread_leaders()
    return proposal.result()


def propose_without(current: Assignment, brokers: Racks) -> dict[TopicPartition, tuple[int, ...]]:
    """Move only what is on other brokers than ``brokers``, to those with the fewest replicas; what changes by that."""
    proposal = _Proposal(current, brokers)
    proposal.place_missing()
    proposal.even_out(only_new=True)
    proposal.replace_leaders()
    return {tp: replicas for tp, replicas in proposal.result().items() if replicas != tuple(current[tp])}


def check_racks(brokers: Racks) -> None:
    """PlanError when some brokers have a rack and others do not."""
    without = [str(broker) for broker, rack in sorted(brokers.items()) if rack is None]
    if without and len(without) < len(brokers):
        raise PlanError(
            f"brokers {', '.join(without)} have no rack, other brokers do; ignore racks with --disable-rack-aware"
        )


class _Proposal:
    """An assignment being changed, with its counts by broker."""

    def __init__(self, current: Assignment, brokers: Racks) -> None:
        self._current = current
        self._racks = dict(sorted(brokers.items()))
        self._has_racks = bool(brokers) and all(rack is not None for rack in brokers.values())
        self._replicas: dict[TopicPartition, list[int]] = {}
        self._load: Counter[int] = Counter(dict.fromkeys(self._racks, 0))
        self._in_topic: Counter[tuple[str, int]] = Counter()
        for tp, replicas in sorted(current.items()):
            if len(replicas) > len(brokers):
                raise PlanError(
                    f"{tp} has {len(replicas)} replicas, which do not fit on {len(brokers)} "
                    f"{'broker' if len(brokers) == 1 else 'brokers'}"
                )
            self._replicas[tp] = []
            self._keep(tp, replicas)

    def _keep(self, tp: TopicPartition, replicas: Sequence[int]) -> None:
        """Leave what may stay where it is. A rack's second replica may once the other racks have their first."""
        rest = [broker for broker in replicas if broker in self._racks]
        while (broker := next((each for each in rest if self._may_place(tp, each)), None)) is not None:
            rest.remove(broker)
            self._add(tp, broker)
        self._put_in_order(tp)

    def result(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {tp: tuple(replicas) for tp, replicas in self._replicas.items()}

    # -- replicas -----------------------------------------------------------------------------------------------------

    def place_missing(self) -> None:
        """Fill up each partition, from the brokers with the fewest replicas."""
        for tp, replicas in self._replicas.items():
            while len(replicas) < len(self._current[tp]):
                candidates = [broker for broker in self._racks if self._may_place(tp, broker)]
                self._add(tp, min(candidates, key=lambda broker: self._emptiness(tp, broker)))
            self._put_in_order(tp)

    def even_out(self, *, only_new: bool = False) -> None:
        """Move replicas from a fuller broker to an emptier one; with ``only_new`` those only that move anyway."""
        while (move := self._best_move(only_new)) is not None:
            tp, source, target = move
            self._remove(tp, source)
            self._add(tp, target)
            self._put_in_order(tp)

    def _best_move(self, only_new: bool) -> tuple[TopicPartition, int, int] | None:
        """The first that helps, between the brokers that differ most."""
        load = self._load
        pairs = sorted((load[target] - load[source], source, target) for source in load for target in load)
        for difference, source, target in pairs:
            if difference > -2:
                return None
            on_source = [
                tp
                for tp, replicas in self._replicas.items()
                if source in replicas and not (only_new and source in self._current[tp])
            ]
            movable = [tp for tp in on_source if self._may_move(tp, source, target)]
            if movable:
                # One that is new there anyway costs nothing more; else thin out the topic that has most there.
                fullest = max(
                    movable,
                    key=lambda tp: (source not in self._current[tp], self._in_topic[tp.topic, source], tp),
                )
                return fullest, source, target
        return None

    def _may_move(self, tp: TopicPartition, source: int, target: int) -> bool:
        replicas = self._replicas[tp]
        at = replicas.index(source)
        replicas.pop(at)
        try:
            return self._may_place(tp, target)
        finally:
            replicas.insert(at, source)

    def _may_place(self, tp: TopicPartition, broker: int) -> bool:
        """No broker twice; and no rack gets one more than the emptiest that could still take one."""
        replicas = self._replicas[tp]
        if broker in replicas:
            return False
        if not self._has_racks:
            return True
        used = Counter(self._racks[each] for each in replicas)
        free = {rack for each, rack in self._racks.items() if each not in replicas}
        return used[self._racks[broker]] == min(used[rack] for rack in free)

    def _emptiness(self, tp: TopicPartition, broker: int) -> tuple[int, int, int]:
        return self._load[broker], self._in_topic[tp.topic, broker], broker

    def _put_in_order(self, tp: TopicPartition) -> None:
        """Those that stay as they were, then those that are new."""
        before = list(self._current[tp])
        self._replicas[tp].sort(key=lambda broker: before.index(broker) if broker in before else len(before))

    def _add(self, tp: TopicPartition, broker: int) -> None:
        self._replicas[tp].append(broker)
        self._load[broker] += 1
        self._in_topic[tp.topic, broker] += 1

    def _remove(self, tp: TopicPartition, broker: int) -> None:
        self._replicas[tp].remove(broker)
        self._load[broker] -= 1
        self._in_topic[tp.topic, broker] -= 1

    # -- leaders ------------------------------------------------------------------------------------------------------

    def replace_leaders(self) -> None:
        """Where the preferred leader left, prefer the replica whose broker leads least."""
        orphans = [tp for tp in self._replicas if self._current[tp][0] not in self._racks]
        leads = Counter(replicas[0] for tp, replicas in self._replicas.items() if tp not in orphans)
        for tp in orphans:
            replicas = self._replicas[tp]
            leader = min(replicas, key=lambda broker: leads[broker])
            replicas.remove(leader)
            replicas.insert(0, leader)
            leads[leader] += 1

    def spread_leaders(self) -> None:
        """Pass leaderships on along chains of brokers, each of which has a replica of what the one before leads."""
        while (chain := self._chain()) is not None:
            for tp, leader in chain:
                replicas = self._replicas[tp]
                replicas.remove(leader)
                replicas.insert(0, leader)

    def _chain(self) -> _Chain | None:
        """(partition, its new leader) from a broker that leads most to one that leads at least two fewer."""
        leads = Counter(dict.fromkeys(self._racks, 0))
        leads.update(replicas[0] for replicas in self._replicas.values())
        led_by: dict[int, list[TopicPartition]] = {}
        for tp, replicas in self._replicas.items():
            led_by.setdefault(replicas[0], []).append(tp)
        for first in sorted(leads, key=lambda broker: (-leads[broker], broker)):
            came_by: dict[int, tuple[TopicPartition, int]] = {}
            queue = deque([first])
            while queue:
                broker = queue.popleft()
                if leads[first] - leads[broker] >= 2:
                    return _walk_back(came_by, first, broker)
                for tp in led_by.get(broker, ()):
                    for follower in self._replicas[tp][1:]:
                        if follower != first and follower not in came_by:
                            came_by[follower] = (tp, broker)
                            queue.append(follower)
        return None


def _walk_back(
    came_by: Mapping[int, tuple[TopicPartition, int]], first: int, last: int
) -> list[tuple[TopicPartition, int]]:
    chain = []
    while last != first:
        tp, before = came_by[last]
        chain.append((tp, last))
        last = before
    return chain
