"""A partition at its leader: how far each replica is, what is committed, and who is in sync (rows R17-R23).

One :class:`LeaderState` lives for one leader epoch. A later epoch, even of the same broker, starts a new one. Nothing
in it is durable: a new leader learns the state of its followers from their fetches.

High watermark
    The smallest log end among the leader, the maximal ISR (:mod:`~minikafka.replication.isr`), and assigned replicas
    that are caught up within the lag time and may join. (Without waiting for those, they could never join.) It only
    grows, and only while the committed ISR has ``min.insync.replicas`` members (KIP-966, strict). Records that fewer
    replicas hold are appended for acks=1, but consumers do not see them until the ISR is large enough again.
    ``min.insync.replicas`` counts as at most the number of replicas.

ISR
    A follower is proposed when its log reaches the high watermark and the start of this leader epoch (row R18). But
    first every member of the ISR must have fetched: one of them may know that this leader lacks records (row R26).
    A follower that was not caught up for longer than the lag time is proposed out of the ISR (row R19). One proposal
    is in flight at a time. The driver sends the proposals of :meth:`LeaderState.on_follower_fetch` and
    :meth:`LeaderState.maybe_shrink`, and reports back::

        while proposal is not None:
            try:                         answer = await controller.call_once(...)
            except KafkaError as error:  proposal = leader.on_proposal_refused(proposal, error.code, now_ms)
            except (lost, timed out):    proposal = leader.on_proposal_refused(proposal, NETWORK_EXCEPTION, now_ms)
            else:                        leader.on_proposal_accepted(proposal, isr, partition_epoch, now_ms); break
            back off; stop if leader.proposal_in_flight is not proposal

Invariants: the high watermark never falls, never exceeds the leader's log end, and never passes the log end of a
replica that may be in the true ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from typing import Final, NamedTuple

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_OFFSET, TopicPartition
from minikafka.replication.isr import InSyncReplicas, IsrMember, IsrProposal
from minikafka.replication.progress import NEVER_MS, UNKNOWN_BROKER_EPOCH, ReplicaProgress

PROPOSAL_BACKOFF_MS: Final = 500


class FollowerFetchOutcome(NamedTuple):
    """Effect of a follower's fetch: which waiting requests to try, and the proposal for the controller."""

    high_watermark_moved: bool
    log_end_offset_moved: bool  # the follower's, as the leader knows it
    proposal: IsrProposal | None
    is_assigned: bool = True  # False: not a replica of this partition; refuse the fetch and warn (row R17)


_NOTHING_MOVED: Final = FollowerFetchOutcome(False, False, None)
_NOT_ASSIGNED: Final = FollowerFetchOutcome(False, False, None, is_assigned=False)


def _always_eligible(_replica_id: int, _broker_epoch: int) -> bool:
    return True


