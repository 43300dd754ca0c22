"""One replica on this node: its role, the condition of its log, and its high watermark.

Every event of the replica is a method here, and every consequence an effect
(:mod:`~minikafka.replication.replica_effects`). No other module decides about the replica. :class:`LeaderState` is the
machine of a leader, :class:`ReplicaFetcher` that of a follower's fetches.

Role::

    IDLE ------ metadata: this node leads -----------> LEADER  ---- another epoch ----> LEADER or FOLLOWER
    IDLE ------ metadata: another leader, or none ---> FOLLOWER --- another epoch ----> LEADER or FOLLOWER
    any  ------ the directory failed ----------------> OFFLINE, until the node starts again
    any  ------ metadata: no replica here -----------> REMOVED

Whether the log can be trusted is a machine of its own (:mod:`~minikafka.replication.replica_condition`). When two logs
differ below a high watermark, one is damaged: :mod:`~minikafka.replication.judging` finds out which.

A **cut** is one job on the disk. The role does not change while it runs: the latest metadata is acted on when the cut
is done. So a log that is being cut is neither appended to, nor led from, nor fetched into.

**Counted records**. With ``flush.messages`` N a leader counts the records that are synced, and at most N - 1 that are
not. Followers need not wait for the leader's disk, but each syncs before its next fetch.

Invariants, asserted: a leader is in no fetcher; only followers cut, one cut at a time; the high watermark never passes
the log end.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import LOST_DIRECTORY, NO_EPOCH, NO_NODE, UNASSIGNED_DIRECTORY, OffsetAndEpoch, TopicPartition
from minikafka.replication import replica_effects as do
from minikafka.replication.fetch_state import UNKNOWN_HIGH_WATERMARK
from minikafka.replication.isr import IsrProposal
from minikafka.replication.judging import Finding, Judge, Verdict, has_epochs_beyond, shared_end
from minikafka.replication.leader import FollowerFetchOutcome, LeaderState
from minikafka.replication.progress import ReplicaProgress
from minikafka.replication.replica_condition import ReplicaCondition
from minikafka.replication.replica_facts import CommittedPartition, LocalLog, ReplicaSettings, Surroundings

Effects = list[do.ReplicaEffect]

NOTHING_MOVED: Final = 0
LOG_END_MOVED: Final = 1
HIGH_WATERMARK_MOVED: Final = 2
SYNC_DUE: Final = 4
"""Result of a write or a sync, as bits: the hot path makes no effects."""
EVERYTHING: Final = 0
"""The offset at which a log is cut of which nothing stays."""


class Role(Enum):
    """This node's role for the partition."""

    IDLE = "idle"
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"
    REMOVED = "removed"


