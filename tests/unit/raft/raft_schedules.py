"""Random protocol schedules: whatever can happen next, happens in any order.

A schedule is a seed. It makes a cluster of 1, 3 or 5 voters and maybe an observer, and takes 100 or 500 random steps:
do a node's next effect, flush it, deliver a packet from anywhere on the wire (or drop or double it), let time pass,
propose, crash (keeping any part of what was not flushed), restart, damage a disk, cut links, break connections,
resign, take a snapshot. The invariants are checked at every step. In the end everything is healed, and the cluster
must elect a leader and agree within bounded time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from raft_invariants import CheckedSimulation, check
from raft_simulation import RECORD, Node

from minikafka.raft import RaftConfig

STEPS = (100, 100, 100, 100, 500)  # the short ones are cheap; some bugs take a history that only long ones have
FETCH_TIMEOUT_MS = 60
SLOW_SYNCS_MS = (30, 150)  # a disk that takes longer than a round of voting, and than the fetch timeout


FOREVER_MS = 1 << 40


@cache
def quick_config(records_per_fetch: int, first_election_wait_ms: int = FETCH_TIMEOUT_MS) -> RaftConfig:
    """Short times, so that a schedule sees many elections, and small answers, so that logs differ in many ways."""
    return RaftConfig(
        election_timeout_ms=20,
        fetch_timeout_ms=FETCH_TIMEOUT_MS,
        election_backoff_max_ms=20,
        retry_backoff_ms=5,
        request_timeout_ms=20,
        first_election_wait_ms=first_election_wait_ms,
        election_jitter_ms=6,
        fetch_max_wait_ms=25,
        fetch_max_bytes=records_per_fetch * RECORD.size,
        snapshot_chunk_bytes=3 * RECORD.size,
    )


SYNCS_TO_ELECT = 12
SIZES = (3, 3, 3, 3, 3, 5, 5, 1)


class Schedule(CheckedSimulation):
    """One seed's schedule. ``harshness`` (0 to 1, of the seed) is how much goes wrong."""

    def __init__(self, seed: int) -> None:
        choice = random.Random(seed)
        self.has_two_wiped = choice.random() < 0.4
        wait_ms = FOREVER_MS if self.has_two_wiped else FETCH_TIMEOUT_MS  # nobody can tell who is gone for good
        config = quick_config(choice.choice((1, 3)), wait_ms)
        super().__init__(choice.choice(SIZES), choice.choice((0, 0, 0, 1)), seed, config)
        self.trace: list[str] | None = None
        for node in self.all_nodes:
            node.disk.new_mark = True
        self.next_value = 0
        self.steps = choice.choice(STEPS)
        self.weights = self._weights(choice)

    def _weights(self, choice: random.Random) -> tuple[list[Callable[[], object]], list[float]]:
        """Every seed has its own mixture: some faults not at all, others often."""

        def some(*rates: float) -> float:
            return choice.choice(rates)

        table: list[tuple[Callable[[], object], float]] = [
            (self.progress, 100),
            (self.pass_time, some(1, 4, 12)),
            (self.propose_any, some(2, 6)),
            (self.lose_packet, some(0, 1, 4)),
            (self.double_packet, some(0, 1, 4)),
            (self.crash_any, some(0, 1, 3)),
            (self.restart_any, some(4, 12)),
            (self.cut_any, some(0, 0.5, 2)),
            (self.heal_any, some(1, 3)),
            (self.break_any, some(0, 1, 3)),
            (self.resign_any, some(0, 0.5, 2)),
            (self.snapshot_any, some(0, 1, 5)),
            (self.damage_any, some(0, 0, 1)),
            (self.wipe_any, some(0, 0, 1)),
            (self.wipe_two, int(self.has_two_wiped)),
        ]
        self.flush_rate = some(0.1, 0.4, 0.8)
        self.final_sync_ms = some(0, 0, 0, *SLOW_SYNCS_MS)
        self.orderly = choice.random()
        total, cumulative = 0.0, []
        for _, weight in table:
            total += weight
            cumulative.append(total)
        return [step for step, _ in table], cumulative

    # Running

    def run(self) -> None:
        self.start()
        choices = self.rng.choices
        names, cumulative = self.weights
        for step in choices(names, cum_weights=cumulative, k=self.steps):
            if self.trace is not None:
                self.trace.append(f"{self.now_ms:6} {step.__name__:14} wire={len(self.wire)} {self.summary()}")
            step()
        self.settle()

    def summary(self) -> str:
        return " ".join(_summary(node) for node in self.nodes.values())

    def settle(self) -> None:
        """Heal everything; then there must be a leader with everybody at its high watermark before long.

        First without one of the voters, where the others are enough. And before that, in some schedules, on slow disks.
        """
        self.cuts.clear()
        if self.final_sync_ms:
            self._elect_on_slow_disks()
        absent = self.below(len(self.voters)) + 1
        sound = sum(
            not (self.nodes[voter].disk.repair_mark or self.nodes[voter].disk.new_mark)
            for voter in range(1, len(self.voters) + 1)
            if voter != absent
        )
        if 2 * sound > len(self.voters):
            self.crash(absent)
            # An observer asks one voter after the other who leads, and may meet the absent one a few times.
            self._agree(set(self.nodes) - {absent}, limit_ms=40 * FETCH_TIMEOUT_MS)
        self._agree(set(self.nodes), limit_ms=10 * FETCH_TIMEOUT_MS)

    def _agree(self, those: set[int], limit_ms: int) -> None:
        for node_id in sorted(those):
            if self.nodes[node_id].machine is None:
                self.nodes[node_id].start()
        agreed = self.run_fairly(lambda: self._agreed(those), limit_ms)
        check(agreed, "liveness", f"no agreement after healing: {self.summary()}")

    def _agreed(self, those: set[int]) -> bool:
        leaders = self.leaders()
        if len(leaders) != 1:
            return False
        end = self.nodes[leaders[0]].disk.end_offset
        nodes = [self.nodes[node_id] for node_id in those]
        return all(len(node.applied) == end == node.disk.end_offset for node in nodes)

    def _elect_on_slow_disks(self) -> None:
        """Syncs that take longer than a round of voting elect a leader, and nothing but a sync is no reason to leave
        it: ``no disruption``."""
        for node in self.all_nodes:
            node.sync_ms = self.final_sync_ms if self.below(4) else 0
            if node.machine is None:
                node.start()
        self.run_fairly(lambda: False, 2 * FETCH_TIMEOUT_MS)  # who heard nothing while links were cut gives up by then
        limit_ms = 40 * FETCH_TIMEOUT_MS + SYNCS_TO_ELECT * self.final_sync_ms
        check(self.run_fairly(self._followed, limit_ms), "liveness", f"no leader on slow disks: {self.summary()}")
        leaders, epoch = self.leaders(), max(self.epochs.values())
        for _ in range(5):
            self.propose_any()
            self.run_fairly(lambda: False, self.final_sync_ms)
        same = self.leaders() == leaders and max(self.epochs.values()) == epoch
        check(same, "no disruption", f"{leaders} in {epoch} on slow disks, now {self.summary()}")
        for node in self.all_nodes:
            node.sync_ms = 0

    def _followed(self) -> bool:
        """One leads, has committed a record of its own, and is fetched from by all who are there."""
        leaders = self.leaders()
        if len(leaders) != 1:
            return False
        leader = self.nodes[leaders[0]].machine
        assert leader is not None
        machines = [node.machine for node in self.all_nodes if node.machine is not None]
        return leader.log.epoch_before(leader.high_watermark) == leader.epoch and all(
            machine.leader == leader.leader and machine.epoch == leader.epoch for machine in machines
        )

    # Steps

    def any_node(self) -> Node:
        return self.nodes[self.below(len(self.nodes)) + 1]

    def progress(self) -> None:
        """Something that was begun goes on: an effect (or all) of a node, a write to a disk, or a delivery."""
        random, wire, nodes = self.random, self.wire, self.all_nodes
        if not wire or random() < 0.5:
            busy = [node for node in nodes if node.queue]
            if busy:
                node = busy[int(random() * len(busy))]
                kind = random()
                if kind < 0.1:
                    node.do_one_at_once()
                elif kind < 0.4:
                    node.do_one()
                else:
                    node.do_all()
                return
        if not wire or random() < self.flush_rate:
            unflushed = [node for node in nodes if node.appended is not None or node.persisting is not None]
            if unflushed:
                node = unflushed[int(random() * len(unflushed))]
                if node.persisting is not None and (node.appended is None or random() < 0.5):
                    node.persist()
                else:
                    node.flush()
                return
        if wire:
            self.deliver(wire.pop(0 if random() < self.orderly else int(random() * len(wire))))
        else:
            self.pass_time()

    def lose_packet(self) -> None:
        """Sometimes the sender notices."""
        if self.wire:
            packet = self.wire.pop(self.below(len(self.wire)))
            if packet.is_request and self.below(2):
                self.break_connection(packet.source, packet.target)

    def double_packet(self) -> None:
        if self.wire and len(self.wire) < 60:
            self.wire.append(self.wire[self.below(len(self.wire))])

    def pass_time(self) -> None:
        """To the next deadline, or a little, or (one node's clock only: it was slow) to a later deadline."""
        due = self.deadlines()
        if not due:
            return
        if self.below(3) == 0:
            self.now_ms += self.below(15)
        else:
            at, node_id = due[0] if self.below(4) else due[self.below(len(due))]
            self.now_ms = max(self.now_ms, at)
            self.tick(node_id)

    def propose_any(self) -> None:
        for leader in self.leaders():
            self.next_value += 2
            self.propose(leader, [self.next_value - 1, self.next_value][: 1 + self.below(2)])

    def crash_any(self) -> None:
        """Anyone, but rather a leader, or a node in the middle of its effects."""
        aims = [[self.nodes[n] for n in self.leaders()], [node for node in self.all_nodes if node.queue]]
        aim = (aims[self.below(2)] if self.below(4) else []) or self.all_nodes
        node = aim[self.below(len(aim))]
        if node.machine is not None:
            self.crash(node.node_id, self.below(node.disk.end_offset + 1), self.below(2) == 0)
            for other in self.nodes:
                if other != node.node_id and self.below(2):
                    self.break_connection(other, node.node_id)

    def restart_any(self) -> None:
        node = self.any_node()
        if node.machine is None:
            node.start()

    def damage_any(self) -> None:
        """A node comes back with part of its flushed log lost; one at a time, as with more nobody may lead."""
        node = self.any_node()
        disk = node.disk
        if self._may_lose(node) and disk.records:
            self.crash(node.node_id)
            latest = max((key.offset for key in disk.snapshots), default=0)
            disk.truncate_to(max(latest, disk.start_offset + self.below(len(disk.records) + 1)))
            disk.repair_mark = True
            self.impaired.add(node.node_id)
            self.wire = [packet for packet in self.wire if packet.source != node.node_id]  # its connections are gone
            node.start()

    def wipe_any(self) -> None:
        """A voter comes back with another disk, on which there is nothing."""
        node = self.any_node()
        if self._may_lose(node):
            self.wipe(node)
            node.start()

    def wipe_two(self) -> None:
        """Two voters at once, where another has all that was committed, and knows of the last epoch."""
        two = [self.nodes[voter] for voter in self.rng.sample(self.voters.ids, min(2, len(self.voters)))]
        others = [self.nodes[voter] for voter in self.voters.ids if self.nodes[voter] not in two]
        if all(map(self._may_lose, two)) and any(map(self._knows_all, others)):
            for node in two:
                self.wipe(node)
            for node in two:
                node.start()

    def _knows_all(self, node: Node) -> bool:
        knows_epoch = node.disk.election.epoch == max(self.epochs.values())
        return knows_epoch and bool(self.committed) and self._on_disk(node, len(self.committed), self.committed[-1][0])

    def _may_lose(self, node: Node) -> bool:
        """One at a time, and only once all voters know what they have."""
        voters = [self.nodes[voter] for voter in self.voters.ids]
        if self.impaired or node not in voters or len(voters) == 1:
            return False
        return not any(one.disk.new_mark for one in voters)

    def cut_any(self) -> None:
        """A link goes silent one way or both, or a node is cut off."""
        node, other = self.any_node().node_id, self.any_node().node_id
        self.cuts.add((node, other))
        kind = self.below(3)
        if kind:
            self.cuts.add((other, node))
        if kind == 2:
            self.cuts |= {pair for peer in self.nodes for pair in ((node, peer), (peer, node))}

    def heal_any(self) -> None:
        if self.cuts and self.below(2):
            self.cuts.remove(sorted(self.cuts)[self.below(len(self.cuts))])
        else:
            self.cuts.clear()

    def break_any(self) -> None:
        self.break_connection(self.any_node().node_id, self.any_node().node_id)

    def resign_any(self) -> None:
        for leader in self.leaders():
            self.call(leader, lambda machine: machine.resign(self.now_ms))

    def snapshot_any(self) -> None:
        node = self.any_node()
        if node.machine is not None and not node.queue:
            node.create_snapshot()


