"""Leader: appends, serves fetches, and decides what is committed.

Theory (Raft 5.3, 5.4; KIP-595):

- It begins its epoch with a LeaderChange record. The high watermark is the largest offset that a majority of voters
  has on disk; the leader counts up to its own flushed offset. It moves only past that first record: entries of former
  epochs are committed by a later one of this epoch, never by counting alone (Raft, figure 8).
- Followers may get records that the leader has not flushed yet: the disks work at the same time. A leader that crashes
  and loses them never leads this epoch again, so no other record takes their place.
- A fetch whose log end is not in the leader's log gets the point of divergence. A fetch below the log start gets the
  id of the snapshot. Any other fetch claims whole batches on its sender's disk, or is refused.
- A fetch without new records and without a new high watermark is parked, one per replica, until there is news or its
  time is over.
- Check quorum (KAFKA-15489): after 1.5 fetch timeouts without fetches of a majority the leader resigns. The others
  have another leader by then, and this one could commit nothing.
- Voters that do not fetch get BeginQuorumEpoch again and again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import ClassVar

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch
from minikafka.raft.core import Core
from minikafka.raft.effects import Append, AppendLeaderChange, BecameLeader, LostLeadership, ReadLog, ReadSnapshot
from minikafka.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from minikafka.raft.progress import ParkedFetch, QuorumReplica, ReplicaProgress
from minikafka.raft.role import UNKNOWN_MS, Role, ToResigned, Transition
from minikafka.raft.voters import majority_value


class Leader(Role):
    """See the module's docstring."""

    NAME: ClassVar[str] = "leader"

    def __init__(self, core: Core, now_ms: int, granted_by: tuple[int, ...]) -> None:
        super().__init__(core)
        self.epoch = core.epoch
        self.epoch_start_offset = core.log.log_end_offset
        self._granted_by = granted_by
        self._voters = {voter: ReplicaProgress(now_ms) for voter in core.voters.others(core.node_id)}
        self._observers: dict[int, ReplicaProgress] = {}
        self._parked: dict[int, ParkedFetch] = {}
        self._begin_at_ms = dict.fromkeys(self._voters, now_ms)
        self._batch_ends: list[int] = []  # of this epoch, above the high watermark

    def enter(self, now_ms: int) -> Transition | None:
        core = self.core
        core.failed_rounds = 0
        if core.is_new:  # elected by all, or before any record existed
            core.complete_repair(core.node_id)
        core.emit(BecameLeader(self.epoch, self.epoch_start_offset))
        self._append(self.epoch_start_offset + 1)
        voters = core.voters.ids
        core.emit(AppendLeaderChange(self.epoch_start_offset, self.epoch, core.node_id, voters, self._granted_by))
        self._tell_voters(now_ms)
        return None

    def leave(self) -> None:
        self.core.emit(LostLeadership(self.epoch))
        for parked in self._parked.values():
            self.core.answer(parked.token, FetchRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def may_pre_vote(self, now_ms: int) -> bool:
        return False

    # Time

    def next_deadline_ms(self) -> int | None:
        due = [parked.deadline_ms for parked in self._parked.values()]
        due += [at for voter, at in self._begin_at_ms.items() if voter not in self._parked]
        due += [self._check_quorum_deadline_ms()] if self._voters else []
        return min(due, default=None)

    def tick(self, now_ms: int) -> Transition | None:
        if self._voters and now_ms >= self._check_quorum_deadline_ms():
            return self.resignation()
        self._release_parked(now_ms, expired_only=True)
        self._tell_voters(now_ms)
        return None

    def _check_quorum_deadline_ms(self) -> int:
        """When check quorum ends the leadership, unless a majority, including ourselves, fetches before."""
        return self._heard_ms() + self.core.config.check_quorum_timeout_ms

    def _heard_ms(self) -> int:
        """When a majority, including ourselves, had fetched last."""
        times = sorted((progress.last_fetch_ms for progress in self._voters.values()), reverse=True)
        return times[self.core.voters.majority - 2]

    def known_until_ms(self, now_ms: int) -> int:
        """By then no other leader had committed a record; our own commits are known at once.

        Commits of a former leader are known once a record of this epoch is committed.
        """
        if self.core.high_watermark <= self.epoch_start_offset:
            return UNKNOWN_MS
        return self._heard_ms() if self._voters else now_ms

    def _tell_voters(self, now_ms: int) -> None:
        core = self.core
        for voter, at_ms in self._begin_at_ms.items():
            if now_ms >= at_ms and voter not in self._parked:
                core.send(voter, BeginQuorumEpochRequest(core.cluster_id, core.node_id, self.epoch), at_once=True)
                self._put_off_telling(voter, now_ms)

    def _put_off_telling(self, replica_id: int, now_ms: int) -> None:
        if replica_id in self._begin_at_ms:
            self._begin_at_ms[replica_id] = now_ms + self.core.config.begin_quorum_interval_ms

    def resignation(self) -> Transition:
        """Resign, naming the other voters: the most complete log first."""
        order = sorted(self._voters, key=lambda voter: (-self._voters[voter].end_offset, voter))
        return ToResigned(tuple(order))

    # Appends and commits

    def propose(self, values: tuple[bytes, ...], now_ms: int) -> int:
        """Append one batch. Returns the offset after it: once the high watermark reaches it, the batch is committed."""
        core = self.core
        base_offset = core.log.log_end_offset
        if base_offset + len(values) - core.high_watermark > core.config.max_uncommitted_records:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{base_offset - core.high_watermark} metadata records wait for a majority of the voters; retry later",
            )
        self._append(base_offset + len(values))
        core.emit(Append(base_offset, self.epoch, values))
        self._release_parked(now_ms)
        return core.log.log_end_offset

    def _append(self, end_offset: int) -> None:
        self.core.log.append(end_offset, self.epoch)
        self._batch_ends.append(end_offset)

    def on_flushed(self, now_ms: int) -> None:
        self._maybe_commit(now_ms)

    def _maybe_commit(self, now_ms: int) -> None:
        offset = self._majority_offset()
        if offset > self.epoch_start_offset and self.core.advance_high_watermark(offset):
            del self._batch_ends[: bisect_right(self._batch_ends, offset)]
            self._release_parked(now_ms)

    def _majority_offset(self) -> int:
        return majority_value([self.core.log.flushed_offset, *(p.end_offset for p in self._voters.values())])

    # Fetches

    def on_fetch(self, token: object, request: FetchRequest, now_ms: int) -> Transition | None:
        core, log = self.core, self.core.log
        replica = self._heard_from(request.replica_id, now_ms)
        if log.needs_snapshot(request.end):
            self._touch(replica, now_ms)
            self._respond(token, snapshot_id=self._snapshot_id())
        elif (diverging := self._divergence(request.end)) is not None:
            self._touch(replica, now_ms)
            self._respond(token, diverging=diverging)
        elif not self._may_end_at(request.end.offset):
            core.answer(token, FetchRequest, ErrorCode.INVALID_REQUEST)
        else:
            if replica is not None:
                replica.record_fetch(request.end.offset, log.log_end_offset, now_ms)
            self._maybe_commit(now_ms)
            self._answer_or_park(token, request, now_ms)
        return None

    def _may_end_at(self, offset: int) -> bool:
        """False inside an uncommitted batch: counting it would commit a part of the batch.

        Offsets below the high watermark commit nothing; reading shows the batch they lie in.
        """
        if offset <= max(self.core.high_watermark, self.epoch_start_offset):
            return True
        at = bisect_left(self._batch_ends, offset)
        return at < len(self._batch_ends) and self._batch_ends[at] == offset

    def _divergence(self, end: OffsetAndEpoch) -> OffsetAndEpoch | None:
        return self.core.log.divergence(end)

    def _heard_from(self, replica_id: int, now_ms: int) -> ReplicaProgress | None:
        """The replica's progress. A new observer is added while there is room. Its earlier parked fetch is dropped."""
        superseded = self._parked.pop(replica_id, None)
        if superseded is not None:
            self._respond(superseded.token)
        self._put_off_telling(replica_id, now_ms)
        if replica_id in self._voters:
            return self._voters[replica_id]
        if replica_id not in self._observers and not self._make_room(now_ms):
            return None
        return self._observers.setdefault(replica_id, ReplicaProgress(now_ms))

    def _make_room(self, now_ms: int) -> bool:
        config = self.core.config
        if len(self._observers) >= config.max_observers:
            horizon = now_ms - config.check_quorum_timeout_ms
            self._observers = {r: p for r, p in self._observers.items() if p.last_fetch_ms >= horizon}
        return len(self._observers) < config.max_observers

    def _touch(self, replica: ReplicaProgress | None, now_ms: int) -> None:
        if replica is not None:
            replica.last_fetch_ms = now_ms

    def _snapshot_id(self) -> OffsetAndEpoch:
        assert self.core.log.snapshot is not None, "a log that starts above 0 has a snapshot"
        return self.core.log.snapshot.snapshot_id

    def _answer_or_park(self, token: object, request: FetchRequest, now_ms: int) -> None:
        core = self.core
        wait_ms = min(request.max_wait_ms, core.config.fetch_max_wait_ms)
        news = request.end.offset < core.log.log_end_offset or request.high_watermark < core.high_watermark
        known = request.replica_id in self._voters or request.replica_id in self._observers
        if news or wait_ms == 0 or not known:
            self._serve(token, request)
        else:
            self._parked[request.replica_id] = ParkedFetch(token, request, now_ms + wait_ms)

    def _release_parked(self, now_ms: int, expired_only: bool = False) -> None:
        for replica_id, parked in list(self._parked.items()):
            if not expired_only or now_ms >= parked.deadline_ms:
                del self._parked[replica_id]
                self._put_off_telling(replica_id, now_ms)
                self._serve(parked.token, parked.request)

    def _serve(self, token: object, request: FetchRequest) -> None:
        offset = request.end.offset
        max_bytes = min(request.max_bytes, self.core.config.fetch_max_bytes)
        wanted = max_bytes > 0 and offset < self.core.log.log_end_offset
        self._respond(token, read=ReadLog(offset, max_bytes) if wanted else None)

    def _respond(
        self,
        token: object,
        diverging: OffsetAndEpoch | None = None,
        snapshot_id: OffsetAndEpoch | None = None,
        read: ReadLog | None = None,
    ) -> None:
        core = self.core
        none = ErrorCode.NONE
        message = FetchResponse(none, self.epoch, core.node_id, core.high_watermark, diverging, snapshot_id)
        core.respond(token, message, read)

    def on_fetch_snapshot(self, token: object, request: FetchSnapshotRequest, now_ms: int) -> None:
        core = self.core
        self._touch(self._heard_from(request.replica_id, now_ms), now_ms)
        snapshot = core.log.snapshot
        if snapshot is None or snapshot.snapshot_id != request.snapshot_id:
            core.answer(token, FetchSnapshotRequest, ErrorCode.SNAPSHOT_NOT_FOUND)
        elif request.position > snapshot.size_bytes:
            core.answer(token, FetchSnapshotRequest, ErrorCode.POSITION_OUT_OF_RANGE)
        else:
            max_bytes = min(request.max_bytes, core.config.snapshot_chunk_bytes)
            none = ErrorCode.NONE
            message = FetchSnapshotResponse(none, self.epoch, core.node_id, snapshot.size_bytes, request.position)
            core.respond(token, message, ReadSnapshot(request.snapshot_id, request.position, max_bytes))

    # for DescribeQuorum

    def voter_states(self, now_ms: int) -> tuple[QuorumReplica, ...]:
        """Every voter's progress, our own included, in order of id."""
        core = self.core
        ours = QuorumReplica(core.node_id, core.log.log_end_offset, now_ms, now_ms)
        return tuple(sorted([ours, *_states(self._voters.items())]))

    def observer_states(self) -> tuple[QuorumReplica, ...]:
        """The observers' progress, in order of id."""
        return tuple(sorted(_states(self._observers.items())))


def _states(replicas: Iterable[tuple[int, ReplicaProgress]]) -> list[QuorumReplica]:
    return [QuorumReplica(r, p.end_offset, p.last_fetch_ms, p.last_caught_up_ms) for r, p in replicas]
