"""Placement of replicas (row C5): spread over brokers, and each partition over racks.

Partition by partition, leader first, each replica goes to the broker with the smallest tuple:

* leader: leaderships in this topic, replicas in this topic, leaderships in the cluster, replicas in the cluster
* follower: replicas this partition has in its rack already, not usable, replicas in this topic, times it follows
  that leader in this topic, replicas in the cluster

and on a tie to the first in an order that is drawn anew for each topic. So racks come first, then balance within the
topic, then balance of the cluster. The followers of one leader differ, so that its leaderships go to many brokers when
it fails. Brokers that are fenced or stopping get replicas only where their rack has no other, and are
never the first replica. A broker without a rack is in the rack "no rack".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from minikafka.errors import ErrorCode, KafkaError


class Rng(Protocol):
    """Source of randomness (``random.Random`` fits)."""

    def randrange(self, stop: int, /) -> int: ...


class Candidate(NamedTuple):
    """A registered broker. ``usable``: neither fenced nor stopping."""

    broker_id: int
    rack: str | None
    usable: bool


class Load:
    """Leaderships (first replicas) and replicas of each broker."""

    def __init__(self, assignments: Iterable[Sequence[int]] = ()) -> None:
        self.leads: Counter[int] = Counter()
        self.replicas: Counter[int] = Counter()
        for replicas in assignments:
            self.add(replicas)

    def add(self, replicas: Sequence[int]) -> None:
        """Count one partition."""
        self.leads[replicas[0]] += 1
        for broker_id in replicas:
            self.replicas[broker_id] += 1


def assign_replicas(
    count: int,
    replication_factor: int,
    brokers: Sequence[Candidate],
    rng: Rng,
    *,
    existing: Sequence[Sequence[int]] = (),
    cluster: Load | None = None,
) -> list[tuple[int, ...]]:
    """The replicas of ``count`` new partitions of a topic that has the partitions ``existing``.

    ``cluster`` is the load of all topics, and is updated. Raises KafkaError(INVALID_REPLICATION_FACTOR) when there are
    too few brokers, or none that could lead.
    """
    _check_enough(replication_factor, brokers)
    spread = _Spread(shuffled(brokers, rng), Load(existing), Load() if cluster is None else cluster)
    for replicas in existing:
        spread.follows.update((replicas[0], follower) for follower in replicas[1:])
    return [spread.place(replication_factor) for _ in range(count)]


def shuffled(brokers: Sequence[Candidate], rng: Rng) -> list[Candidate]:
    """The brokers in an order that depends on the rng only."""
    order = sorted(brokers)
    for last in range(len(order) - 1, 0, -1):
        other = rng.randrange(last + 1)
        order[last], order[other] = order[other], order[last]
    return order


def _check_enough(replication_factor: int, brokers: Sequence[Candidate]) -> None:
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} needs as many brokers; registered: {len(brokers)}",
        )
    if not any(broker.usable for broker in brokers):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced or stopping; none could lead")


class _Spread:
    """The deciding counts while partitions of one topic are placed."""

    def __init__(self, brokers: Sequence[Candidate], topic: Load, cluster: Load) -> None:
        self._brokers = brokers
        self._topic = topic
        self._cluster = cluster
        self.follows: Counter[tuple[int, int]] = Counter()

    def place(self, replication_factor: int) -> tuple[int, ...]:
        leader = min((broker for broker in self._brokers if broker.usable), key=self._leader_rank)
        chosen = [leader]
        while len(chosen) < replication_factor:
            chosen.append(self._next_follower(chosen))
        replicas = tuple(broker.broker_id for broker in chosen)
        self._topic.add(replicas)
        self._cluster.add(replicas)
        self.follows.update((leader.broker_id, follower) for follower in replicas[1:])
        return replicas

    def _leader_rank(self, broker: Candidate) -> tuple[int, ...]:
        number = broker.broker_id
        return (
            self._topic.leads[number],
            self._topic.replicas[number],
            self._cluster.leads[number],
            self._cluster.replicas[number],
        )

    def _next_follower(self, chosen: Sequence[Candidate]) -> Candidate:
        racks = Counter(broker.rack for broker in chosen)

        def rank(broker: Candidate) -> tuple[int, ...]:
            number = broker.broker_id
            return (
                racks[broker.rack],
                not broker.usable,
                self._topic.replicas[number],
                self.follows[chosen[0].broker_id, number],
                self._cluster.replicas[number],
            )

        return min((broker for broker in self._brokers if broker not in chosen), key=rank)