class Stability(CheckedSimulation):
    """A healthy majority and one follower that is cut off and comes back, again and again: nothing may come of it.

    ``no disruption``: leader and epoch stay (KIP-996).
    """

    def __init__(self, seed: int) -> None:
        choice = random.Random(seed)
        super().__init__(choice.choice((3, 5)), 0, seed, quick_config(3))

    def run(self, rounds: int) -> None:
        self.start()
        self._let_pass(200)
        leaders, epoch = self.leaders(), max(self.epochs.values())
        check(len(leaders) == 1, "liveness", "no leader at the start")
        for _ in range(rounds):
            others = [n for n in self.nodes if n not in leaders]
            self._cut_off(others[self.below(len(others))], leaders[0])
            self._let_pass(self.below(4 * FETCH_TIMEOUT_MS))
            self.cuts.clear()
            self._let_pass(self.below(2 * FETCH_TIMEOUT_MS))
            same = self.leaders() == leaders and max(self.epochs.values()) == epoch
            check(same, "no disruption", f"{leaders} in {epoch}, now {self.leaders()} in {max(self.epochs.values())}")

    def _cut_off(self, victim: int, leader: int) -> None:
        """From everybody or from the leader; both ways, or deaf."""
        peers = [leader] if self.below(2) else list(self.nodes)
        self.cuts = {(peer, victim) for peer in peers}
        if self.below(2):
            self.cuts |= {(victim, peer) for peer in peers}

    def _let_pass(self, time_ms: int) -> None:
        """Time passes; the leader is given something to append now and then (never: then all logs stay equal)."""
        for _ in range(3):
            for leader in self.leaders() if self.below(3) == 0 else []:
                self.propose(leader, [self.now_ms])
            self.run_fairly(lambda: False, time_ms // 3)


def _summary(node: Node) -> str:
    machine = node.machine
    if machine is None:
        return f"{node.node_id}:down"
    return f"{node.node_id}:{machine.role[:4]}/{machine.epoch}/{node.disk.end_offset}/{machine.high_watermark}"


def run_schedule(seed: int) -> None:
    """Run one schedule; an InvariantViolationError, or what the machine itself asserts."""
    Schedule(seed).run()


def run_stability(seed: int) -> None:
    """Run one schedule of a node that comes and goes."""
    Stability(seed).run(rounds=6)


def trace_of(seed: int) -> str:
    """Every step of a schedule, with what it violated at its end."""
    schedule = Schedule(seed)
    schedule.trace = []
    try:
        schedule.run()
    except Exception as violation:
        schedule.trace.append(f"VIOLATION: {violation!r}")
    return "\n".join(schedule.trace)
