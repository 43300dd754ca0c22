"""One node of the quorum: the machine that a driver feeds with events. See the package's docstring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE, OffsetAndEpoch
from minikafka.raft.core import Core
from minikafka.raft.effects import AdvanceLogStart, Effect
from minikafka.raft.follower import Follower
from minikafka.raft.leader import Leader
from minikafka.raft.log import LogSummary, Snapshot
from minikafka.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
    epoch_of,
    sender_of,
)
from minikafka.raft.progress import QuorumInfo
from minikafka.raft.quorum import QuorumState
from minikafka.raft.role import UNKNOWN_MS, ToUnattached
from minikafka.raft.state import ElectionState

_FETCHES: Final = (FetchRequest, FetchSnapshotRequest)  # requests of any node; the others are among voters
EPOCH_STEP_MAX: Final = 1 << 24
"""News of an epoch further ahead is not believed: epochs end at 2^31 - 1, and who went there by one wrong message could
never be elected again. Elections alone take years for so many."""


class RaftNode:
    """One node of the quorum; the package's docstring has the driver's contract.

    Every method for an event returns effects, to be carried out in order. ``now_ms`` is monotonic.
    """

    def __init__(self, core: Core) -> None:
        """ValueError when the election state is older than the log: it was lost, perhaps with a vote."""
        if core.log.last_epoch > core.epoch and not core.vote_disabled:
            raise ValueError(
                f"quorum-state says epoch {core.epoch} but the log reaches epoch {core.log.last_epoch}: "
                "quorum-state was lost; start with voting disabled until the log is repaired from the leader"
            )
        self._core = core
        self._quorum = QuorumState(self._core)

    # queries

    @property
    def role(self) -> str:
        """The role's name: unattached, prospective, candidate, leader, resigned or follower."""
        return self._quorum.role.NAME

    @property
    def epoch(self) -> int:
        """The highest epoch seen."""
        return self._core.election.epoch

    @property
    def leader(self) -> int | None:
        """The leader of that epoch, if known."""
        return self._core.leader

    @property
    def high_watermark(self) -> int:
        """Records below it are committed, as far as known."""
        return self._core.high_watermark

    def known_until_ms(self, now_ms: int) -> int:
        """All metadata committed by then is below :attr:`high_watermark`. :data:`UNKNOWN_MS` when unknown.

        A process that was stopped for a while knows less than it seems to, until the answer to its next fetch. Commits
        of a later epoch that this node has not heard of do not count. A new leader's high watermark may be an old one:
        the time is unknown until it is of the leader's own epoch.
        """
        role = self._quorum.role
        if isinstance(role, Leader):
            return role.known_until_ms(now_ms)
        return role.known_until_ms if isinstance(role, Follower) else UNKNOWN_MS

    @property
    def log(self) -> LogSummary:
        """Summary of the log, including all emitted effects. Read only."""
        return self._core.log

    @property
    def election(self) -> ElectionState:
        """Epoch, vote and leader."""
        return self._core.election

    @property
    def vote_disabled(self) -> bool:
        """True while a damaged log is being repaired."""
        return self._core.vote_disabled

    @property
    def is_new(self) -> bool:
        """True until the log certainly has every record that this voter may have acknowledged on an earlier disk."""
        return self._core.is_new

    def describe(self, now_ms: int) -> QuorumInfo:
        """The answer to DescribeQuorum; only the leader knows the replicas' progress."""
        role, core = self._quorum.role, self._core
        voters = role.voter_states(now_ms) if isinstance(role, Leader) else ()
        observers = role.observer_states() if isinstance(role, Leader) else ()
        return QuorumInfo(
            NO_NODE if core.leader is None else core.leader, core.epoch, core.high_watermark, voters, observers
        )

    # Events

    def start(self, now_ms: int) -> list[Effect]:
        """The first call. A single voter elects itself here."""
        self._quorum.start(now_ms)
        return self._core.take_effects()

    def next_deadline_ms(self) -> int | None:
        """The time of the next ``tick``; None: not before another event. Each event may change it."""
        return self._quorum.role.next_deadline_ms()

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed. Early or late calls are harmless."""
        self._quorum.switch(self._quorum.role.tick(now_ms), now_ms)
        return self._core.take_effects()

    def on_flushed(self, end: OffsetAndEpoch, now_ms: int) -> list[Effect]:
        """The log is on disk up to ``end`` (the ``end`` of the last append effect the fsync covered)."""
        if self._core.log.mark_flushed(end):
            self._quorum.role.on_flushed(now_ms)
        return self._core.take_effects()

    def on_election_durable(self, state: ElectionState, now_ms: int) -> list[Effect]:
        """``quorum-state`` holds ``state`` on disk: a ``PersistElection`` is done."""
        core = self._core
        was_durable = core.is_durable
        core.on_election_durable(state)
        if core.is_durable and not was_durable:
            self._quorum.switch(self._quorum.role.on_election_durable(now_ms), now_ms)
        return core.take_effects()

    def propose(self, values: Sequence[bytes], now_ms: int) -> tuple[int, list[Effect]]:
        """As leader, append one atomic batch of record values.

        Returns the offset after it: the batch is committed once the high watermark reaches it while this node still
        leads the same epoch. KafkaError(NOT_CONTROLLER) on any other node, naming the leader.
        """
        role = self._quorum.role
        if not isinstance(role, Leader):
            known = "not known" if self.leader is None else f"node {self.leader}"
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"this node does not lead the metadata quorum; the leader is {known}"
            )
        if not values:
            raise ValueError("a batch holds at least one record")
        end_offset = role.propose(tuple(values), now_ms)
        return end_offset, self._core.take_effects()

    def resign(self, now_ms: int) -> list[Effect]:
        """Hand leadership over (controlled shutdown). No effect on a node that does not lead."""
        if isinstance(self._quorum.role, Leader):
            self._quorum.switch(self._quorum.role.resignation(), now_ms)
        return self._core.take_effects()

    def on_snapshot_created(self, snapshot: Snapshot) -> list[Effect]:
        """A snapshot of the applied state is on disk. Records below the *former* snapshot may go: a follower slightly
        behind this one still finds its records in the log (KIP-630).
        """
        core, log = self._core, self._core.log
        former = log.snapshot
        if former is not None and snapshot.snapshot_id.offset <= former.snapshot_id.offset:
            return []  # the leader's snapshot is later
        offset, epoch = snapshot.snapshot_id
        assert offset <= min(core.high_watermark, log.flushed_offset), "snapshots hold committed, flushed records"
        assert log.epoch_before(offset) == epoch, "a snapshot is named by the epoch of its last record"
        log.snapshot = snapshot
        if former is not None and former.snapshot_id.offset > log.log_start.offset:
            log.advance_log_start(former.snapshot_id)
            core.emit(AdvanceLogStart(former.snapshot_id.offset))
        return core.take_effects()

    def on_connection_lost(self, peer: int, refused: bool, now_ms: int) -> list[Effect]:
        """The connection to ``peer`` broke or failed; its pending requests get no answer.

        ``refused``: the peer's host refused the connection, so the process is gone.
        """
        self._quorum.switch(self._quorum.role.on_connection_lost(peer, refused, now_ms), now_ms)
        return self._core.take_effects()

    def on_response(self, peer: int, request_id: int, message: Response, now_ms: int) -> list[Effect]:
        """The answer to the request with ``request_id``."""
        if self._is_too_far(message.leader_epoch):
            return self.on_connection_lost(peer, False, now_ms)
        if isinstance(message, VoteResponse) and message.tells_of_records:
            self._core.knows_of_records = True
        if not self._quorum.learn(message.leader_epoch, message.leader_id, peer, now_ms):
            self._quorum.switch(self._quorum.role.on_response(peer, request_id, message, now_ms), now_ms)
        return self._core.take_effects()

    def on_request(self, token: object, message: Request, now_ms: int) -> list[Effect]:
        """A request. It gets exactly one ``Respond`` with its token, at once or later."""
        error = self._refusal(message)
        if error is not ErrorCode.NONE:
            self._core.answer(token, type(message), error)
        elif isinstance(message, VoteRequest):
            self._on_vote(token, message, now_ms)
        elif isinstance(message, BeginQuorumEpochRequest):
            self._on_begin_quorum_epoch(token, message, now_ms)
        elif isinstance(message, EndQuorumEpochRequest):
            self._on_end_quorum_epoch(token, message, now_ms)
        else:
            self._on_fetch(token, message, now_ms)
        return self._core.take_effects()

    # Requests

    def _refusal(self, message: Request) -> ErrorCode:
        """The error of a request that is wrong in any state, or NONE."""
        core, sender = self._core, sender_of(message)
        if message.cluster_id != core.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if sender == core.node_id or self._is_too_far(epoch_of(message)):
            return ErrorCode.INVALID_REQUEST
        if not isinstance(message, _FETCHES) and not (core.is_voter and sender in core.voters):
            return ErrorCode.INCONSISTENT_VOTER_SET
        return ErrorCode.NONE

    def _is_too_far(self, epoch: int) -> bool:
        return epoch > self.epoch + EPOCH_STEP_MAX

    def _on_vote(self, token: object, request: VoteRequest, now_ms: int) -> None:
        core = self._core
        error = ErrorCode.NONE if request.epoch >= core.epoch else ErrorCode.FENCED_LEADER_EPOCH
        granted = False
        if not request.is_blank:
            core.knows_of_records = True
        if not error:
            self._quorum.learn(request.epoch, None, request.candidate_id, now_ms)
            granted = self._grants(request, now_ms)
        if granted and not request.pre_vote:
            # Also for a repeated grant: the candidate has an election timeout from now on.
            self._quorum.switch(ToUnattached(core.epoch, request.candidate_id), now_ms)
        is_provisional = core.is_provisional(is_candidate_blank=request.is_blank)
        is_blank = request.is_blank and core.is_blank and not granted
        answer = VoteResponse(error, core.epoch, core.leader, granted, is_provisional, is_blank)
        core.respond(token, answer, is_vote=granted and not request.pre_vote)

    def _grants(self, request: VoteRequest, now_ms: int) -> bool:
        """Grant a log at least as complete as ours (Raft 5.4.1), and one vote per epoch."""
        core, role = self._core, self._quorum.role
        if not core.may_campaign or not self._is_up_to_date(request.last):
            return False
        if request.is_blank and not core.is_blank:
            return False  # this cluster had records, and the candidate may have lost them
        if request.pre_vote:
            # The election whose vote is being written here may still be won.
            is_voting = core.election.voted_for is not None and not core.is_durable
            return role.may_pre_vote(now_ms) and not is_voting
        return role.may_vote() and core.election.voted_for in (None, request.candidate_id)

    def _is_up_to_date(self, last: OffsetAndEpoch) -> bool:
        ours = self._core.log.end
        return (last.epoch, last.offset) >= (ours.epoch, ours.offset)

    def _on_begin_quorum_epoch(self, token: object, request: BeginQuorumEpochRequest, now_ms: int) -> None:
        error = ErrorCode.NONE
        if request.leader_epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif not self._quorum.learn(request.leader_epoch, request.leader_id, request.leader_id, now_ms):
            self._quorum.role.on_begin_quorum_epoch(request.leader_id, now_ms)
        self._core.answer(token, BeginQuorumEpochRequest, error)

    def _on_end_quorum_epoch(self, token: object, request: EndQuorumEpochRequest, now_ms: int) -> None:
        error = ErrorCode.NONE
        if request.leader_epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif not self._quorum.learn(request.leader_epoch, None, request.leader_id, now_ms):
            self._quorum.switch(self._quorum.role.on_end_quorum_epoch(request, now_ms), now_ms)
        self._core.answer(token, EndQuorumEpochRequest, error)

    def _on_fetch(self, token: object, request: FetchRequest | FetchSnapshotRequest, now_ms: int) -> None:
        role, core = self._quorum.role, self._core
        if not isinstance(role, Leader):
            core.answer(token, type(request), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif request.leader_epoch < core.epoch:
            core.answer(token, type(request), ErrorCode.FENCED_LEADER_EPOCH)
        elif request.leader_epoch > core.epoch:
            # A voter does not come back from a later epoch, so we go there. An observer has only heard of it.
            if request.replica_id in core.voters:
                self._quorum.learn(request.leader_epoch, None, request.replica_id, now_ms)
            core.answer(token, type(request), ErrorCode.UNKNOWN_LEADER_EPOCH)
        elif isinstance(request, FetchRequest):
            role.on_fetch(token, request, now_ms)
        else:
            role.on_fetch_snapshot(token, request, now_ms)