class LocalReplica:
    """See the module. Also the fetcher's view of the log (:class:`~minikafka.replication.epochs.ReplicaLog`)."""

    __slots__ = (
        "_committed",
        "_follower_high_watermark",
        "_is_following",
        "_judge",
        "_local_id",
        "_settings",
        "_surroundings",
        "condition",
        "cut",
        "directory_id",
        "is_directory_told",
        "is_offline",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "role",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        local_id: int,
        log: LocalLog,
        settings: ReplicaSettings,
        surroundings: Surroundings,
        *,
        high_watermark: int,
        damage_offset: int | None = None,
        directory_id: UUID = UNASSIGNED_DIRECTORY,
        is_directory_told: bool = False,
        is_made_anew: bool = False,
    ) -> None:
        """``high_watermark``: as checkpointed. ``damage_offset``: first damaged offset that loading found.

        ``is_made_anew``: the log should have been on disk, but was missing.
        ``is_directory_told``: report the directory even when the cluster knows none (a node with several directories).
        """
        self.topic_partition = topic_partition
        self.log = log
        self.leader: LeaderState | None = None
        self.leader_id = NO_NODE
        self.leader_epoch = NO_EPOCH
        self.role = Role.IDLE
        self.is_offline = False  # its directory failed, or it is gone: nothing can be read or written
        self.condition = ReplicaCondition(local_id, damage_offset, is_made_anew=is_made_anew)
        self._judge = Judge(local_id, self.condition, surroundings)
        self.directory_id = directory_id
        self.is_directory_told = is_directory_told
        self.cut: do.Cut | do.Restart | None = None  # under way
        self._local_id = local_id
        self._settings = settings
        self._surroundings = surroundings
        self._committed: CommittedPartition | None = None
        self._is_following = False  # the partition is in a fetcher
        self._follower_high_watermark = self._clamped(high_watermark)

    # -- the log, as a fetcher sees it ------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """First offset of the log."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset after the last record."""
        return self.log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        """Epoch of the last record."""
        return self.log.latest_epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Row E2: the largest epoch <= ``epoch`` in the local log and its end; (-1, -1) when undefined."""
        return self.log.end_offset_for_epoch(epoch)

    @property
    def high_watermark(self) -> int:
        """First offset a consumer may not read: the leader's and every follower's own (row R24)."""
        if self.leader is not None:
            return self.leader.high_watermark
        return min(self._follower_high_watermark, self.log.log_end_offset)  # a log ends earlier once a cut has begun

    # -- queries ----------------------------------------------------------------------------------------------------

    @property
    def is_followed(self) -> bool:
        """Another node leads, and its records may be appended."""
        return self.role is Role.FOLLOWER and self._is_following and self.cut is None

    @property
    def is_sync_due(self) -> bool:
        """The number of unsynced records has reached ``flush.messages``."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= self._settings.flush_messages

    def acknowledgement_of(self, required_offset: int, leader_epoch: int, *, needs_all: bool) -> ErrorCode | None:
        """Answer to a produce appended in ``leader_epoch`` that ends at ``required_offset``; None: it has to wait.

        ``needs_all``: acks=all waits for the high watermark; acks=1 for the leader's own counted end (rows R23, D4).
        """
        leader = self.leader
        if leader is None or leader.leader_epoch != leader_epoch:
            return ErrorCode.KAFKA_STORAGE_ERROR if self.is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
        reached = leader.high_watermark if needs_all else leader.log_end_offset
        return ErrorCode.NONE if reached >= required_offset else None

    # -- the data path ----------------------------------------------------------------------------------------------

    def on_written(self, now_ms: int) -> int:
        """A leader's log grew, and the high watermark perhaps with it (rows R1, R21): what moved, as bits."""
        leader, log_end_offset = self.leader, self.log.log_end_offset
        if log_end_offset - self.log.recovery_point >= self._settings.flush_messages:
            return LOG_END_MOVED | SYNC_DUE  # followers need not wait for our disk
        if leader is None:
            return NOTHING_MOVED
        if leader.on_append(log_end_offset, now_ms):
            return LOG_END_MOVED | HIGH_WATERMARK_MOVED
        return LOG_END_MOVED

    def on_synced(self, now_ms: int) -> int:
        """The log is synced up to its recovery point: what moved, as bits."""
        leader = self.leader
        due = SYNC_DUE if self.is_sync_due and not self.is_offline else NOTHING_MOVED
        if leader is not None and leader.on_append(max(self._counted_end(), leader.log_end_offset), now_ms):
            return due | HIGH_WATERMARK_MOVED
        return due

    def on_follower_fetch(
        self, replica_id: int, broker_epoch: int, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> FollowerFetchOutcome:
        """Note a follower's log end, and propose it for the ISR once it has caught up (rows R17, R18).

        Raises KafkaError for a stale incarnation, an offset beyond the log end, or when this node does not lead.
        """
        leader = self.leader
        if leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is not led here")
        end_offset = self.log.log_end_offset
        return leader.on_follower_fetch(replica_id, broker_epoch, fetch_offset, log_start_offset, end_offset, now_ms)

    def progress_at_end(self, replica_id: int, current_leader_epoch: int, fetch_offset: int) -> ReplicaProgress | None:
        """Progress of a follower whose fetches from there all find the same, until something happens to the partition.

        It is at the log end, and in the committed ISR: any other follower may join the ISR with its next fetch.
        """
        leader = self.leader
        if leader is None or leader.leader_epoch != current_leader_epoch or fetch_offset != self.log.log_end_offset:
            return None
        return leader.progress_in_sync(replica_id)

    def is_behind(self, high_watermark: int, last_fetched_epoch: int) -> bool:
        """A follower with that last epoch knows committed records that this leader's log does not have (row R26)."""
        leader = self.leader
        if leader is None or high_watermark == UNKNOWN_HIGH_WATERMARK:
            return False
        return high_watermark > shared_end(leader, self.log.log_end_offset, last_fetched_epoch)

    def on_follower_ahead(self, replica_id: int, high_watermark: int, last_fetched_epoch: int, now_ms: int) -> Effects:
        """A follower knows committed records that this leader does not have (KIP-1166, row R26).

        A complete follower has those records: this log is damaged from there on, and another replica shall lead. Any
        other follower may have no more than this leader. Once all complete replicas have fetched
        (:meth:`refuses_ahead`), it has to follow, and the loss is logged once.
        """
        leader, committed = self.leader, self._committed
        if leader is None or committed is None or replica_id not in committed.replicas:
            return []
        end = shared_end(leader, self.log.log_end_offset, last_fetched_epoch)
        if high_watermark <= end:
            return []
        found = self._judge.of_follower_ahead(leader, end, replica_id, high_watermark, last_fetched_epoch, committed)
        return self._after(found, now_ms) if found.finding is Finding.DAMAGE else [*found.say]

    def low_watermark(self, live: Collection[int]) -> int:
        """Lowest log start of this and all ``live`` replicas; -1 while one of them has not fetched yet (KIP-107)."""
        assert self.leader is not None, "only a leader knows the log starts of the others"
        return min([self.log.log_start_offset, *self.leader.log_start_offsets_of(live)])

    def refuses_ahead(self, replica_id: int, last_fetched_epoch: int) -> bool:
        """Do not cut this follower to the local log: it is complete, or a complete replica may have its records."""
        leader, committed = self.leader, self._committed
        if leader is None or committed is None:
            return False
        return self._judge.refuses(leader, replica_id, last_fetched_epoch, committed)

    def on_records_sent(self, replica_id: int, fetch_offset: int, size_in_bytes: int) -> Effects:
        """A follower is sent records. Records that it fetches again and again may have gone bad here."""
        leader = self.leader
        if leader is None or not leader.on_records_sent(replica_id, fetch_offset):
            return []
        return [do.Verify(replica_id, fetch_offset, size_in_bytes)]

    def on_sample_consumed(self, fetch_offset: int, size_in_bytes: int) -> Effects:
        """A sample of the records sent to consumers: verify it, unless it is known to be damaged.

        A consumer that cannot parse a batch asks for the same records again and again. Fetches of consumers carry no
        name, so one consumer cannot be told from another. Samples of all fetches will include some of that consumer.
        """
        if self.condition.is_damaged_from(fetch_offset):
            return []
        return [do.Verify(NO_NODE, fetch_offset, size_in_bytes)]

    def follow_high_watermark(self, leader_high_watermark: int) -> bool:
        """Row R11: min(own log end, the leader's high watermark). True when it rose.

        Only a cut lowers it. A new leader's may be lower at first; that does not make committed records uncommitted.
        """
        before = self._follower_high_watermark
        self._follower_high_watermark = self._clamped(max(before, leader_high_watermark))
        return self._follower_high_watermark > before

    def check_lagging(self, now_ms: int) -> Effects:
        """Row R19: propose lagging followers out of the ISR; raise the high watermark if a joining one timed out."""
        leader = self.leader
        if leader is None:
            return []
        effects: Effects = []
        if (proposal := leader.maybe_shrink(now_ms)) is not None:
            effects.append(do.Propose(proposal))
        if leader.maybe_advance_high_watermark(now_ms):
            effects.append(do.HighWatermarkMoved())
        return effects

    # -- the ISR ----------------------------------------------------------------------------------------------------

    def on_proposal_accepted(
        self, proposal: IsrProposal, isr: tuple[int, ...], partition_epoch: int, now_ms: int
    ) -> Effects:
        """The controller committed the proposal. A proposal that is no longer in flight changes nothing."""
        leader = self.leader
        if leader is None or leader.proposal_in_flight is not proposal:
            return []
        moved = leader.on_proposal_accepted(proposal, isr, partition_epoch, now_ms)
        return [do.HighWatermarkMoved()] if moved else []

    def on_proposal_refused(self, proposal: IsrProposal, error: ErrorCode, now_ms: int) -> IsrProposal | None:
        """The controller refused the proposal or did not answer: the proposal to send after a back-off, if any."""
        leader = self.leader
        if leader is None or leader.proposal_in_flight is not proposal:
            return None
        return leader.on_proposal_refused(proposal, error, now_ms)

    def configure(self, settings: ReplicaSettings, now_ms: int) -> Effects:
        """Settings changed."""
        self._settings = settings
        leader = self.leader
        if leader is None:
            return []
        effects: Effects = [do.Sync()] if self.is_sync_due else []
        if leader.set_min_insync_replicas(settings.min_insync_replicas, now_ms):
            effects.append(do.HighWatermarkMoved())
        return effects

    def on_registered(self) -> None:
        """This node registered again and still leads: use the new broker epoch."""
        if self.leader is not None:
            self.leader.local_broker_epoch = self._surroundings.broker_epoch()

    # -- roles ------------------------------------------------------------------------------------------------------

    def on_metadata(self, committed: CommittedPartition, now_ms: int) -> Effects:
        """Committed metadata changed (row C2): take the role it says, and follow or lead (rows R9, R14)."""
        assert self.role is not Role.REMOVED
        before, self._committed = self._committed, committed
        known = self.high_watermark
        effects = self._take_role(now_ms)
        if self.leader is not None and before is not None and self.condition.is_election_to_say(before, committed):
            effects.append(do.Say(do.Saying.LOSS_BY_ELECTION, self.log_end_offset, known))
        return effects

    def on_removed(self) -> Effects:
        """Metadata no longer places a replica here, or the topic was deleted."""
        effects = self._end_role(Role.REMOVED)
        effects.append(do.Delete())
        return effects

    def on_storage_failed(self) -> Effects:
        """The log's directory failed: neither serve nor follow until the node starts again (row R12)."""
        return [] if self.is_offline else self._end_role(Role.OFFLINE)

    def _take_role(self, now_ms: int) -> Effects:
        committed = self._committed
        if committed is None or self.is_offline:
            return []
        if self.cut is not None:
            return []  # on_cut comes back here
        effects: Effects = [*self._judge.of_epochs(self.log, committed)]
        effects += self._claims(committed)
        leads = committed.leader_id == self._local_id
        if leads and has_epochs_beyond(self.log, committed) and committed.complete <= {self._local_id}:
            return effects + self._end_role(Role.OFFLINE)  # no other replica has more, and no leader can continue it
        if (lost_from := self.condition.loss_to_say(committed)) is not None:
            effects.append(do.Say(do.Saying.LOSS_BY_DAMAGE, lost_from, self._follower_high_watermark))
        if leads and not has_epochs_beyond(self.log, committed):
            return effects + self._lead(committed, now_ms)
        return effects + self._follow(committed)

    def _lead(self, committed: CommittedPartition, now_ms: int) -> Effects:
        leader, epoch = self.leader, committed.leader_epoch
        if leader is not None and leader.leader_epoch == epoch:
            moved = leader.on_metadata(committed.isr, committed.partition_epoch, committed.replicas, now_ms)
            return [do.HighWatermarkMoved()] if moved else []
        assert self.log.latest_epoch <= epoch
        effects = self._stop_following()
        effects.append(do.BeginEpoch(epoch))
        counted_end = max(self._counted_end(), self.high_watermark)
        self.leader = LeaderState(
            self.topic_partition,
            self._local_id,
            epoch,
            leader_epoch_start_offset=self.log.log_end_offset,
            replicas=committed.replicas,
            isr=committed.isr,
            partition_epoch=committed.partition_epoch,
            high_watermark=self.high_watermark,
            log_end_offset=counted_end,
            lag_time_max_ms=self._settings.lag_time_max_ms,
            now_ms=now_ms,
            min_insync_replicas=self._settings.min_insync_replicas,
            local_broker_epoch=self._surroundings.broker_epoch(),
            is_eligible=self._surroundings.is_eligible,
        )
        self.role, self.leader_id, self.leader_epoch = Role.LEADER, self._local_id, epoch
        effects += self._mend(committed)
        effects += [do.AnswerWaiting(), do.Leads()]
        if self.is_sync_due:
            effects.append(do.Sync())
        return effects

    def _follow(self, committed: CommittedPartition) -> Effects:
        """Row R14: stop leading, refuse produce, stop fetching, answer waiting requests, fetch from the new leader.

        Two exceptions do not fetch. A node that shuts down and has left the ISR: no other replica needs its copy. And
        a log with leader epochs later than the cluster's: it neither leads nor asks for the ends of its epochs.
        """
        effects: Effects = []
        is_new = self.role is not Role.FOLLOWER or self.leader_epoch != committed.leader_epoch
        if is_new:
            effects += self._resign(committed)
        else:
            effects += self._mend(committed)
        if committed.leader_id == NO_NODE:
            return effects
        if self.condition.must_refetch(committed):
            if self.log.is_cleaned and committed.is_void(self._local_id, self.log.latest_epoch):
                self.condition.on_damage(EVERYTHING)  # the leader may not have what follows the damage: see truncate
            return effects + self._stop_following() + [self._begin(self.condition.begin_refetch())]
        if has_epochs_beyond(self.log, committed):
            return effects + self._stop_following()
        if not self._is_following and not self._is_leaving(committed):
            self._is_following = True
            effects.append(do.Follow(committed.leader_id, committed.leader_epoch))
        return effects

    def _resign(self, committed: CommittedPartition) -> Effects:
        has_led = self.leader is not None
        self._follower_high_watermark = self._clamped(self.high_watermark)
        self._judge.on_new_leader()
        self.leader = None
        self.role = Role.FOLLOWER
        self.leader_id, self.leader_epoch = committed.leader_id, committed.leader_epoch
        effects = [*self._stop_following(), do.AnswerWaiting()]
        return [*effects, do.LeadsNoMore()] if has_led else effects

    def _is_leaving(self, committed: CommittedPartition) -> bool:
        return self._local_id not in committed.isr and self._surroundings.is_leaving()

    def _stop_following(self) -> Effects:
        if not self._is_following:
            return []
        self._is_following = False
        return [do.StopFollowing()]

    def _end_role(self, role: Role) -> Effects:
        has_led = self.leader is not None
        self._follower_high_watermark = self.high_watermark
        self.leader = None
        self.role = role
        self.is_offline = True
        effects = [*self._stop_following(), do.AnswerWaiting()]
        return [*effects, do.LeadsNoMore()] if has_led else effects

    # -- cuts -------------------------------------------------------------------------------------------------------

    def truncate(self, offset: int, now_ms: int) -> Effects:
        """A follower's log differs from the leader's from ``offset`` on (row R4): cut it there.

        Below the high watermark it is cut only after an unclean election (row R26). Otherwise this log is damaged,
        since the leader's is not. Other replicas may count on the copy until metadata says that it is lost.

        Of a compacted log nothing stays then: its cleaner may have dropped earlier records, which the leader has, for
        the sake of those that go.
        """
        assert self.is_followed, f"{self.topic_partition} is not followed: {self.role}"
        assert self._committed is not None
        found = self._judge.of_cut(offset, self.high_watermark, self.log.latest_epoch, self._committed)
        if self.log.is_cleaned and offset < self.high_watermark:
            found = Verdict(found.finding, (*found.say, do.Say(do.Saying.CLEANED_IN_VAIN, offset, self.high_watermark)))
            offset = EVERYTHING
        if found.finding is Finding.DAMAGE:
            self.condition.on_damage(offset)
            return self._after(found, now_ms)
        return [*found.say, self._begin(do.Cut(offset))]

    def fetch_again(self, offset: int, now_ms: int) -> Effects:
        """The leader has cleaned what follows the end of this log, and what is here from ``offset`` on is in doubt.

        So this log has not been complete for long; one that should be has lost its tail.
        """
        assert self.is_followed, f"{self.topic_partition} is not followed: {self.role}"
        assert self._committed is not None
        if self._local_id in self._committed.complete:
            return self.truncate(offset, now_ms)
        return [self._begin(do.Cut(offset))]

    def restart(self, offset: int, now_ms: int) -> Effects:
        """The leader's log begins after the end of this one (row R13): begin an empty log at ``offset``.

        If this replica is complete, its tail was lost. No effects while that is not known: the fetcher asks again.
        """
        assert self.is_followed, f"{self.topic_partition} is not followed: {self.role}"
        assert self._committed is not None
        patience_ms = self._settings.lag_time_max_ms
        found = self._judge.of_restart(self.log.log_end_offset, offset, self._committed, now_ms, patience_ms)
        if found.finding is Finding.NOTHING:
            return [self._begin(do.Restart(offset))]
        return self._after(found, now_ms) if found.finding is Finding.DAMAGE else []

    def _after(self, found: Verdict, now_ms: int) -> Effects:
        """The local log is damaged: log it, and take the role that follows from it."""
        return [*found.say, *self._take_role(now_ms)]

    def on_cut(self, now_ms: int) -> Effects:
        """The cut is done: read the new log end, and act on metadata that arrived meanwhile."""
        assert self.cut is not None, "no cut was under way"
        self.cut = None
        self._follower_high_watermark = self._clamped(self._follower_high_watermark)
        return self._take_role(now_ms)

    def _begin(self, cut: do.Cut | do.Restart) -> do.ReplicaEffect:
        assert self.cut is None, f"{self.cut} is under way"
        assert self.leader is None, "leaders cut nothing"
        self.cut = cut
        if isinstance(cut, do.Cut):  # already now; the exact log end is known when the cut is done
            self._follower_high_watermark = min(self._follower_high_watermark, cut.offset)
        return cut

    # -- damage, directories ----------------------------------------------------------------------------------------

    def on_damage(self, offset: int, now_ms: int) -> Effects:
        """Damaged bytes were found: the log cannot be trusted from ``offset`` on."""
        if self.is_offline:
            return []
        self.condition.on_damage(offset)
        return self._take_role(now_ms)

    def on_remade(self, log: LocalLog) -> None:
        """The files of the log were missing when it was to be cut: ``log`` is a new, empty one."""
        assert self.cut is not None
        assert self.leader is None
        self.log = log

    def on_moved(self, log: LocalLog, directory_id: UUID, now_ms: int) -> Effects:
        """The log moved to another directory (row A5): the same records in other files, and as many of them synced."""
        assert self.cut is None
        self.log = log
        self.directory_id = directory_id
        moved = self.on_synced(now_ms)
        effects: Effects = [do.HighWatermarkMoved()] if moved & HIGH_WATERMARK_MOVED else []
        return effects + ([] if self._committed is None else self._claims(self._committed))

    def _claims(self, committed: CommittedPartition) -> Effects:
        """Tell the cluster the directory of the replica, if that is news to it."""
        claimed, known = self.condition.claimed_directory(self.directory_id, committed), committed.directory_id
        if known == claimed or claimed == UNASSIGNED_DIRECTORY:
            return []
        is_news = known != UNASSIGNED_DIRECTORY or self.is_directory_told or claimed == LOST_DIRECTORY
        return [do.Claim(claimed)] if is_news else []

    def _mend(self, committed: CommittedPartition) -> Effects:
        return [do.MarkWhole()] if self.condition.maybe_mend(committed) else []

    # -- inside -----------------------------------------------------------------------------------------------------

    def _counted_end(self) -> int:
        return self.log.recovery_point if self.is_sync_due else self.log.log_end_offset

    def _clamped(self, high_watermark: int) -> int:
        return max(self.log.log_start_offset, min(high_watermark, self.log.log_end_offset))
