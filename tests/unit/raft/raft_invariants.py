"""What must hold after every step of every schedule. Each violation names its invariant.

election safety        at most one leader in an epoch
one vote               a voter gives at most one vote in an epoch, across restarts
log matching           records with equal (offset, epoch) are equal, and so are the ones before them
commit by majority     what a leader declares committed is on the disks of a majority, and no two commits differ
leader completeness    every committed record is in the log of every later leader
state machine safety   every node applies the same records
known until            a node that claims to know what was committed by some time does, up to its own epoch
monotonicity           epochs never fall, on disk or in memory; a high watermark never falls in a node's life
durability             a fetch claims no more than the sender's disk holds, in the epoch it holds; a leader's disk
                       holds its own vote
"""

from __future__ import annotations

from raft_simulation import Disk, Node, Packet, Record, Simulation

import minikafka.raft.effects as fx
from minikafka.raft.messages import FetchRequest, VoteRequest, VoteResponse

Appended = fx.Append | fx.AppendLeaderChange | fx.AppendFetched


class InvariantViolationError(AssertionError):
    """A named invariant does not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


def check(holds: bool, invariant: str, detail: str) -> None:
    if not holds:
        raise InvariantViolationError(invariant, detail)


class CheckedSimulation(Simulation):
    """A simulation that checks the invariants whenever a machine has spoken and whenever its driver has acted."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.leader_of: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}  # (voter, epoch) -> candidate
        self.committed: list[Record] = []
        self.committed_in: list[tuple[int, int]] = []  # of each record, when and in which leader's epoch it was
        self.before: dict[tuple[int, int], tuple[int, int]] = {}  # (offset, epoch) -> (value, epoch before)
        self.epochs = dict.fromkeys(self.nodes, 0)
        self.high_watermarks = dict.fromkeys(self.nodes, 0)
        self.impaired: set[int] = set()  # nodes whose disk lost what it had acknowledged, not repaired yet

    def crash(self, node_id: int, kept_offset: int | None = None, kept_election: bool = False) -> None:
        super().crash(node_id, kept_offset, kept_election)
        self.epochs[node_id] = self.nodes[node_id].disk.election.epoch
        self.high_watermarks[node_id] = 0

    def wipe(self, node: Node) -> None:
        """The node's process dies, and it is given another disk, on which there is nothing."""
        self.crash(node.node_id)
        node.disk = Disk(new_mark=True)
        self.epochs[node.node_id] = 0
        self.votes = {key: candidate for key, candidate in self.votes.items() if key[0] != node.node_id}
        self.impaired.add(node.node_id)
        self.wire = [packet for packet in self.wire if packet.source != node.node_id]

    # The machine has spoken

    def on_effects(self, node: Node, effects: list[fx.Effect]) -> None:
        assert node.machine is not None
        epoch, known = node.machine.epoch, self.epochs[node.node_id]
        if epoch != known:
            check(epoch > known, "monotonicity", f"epoch of node {node.node_id}")
            self.epochs[node.node_id] = epoch
        for effect in effects:
            kind = type(effect)
            if kind is fx.BecameLeader:
                self._check_leader(node, effect.epoch)
            elif kind is fx.HighWatermark:
                self._check_high_watermark(node, effect.offset)
        self._check_known(node)

    def _check_known(self, node: Node) -> None:
        """What was committed at that very moment may have been so before or after."""
        machine = node.machine
        assert machine is not None
        offset, known_ms = machine.high_watermark, machine.known_until_ms(self.now_ms)
        if offset < len(self.committed_in):
            at_ms, epoch = self.committed_in[offset]
            knows = at_ms >= known_ms or epoch > machine.epoch
            check(knows, "known until", f"{node.node_id} knows all until {known_ms}, not {offset} of {at_ms}")

    def _check_high_watermark(self, node: Node, offset: int) -> None:
        assert node.machine is not None
        check(offset > self.high_watermarks[node.node_id], "monotonicity", f"high watermark of node {node.node_id}")
        self.high_watermarks[node.node_id] = offset
        if node.machine.role == "leader":
            self._check_commit(node, offset)

    def _check_leader(self, node: Node, epoch: int) -> None:
        leader = self.leader_of.setdefault(epoch, node.node_id)
        check(leader == node.node_id, "election safety", f"{leader} and {node.node_id} lead epoch {epoch}")
        self._check_one_vote(node.node_id, epoch, node.node_id)
        stood = node.disk.election[:2]
        check(stood == (epoch, node.node_id), "durability", f"{node.node_id} leads {epoch}, its disk says {stood}")
        self._check_complete(node)

    def _check_complete(self, node: Node) -> None:
        """The last committed record is in the log; by log matching, so are all before it."""
        if not self.committed or node.machine is None:
            return
        offset, epoch = len(self.committed), self.committed[-1][0]
        log = node.machine.log
        covered = log.log_start.offset >= offset
        complete = covered or (log.log_end_offset >= offset and log.epoch_before(offset) == epoch)
        check(complete, "leader completeness", f"leader {node.node_id} lacks the record before {offset}")

    def _check_commit(self, node: Node, offset: int) -> None:
        known = len(self.committed)
        if offset <= known:
            return
        records = node.disk.read(max(known, node.disk.start_offset), offset)
        assert node.machine is not None
        self.committed += records
        self.committed_in += [(self.now_ms, node.machine.epoch)] * len(records)
        check(len(self.committed) == offset, "commit by majority", f"leader {node.node_id} lacks what it commits")
        holders = [n for n in self.voters.ids if self._on_disk(self.nodes[n], offset, records[-1][0])]
        enough = len(holders) + len(self.impaired) >= self.voters.majority
        check(enough, "commit by majority", f"{node.node_id} commits up to {offset}, which only {holders} hold")
        for other in self.leaders():
            machine = self.nodes[other].machine
            if machine is not None and machine.epoch > records[-1][0]:
                self._check_complete(self.nodes[other])

    def _on_disk(self, node: Node, offset: int, epoch: int) -> bool:
        disk = node.disk
        if disk.flushed_offset < offset:
            return False
        held = disk.read(offset - 1, offset)  # nothing where a damaged log has lost what it had
        return disk.start_offset >= offset or (bool(held) and held[0][0] == epoch)

    # The driver has acted (``looks``, below)

    def _check_matching(self, node: Node, effect: Appended) -> None:
        disk, base_offset = node.disk, effect.base_offset
        previous = self._epoch_before(node, base_offset)
        for offset, (epoch, value) in enumerate(disk.read(base_offset, disk.end_offset), base_offset):
            this = value, previous
            if self.before.setdefault((offset, epoch), this) != this:
                check(False, "log matching", f"node {node.node_id} at {offset} in epoch {epoch}")
            previous = epoch

    def _epoch_before(self, node: Node, offset: int) -> int:
        disk = node.disk
        if offset > disk.start_offset:
            return disk.read(offset - 1, offset)[0][0]
        return self.committed[offset - 1][0] if offset else 0

    def _check_applied(self, node: Node, _: fx.Effect) -> None:
        count = len(node.applied)
        if count > len(self.committed) or node.applied[-8:] != self.committed[max(0, count - 8) : count]:
            check(False, "state machine safety", f"node {node.node_id} applied {count}: {node.applied[-8:]}")

    def _note_repair(self, node: Node, _effect: fx.RepairCompleted) -> None:
        self.impaired.discard(node.node_id)

    def _check_vote(self, node: Node, effect: fx.Respond) -> None:
        if type(effect.message) is not VoteResponse or not effect.message.vote_granted:
            return
        packet = effect.token
        assert isinstance(packet, Packet)
        request = packet.message
        if isinstance(request, VoteRequest) and not request.pre_vote:
            self._check_one_vote(node.node_id, request.epoch, request.candidate_id)

    def _check_sent(self, node: Node, effect: fx.Send) -> None:
        message = effect.message
        if type(message) is FetchRequest:
            end = message.end
            if node.disk.flushed_offset < end.offset or self._epoch_before(node, end.offset) != end.epoch:
                check(False, "durability", f"node {node.node_id} claims {end}, flushed {node.disk.flushed_offset}")

    def _check_one_vote(self, voter: int, epoch: int, candidate: int) -> None:
        given = self.votes.setdefault((voter, epoch), candidate)
        check(given == candidate, "one vote", f"{voter} votes for {given} and {candidate} in epoch {epoch}")


CheckedSimulation.looks = {
    fx.Append: CheckedSimulation._check_matching,
    fx.AppendLeaderChange: CheckedSimulation._check_matching,
    fx.AppendFetched: CheckedSimulation._check_matching,
    fx.HighWatermark: CheckedSimulation._check_applied,
    fx.InstallSnapshot: CheckedSimulation._check_applied,
    fx.Respond: CheckedSimulation._check_vote,
    fx.Send: CheckedSimulation._check_sent,
    fx.RepairCompleted: CheckedSimulation._note_repair,
}