class LeaderState:
    """Progress, high watermark and ISR of one led partition in one leader epoch.

    ``leader_epoch_start_offset``: log end when this node became leader. ``log_end_offset``: end of the counted records;
    less than the log end while a sync is under way (``flush.messages``). ``is_eligible(replica_id, broker_epoch)``:
    committed metadata would let the replica into an ISR now (alive, unfenced, not shutting down, that incarnation). It
    is called each time, its result is never kept.
    """

    __slots__ = (
        "_is_eligible",
        "_isr",
        "_lag_time_max_ms",
        "_last_proposal_refused_ms",
        "_min_insync_replicas",
        "_progress",
        "_remotes",
        "high_watermark",
        "is_under_min_isr",
        "leader_epoch",
        "leader_epoch_start_offset",
        "local_broker_epoch",
        "local_id",
        "log_end_offset",
        "replicas",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        local_id: int,
        leader_epoch: int,
        *,
        leader_epoch_start_offset: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        partition_epoch: int,
        high_watermark: int,
        log_end_offset: int,
        lag_time_max_ms: int,
        now_ms: int,
        min_insync_replicas: int = 1,
        local_broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        is_eligible: Callable[[int, int], bool] = _always_eligible,
    ) -> None:
        assert high_watermark <= log_end_offset, f"{topic_partition}: {high_watermark} > {log_end_offset}"
        assert lag_time_max_ms > 0
        self.topic_partition = topic_partition
        self.local_id = local_id
        self.local_broker_epoch = local_broker_epoch
        self.leader_epoch = leader_epoch
        self.leader_epoch_start_offset = leader_epoch_start_offset
        self.replicas = tuple(replicas)
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset
        self.is_under_min_isr = False
        self._lag_time_max_ms = lag_time_max_ms
        self._min_insync_replicas = min_insync_replicas
        self._is_eligible = is_eligible
        self._last_proposal_refused_ms = NEVER_MS
        self._isr = InSyncReplicas(isr, partition_epoch)
        assert local_id in self._isr.committed, f"{local_id} leads {topic_partition} from outside its ISR {isr}"
        self._progress = {
            replica_id: ReplicaProgress(replica_id, last_caught_up_time_ms=now_ms)
            for replica_id in self._isr.committed - {local_id}
        }
        self._remotes: tuple[ReplicaProgress, ...] = ()
        self._on_membership_changed()
        self.maybe_advance_high_watermark(now_ms)

    # -- the data path ----------------------------------------------------------------------------------------------

    def on_append(self, log_end_offset: int, now_ms: int) -> bool:
        """The local log grew to ``log_end_offset``. True when the high watermark moved (row R21)."""
        self.log_end_offset = log_end_offset
        return self.maybe_advance_high_watermark(now_ms)

    def on_follower_fetch(
        self,
        replica_id: int,
        broker_epoch: int,
        fetch_offset: int,
        follower_log_start_offset: int,
        log_end_offset: int,
        now_ms: int,
    ) -> FollowerFetchOutcome:
        """A replica fetched from ``fetch_offset``: note its log end, and propose it if it caught up (rows R17, R18).

        Only for a fetch in this leader epoch that is neither out of range nor diverging: ``fetch_offset`` counts as
        proof that both logs agree below it. ``log_end_offset`` is the leader's at the time of the read.

        Raises KafkaError(STALE_BROKER_EPOCH) when a later incarnation was seen already (KIP-903), and
        KafkaError(OFFSET_OUT_OF_RANGE) for an offset beyond the leader's log end.
        """
        replica = self._progress.get(replica_id)
        if replica is None:
            return _NOT_ASSIGNED
        if broker_epoch < replica.broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {replica_id} fetches {self.topic_partition} with epoch {broker_epoch},"
                f" it has registered with {replica.broker_epoch} since",
            )
        if fetch_offset > log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} ends at {log_end_offset}, broker {replica_id} fetches from {fetch_offset}",
            )
        log_end_offset_moved = fetch_offset != replica.log_end_offset
        replica.on_fetch(broker_epoch, fetch_offset, follower_log_start_offset, log_end_offset, now_ms)
        proposal = None if replica.is_in_maximal_isr else self.maybe_expand(replica_id, now_ms)
        high_watermark_moved = self.high_watermark < self.log_end_offset and self.maybe_advance_high_watermark(now_ms)
        if proposal is None and not log_end_offset_moved and not high_watermark_moved:
            return _NOTHING_MOVED
        return FollowerFetchOutcome(high_watermark_moved, log_end_offset_moved, proposal)

    def progress_in_sync(self, replica_id: int) -> ReplicaProgress | None:
        """Progress of a follower in the committed ISR whose fetches change nothing here until something happens.

        None for any other broker, and while records are not committed: the wait for a joining replica ends by time, or
        when that is fenced, and the next fetch raises the high watermark.
        """
        if self.high_watermark < self.log_end_offset or replica_id not in self._isr.committed:
            return None
        return self._progress.get(replica_id)

    def on_records_sent(self, replica_id: int, fetch_offset: int) -> bool:
        """A follower is sent records from ``fetch_offset`` on. True when they must be verified.

        A leader trusts its own writes. Repeated fetches are its only sign that bytes went bad on its disk.
        """
        replica = self._progress.get(replica_id)
        return replica is not None and replica.on_records_sent(fetch_offset)

    def maybe_advance_high_watermark(self, now_ms: int) -> bool:
        """Row R21: raise it to the least log end of the ISR and of the joining replicas. True when it moved.

        The periodic check calls it too: the wait for a joining replica may end by time alone.
        """
        if self.is_under_min_isr:
            return False
        high_watermark = self.log_end_offset
        for replica in self._remotes:
            if replica.log_end_offset < high_watermark and (
                replica.is_in_maximal_isr or self._is_joining(replica, now_ms)
            ):
                high_watermark = replica.log_end_offset
        if high_watermark <= self.high_watermark:
            return False
        self.high_watermark = high_watermark
        return True

    def unheard(self, replica_ids: Iterable[int]) -> tuple[int, ...]:
        """Replicas among ``replica_ids`` that have not fetched in this epoch, ascending."""
        progress = self._progress
        return tuple(
            each for each in sorted(replica_ids) if each in progress and progress[each].log_end_offset == NO_OFFSET
        )

    def check_enough_in_sync(self) -> None:
        """Before an acks=all append: KafkaError(NOT_ENOUGH_REPLICAS) when the ISR is too small (row R23)."""
        if self.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"the ISR of {self.topic_partition} is {sorted(self._isr.committed)},"
                f" fewer than min.insync.replicas={self._min_insync_replicas}",
            )

    # -- the ISR ----------------------------------------------------------------------------------------------------

    def maybe_expand(self, replica_id: int, now_ms: int) -> IsrProposal | None:
        """Propose a replica that has reached the high watermark and the start of this leader epoch (row R18)."""
        replica = self._progress.get(replica_id)
        if replica is None or replica.is_in_maximal_isr or not self._may_propose(now_ms):
            return None
        if replica.log_end_offset < self.high_watermark or replica.log_end_offset < self.leader_epoch_start_offset:
            return None
        if replica_id not in self.replicas or not self._is_eligible(replica_id, replica.broker_epoch):
            return None
        if any(one.is_in_maximal_isr and one.log_end_offset == NO_OFFSET for one in self._remotes):
            return None
        return self._propose(self._isr.committed | {replica_id})

    def maybe_shrink(self, now_ms: int) -> IsrProposal | None:
        """Propose the ISR without lagging followers; call every ``replica.lag.time.max.ms`` / 2 (row R19)."""
        if not self._may_propose(now_ms):
            return None
        lagging = {
            replica.replica_id
            for replica in self._remotes
            if replica.replica_id in self._isr.committed
            and not replica.is_caught_up(self.log_end_offset, now_ms, self._lag_time_max_ms)
        }
        return self._propose(self._isr.committed - lagging) if lagging else None

    def on_proposal_accepted(
        self, proposal: IsrProposal, isr: Iterable[int], partition_epoch: int, now_ms: int
    ) -> bool:
        """The controller committed the proposal with this result. True when the high watermark moved.

        An answer older than the known metadata changes nothing.
        """
        if proposal != self._isr.in_flight or partition_epoch < self._isr.partition_epoch:
            return False
        return self._commit_isr(isr, partition_epoch, now_ms)

    def on_proposal_refused(self, proposal: IsrProposal, error: ErrorCode, now_ms: int) -> IsrProposal | None:
        """The controller refused the proposal or did not answer: the proposal to send after a back-off, if any.

        After errors outside :data:`~minikafka.replication.isr.REFUSED` and :data:`~minikafka.replication.isr.STALE` the
        fate of the proposal is unknown: the maximal ISR keeps counting until it is settled.
        """
        if proposal != self._isr.in_flight:
            return None
        retry = self._isr.on_refused(error, self._proposal_of(self._isr.committed))
        self._last_proposal_refused_ms = now_ms
        self._on_membership_changed()
        return retry

    def on_metadata(self, isr: Iterable[int], partition_epoch: int, replicas: Iterable[int], now_ms: int) -> bool:
        """Committed metadata of this leader epoch; ignored if older than the known one. True when the HW moved."""
        if partition_epoch <= self._isr.partition_epoch:
            return False
        self.replicas = tuple(replicas)
        return self._commit_isr(isr, partition_epoch, now_ms)

    def set_min_insync_replicas(self, min_insync_replicas: int, now_ms: int) -> bool:
        """The topic's setting changed. True when the high watermark moved."""
        self._min_insync_replicas = min_insync_replicas
        self._on_membership_changed()
        return self.maybe_advance_high_watermark(now_ms)

    # -- views ------------------------------------------------------------------------------------------------------

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR, ascending."""
        return tuple(sorted(self._isr.committed))

    @property
    def isr_size(self) -> int:
        """Members of the committed ISR."""
        return len(self._isr.committed)

    @property
    def is_at_min_isr(self) -> bool:
        """True while the loss of one more member stops ``acks=all``."""
        return len(self._isr.committed) == self._effective_min_isr

    @property
    def partition_epoch(self) -> int:
        """The partition epoch of the committed ISR."""
        return self._isr.partition_epoch

    @property
    def proposal_in_flight(self) -> IsrProposal | None:
        """The proposal that is neither committed nor refused yet."""
        return self._isr.in_flight

    def preferred_read_replica(self, fetch_offset: int, in_rack: Container[int]) -> int | None:
        """The in-sync follower in the consumer's rack with most records after ``fetch_offset`` (row R25, KIP-392)."""
        best_id, best_log_end_offset = None, NO_OFFSET
        for replica in self._remotes:
            if replica.replica_id not in self._isr.committed or replica.replica_id not in in_rack:
                continue
            if replica.log_start_offset <= fetch_offset <= replica.log_end_offset > best_log_end_offset:
                best_id, best_log_end_offset = replica.replica_id, replica.log_end_offset
        return best_id

    # -- inside -----------------------------------------------------------------------------------------------------

    def _is_joining(self, replica: ReplicaProgress, now_ms: int) -> bool:
        """Assigned, caught up within the lag time, and eligible: passing it would keep it out of the ISR for good."""
        return replica.is_caught_up(self.log_end_offset, now_ms, self._lag_time_max_ms) and self._is_eligible(
            replica.replica_id, replica.broker_epoch
        )

    @property
    def _effective_min_isr(self) -> int:
        return min(self._min_insync_replicas, len(self.replicas))

    def _may_propose(self, now_ms: int) -> bool:
        return self._isr.in_flight is None and now_ms - self._last_proposal_refused_ms >= PROPOSAL_BACKOFF_MS

    def _propose(self, new_isr: frozenset[int]) -> IsrProposal:
        proposal = self._proposal_of(new_isr)
        self._isr.propose(proposal)
        self._on_membership_changed()
        return proposal

    def _proposal_of(self, new_isr: frozenset[int]) -> IsrProposal:
        members = tuple(IsrMember(replica_id, self._broker_epoch_of(replica_id)) for replica_id in sorted(new_isr))
        return IsrProposal(self.topic_partition, self.leader_epoch, self._isr.partition_epoch, members)

    def _broker_epoch_of(self, replica_id: int) -> int:
        return self.local_broker_epoch if replica_id == self.local_id else self._progress[replica_id].broker_epoch

    def _commit_isr(self, isr: Iterable[int], partition_epoch: int, now_ms: int) -> bool:
        self._isr.commit(isr, partition_epoch)
        self._last_proposal_refused_ms = NEVER_MS
        self._on_membership_changed()
        return self.maybe_advance_high_watermark(now_ms)

    def log_start_offsets_of(self, replica_ids: Collection[int]) -> list[int]:
        """Log starts of those followers; -1 for one that has not fetched yet."""
        return [replica.log_start_offset for replica in self._remotes if replica.replica_id in replica_ids]

    def _on_membership_changed(self) -> None:
        """Replicas, ISR or min.insync.replicas changed: keep exactly one progress per remote replica."""
        remote_ids = (set(self.replicas) | self._isr.maximal) - {self.local_id}
        self._progress = {
            replica_id: self._progress.get(replica_id) or ReplicaProgress(replica_id)
            for replica_id in sorted(remote_ids)
        }
        self._remotes = tuple(self._progress.values())
        for replica in self._remotes:
            replica.is_in_maximal_isr = replica.replica_id in self._isr.maximal
        self.is_under_min_isr = len(self._isr.committed) < self._effective_min_isr
