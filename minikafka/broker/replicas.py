"""The partitions with a replica on this node: appends, and the progress of followers.

The way of a record. ``stage`` checks a batch and assigns offsets, without a system call. ``commit_staged`` writes each
partition's batches of one read event with a single call, raises high watermarks, and notes what moved for those who
wait (:mod:`~minikafka.broker.waiting`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from minikafka.broker.clock import Clock
from minikafka.broker.delayed import ProduceResult
from minikafka.broker.partition import Partition
from minikafka.broker.produced_batches import check, unverified
from minikafka.broker.timers import Timers
from minikafka.broker.waiting import ALL_IN_SYNC, Waiting
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.metadata.topic_names import check_topic_name
from minikafka.metrics.traffic import Traffic
from minikafka.model import INTERNAL_TOPICS, NO_EPOCH, ProducerIdentity, TopicPartition
from minikafka.records.batch import BatchHeader, parse_header
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.replication import replica_effects as do
from minikafka.replication.local_replica import HIGH_WATERMARK_MOVED, SYNC_DUE
from minikafka.storage.log import AppendInfo, StorageFailure
from minikafka.wire.schema import Buffer

log = get_logger()

ROLLS_AT_ONCE: Final = 20
"""Segments begun in a turn of the loop, some 15 ms: a topic may have a segment for each batch."""
_SYNC: Final = (do.Sync(),)


class StagedMarker(NamedTuple):
    """The end of a producer's transaction in a partition. It counts once the high watermark has passed its offset."""

    offset: int
    producer_id: int
    producer_epoch: int
    commits: bool


class Replicas:
    """Local partitions by name. Everything here runs on the event loop and never waits."""

    def __init__(self, node_id: int, clock: Clock, timers: Timers, is_known: Callable[[TopicPartition], bool]) -> None:
        """``is_known(tp)``: the cluster has that partition."""
        self._node_id = node_id
        self._is_known = is_known
        self._clock = clock
        self._partitions: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, None] = {}  # replicas of this node in directories that cannot be read
        self._staged: list[Partition] = []
        self._wall_ms = 0  # read once per read event; 0 between them
        self._loop = asyncio.get_running_loop()
        self._rolls = 0  # since they were taken
        self._commit_scheduled = False
        self.marker_listeners: dict[TopicPartition, Callable[[StagedMarker], None]] = {}
        self.traffic = Traffic()
        self.waiting = Waiting(self._partitions, clock, timers)
        self.carry_out: Callable[[Partition, Sequence[do.ReplicaEffect]], None] = lambda _partition, _effects: None
        self.on_storage_failed: Callable[[Partition, StorageFailure], None] = lambda _partition, _failure: None

    # -- the table --------------------------------------------------------------------------------------------------

    def get(self, tp: TopicPartition) -> Partition | None:
        """The local replica, in any role, or None."""
        return self._partitions.get(tp)

    def add(self, partition: Partition) -> None:
        """A replica was placed on, or found on, this node."""
        assert partition.topic_partition not in self._partitions
        self._partitions[partition.topic_partition] = partition
        partition.log.producers.forget_replicated(partition.high_watermark)
        partition.traffic = self.traffic.enter(partition.topic_partition.topic)

    def remove(self, tp: TopicPartition) -> Partition | None:
        """The replica left this node; what waits on it is answered."""
        partition = self._partitions.pop(tp, None)
        if partition is not None:
            self.traffic.leave(tp.topic)
            self.waiting.release(tp)
        return partition

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def leader_of(self, tp: TopicPartition, *, current_leader_epoch: int = NO_EPOCH) -> Partition:
        """The partition, if this node leads it in the caller's epoch.

        KafkaError for an unknown, offline, fenced or not led partition, each with its own code (row E3).
        """
        partition = self._partitions.get(tp)
        leader = None if partition is None else partition.replica.leader
        if partition is not None and leader is not None and current_leader_epoch in (NO_EPOCH, leader.leader_epoch):
            return partition
        partition = self.replica_of(tp, current_leader_epoch=current_leader_epoch)
        if partition.replica.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {partition.leader_id} leads {tp}, not this one")
        return partition

    def replica_of(self, tp: TopicPartition, *, current_leader_epoch: int = NO_EPOCH) -> Partition:
        """The local replica in any role, if it is in the caller's epoch.

        KafkaError for an unknown, offline or fenced partition, each with its own code (row E3).
        """
        partition = self._partitions.get(tp)
        if partition is None:
            if tp in self.offline:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {tp} is offline on this node")
            if self._is_known(tp):
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{tp} has no replica on node {self._node_id}")
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {tp} not found")
        if partition.replica.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {tp} is offline on this node")
        if current_leader_epoch not in (NO_EPOCH, partition.replica.leader_epoch):
            partition.check_leader_epoch(current_leader_epoch)
        return partition

    # -- appends ----------------------------------------------------------------------------------------------------

    def stage_produced(
        self,
        tp: TopicPartition,
        records: Buffer | None,
        acks: int,
        version: int,
        in_transaction: bool = False,
        *,
        has_keys: bool = False,
        verified_at: int | None = None,
    ) -> ProduceResult:
        """Check a producer's batch and stage it for the log (row R1). The result is final after :meth:`commit_staged`.

        ``records`` is a view of the receive buffer: the offsets are written into it. Raises what
        :func:`minikafka.broker.produced_batches.check` does, other than KafkaError, and stages nothing: call again
        once what it says is done off the loop, with what came out.
        """
        result = ProduceResult(tp)
        view = memoryview(b"") if records is None else memoryview(records)
        try:
            partition = self._partitions.get(tp)
            if partition is None or partition.is_internal or (leader := partition.replica.leader) is None:
                result.fail(self._refusal(tp))
                return result
            if acks == ALL_IN_SYNC and leader.is_under_min_isr:
                leader.check_enough_in_sync()
            header = check(
                partition,
                view,
                version,
                self._wall_ms or self._read_wall_ms(),
                in_transaction=in_transaction,
                has_keys=has_keys,
                verified_at=verified_at,
            )
            appended = self.stage(partition, view, header)
        except KafkaError as error:
            result.fail(error)
            return result
        result.base_offset = appended.base_offset
        result.log_append_time = appended.log_append_time
        result.log_start_offset = partition.log.log_start_offset
        result.required_offset = appended.last_offset + 1
        result.leader_epoch = leader.leader_epoch
        return result

    def unverified(self, tp: TopicPartition, records: Buffer | None, *, adds: bool) -> ProducerIdentity | None:
        """Whose coordinator to ask before the batch is staged: see :mod:`minikafka.broker.produced_batches`."""
        partition = self._partitions.get(tp)
        return None if partition is None or records is None else unverified(partition, records, adds=adds)

    def last_end_of(self, tp: TopicPartition, producer_id: int) -> int:
        """The last end of a transaction of the producer here; see ``ProducerState.last_end_of``."""
        partition = self._partitions.get(tp)
        return 0 if partition is None else partition.log.producers.last_end_of(producer_id)

    def _refusal(self, tp: TopicPartition) -> KafkaError:
        """Why nothing can be produced to a partition that is not led here, or is not for clients."""
        try:
            if tp.topic in INTERNAL_TOPICS:
                message = f"topic {tp.topic} is internal; only brokers write to it"
                return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
            if tp not in self._partitions:
                check_topic_name(tp.topic)
            self.leader_of(tp)
        except KafkaError as refusal:
            return refusal
        raise AssertionError(f"{tp} is open to producers")

    def stage(
        self, partition: Partition, records: memoryview, header: BatchHeader, transaction_version: int = 0
    ) -> AppendInfo:
        """Give a checked batch its offsets; the view must live until :meth:`commit_staged`."""
        active = partition.log.segments.active
        appended = partition.log.stage(
            records,
            header,
            leader_epoch=partition.replica.leader_epoch,
            wall_ms=self._wall_ms or self._read_wall_ms(),
            transaction_version=transaction_version,
        )
        if partition.log.segments.active is not active:
            self._rolls += 1
        traffic = partition.traffic
        traffic.bytes_in += len(records)
        traffic.messages_in += header.record_count
        if not partition.is_staged:
            partition.is_staged = True
            self._staged.append(partition)
        return appended

    def stage_marker(
        self,
        partition: Partition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        commits: bool,
        transaction_version: int,
    ) -> AppendInfo:
        """Stage the end of a producer's transaction in a partition that this node leads. Then :meth:`commit_staged`.

        ``coordinator_epoch``: leader epoch of the coordinator's partition of the transaction topic. Who listens to
        markers of the partition is told of this one. KafkaError, and nothing is staged, for an old
        producer (INVALID_PRODUCER_EPOCH) or coordinator (TRANSACTION_COORDINATOR_FENCED), another leader, too few
        in-sync replicas, or a log that is offline.
        """
        tp, leader = partition.topic_partition, partition.replica.leader
        if leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {partition.leader_id} leads {tp}, not this one")
        leader.check_enough_in_sync()
        marker = EndTxnMarker(commits, coordinator_epoch)
        timestamp = self._wall_ms or self._read_wall_ms()
        batch = build_end_txn_marker(producer_id, producer_epoch, marker, timestamp=timestamp)
        appended = self.stage(partition, memoryview(batch), parse_header(batch), transaction_version)
        if (listener := self.marker_listeners.get(tp)) is not None:
            listener(StagedMarker(appended.last_offset, producer_id, producer_epoch, commits))
        return appended

    @property
    def has_rolled_many(self) -> bool:
        """So many segments were begun since :meth:`take_rolls` that others should have their turn."""
        return self._rolls >= ROLLS_AT_ONCE

    def take_rolls(self) -> int:
        """How many segments were begun by what was staged since the last call. One costs half a millisecond or more."""
        rolls, self._rolls = self._rolls, 0
        return rolls

    def _read_wall_ms(self) -> int:
        self._wall_ms = self._clock.stamp_ms()  # other replicas will see how old a record is
        return self._wall_ms

    def on_follower_fetch(
        self,
        partition: Partition,
        replica_id: int,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
    ) -> None:
        """Note a follower's log end, propose it if it caught up, and wake waiting requests (rows R17, R18).

        Raises KafkaError for a stale incarnation, an offset beyond the log end, or a broker without a replica.
        """
        outcome = partition.replica.on_follower_fetch(replica_id, broker_epoch, fetch_offset, log_start_offset, now_ms)
        if not outcome.is_assigned:
            log.debug(
                "fetch by a broker without a replica", broker=replica_id, partition=str(partition.topic_partition)
            )
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} is not a replica")
        if outcome.high_watermark_moved:
            self.waiting.note_moved(partition.topic_partition, high_watermark=True)
        if outcome.proposal is not None:
            self.carry_out(partition, (do.Propose(outcome.proposal),))

    def check_follower(
        self, partition: Partition, replica_id: int, high_watermark: int, last_fetched_epoch: int, now_ms: int
    ) -> None:
        """Row R26: compare the follower's high watermark with this leader's log.

        Raises KafkaError(KAFKA_STORAGE_ERROR) when the local log is damaged, or may be: no follower is cut to it.
        """
        replica = partition.replica
        if not replica.is_behind(high_watermark, last_fetched_epoch):
            return
        self.carry_out(partition, replica.on_follower_ahead(replica_id, high_watermark, last_fetched_epoch, now_ms))
        if replica.refuses_ahead(replica_id, last_fetched_epoch):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the leader of {partition.topic_partition} lacks records below {high_watermark},"
                f" the high watermark of broker {replica_id}",
            )

    def on_records_sent(self, partition: Partition, replica_id: int, fetch_offset: int, size_in_bytes: int) -> None:
        """A follower is being sent records."""
        effects = partition.replica.on_records_sent(replica_id, fetch_offset, size_in_bytes)
        if effects:
            self.carry_out(partition, effects)

    def on_sample_consumed(self, partition: Partition, fetch_offset: int, size_in_bytes: int) -> None:
        """A consumer is being sent these, one answer of many: have them verified."""
        self.carry_out(partition, partition.replica.on_sample_consumed(fetch_offset, size_in_bytes))

    def commit_staged(self) -> None:
        """Write everything staged, partition by partition, and let high watermarks follow."""
        self._wall_ms = 0
        if not self._staged:
            return
        staged, self._staged = self._staged, []
        now_ms = self._clock.monotonic_ms()
        for partition in staged:
            partition.is_staged = False
            try:
                partition.log.commit()
            except StorageFailure as failure:
                self.on_storage_failed(partition, failure)
                continue
            moved = partition.replica.on_written(now_ms)
            has_risen = bool(moved & HIGH_WATERMARK_MOVED)
            self.waiting.note_moved(partition.topic_partition, log_end=True, high_watermark=has_risen)
            if moved & SYNC_DUE:
                self.carry_out(partition, _SYNC)

    def on_synced(self, partition: Partition) -> None:
        """A log is synced up to its recovery point: that much counts at its leader."""
        tp = partition.topic_partition
        if self._partitions.get(tp) is not partition:
            return
        moved = partition.replica.on_synced(self._clock.monotonic_ms())
        self.waiting.note_moved(tp, high_watermark=bool(moved & HIGH_WATERMARK_MOVED))
        self.waiting.produces.check_and_complete(tp)  # acks=1 waits for the counted end
        if moved & SYNC_DUE:
            self.carry_out(partition, _SYNC)

    def commit_soon(self) -> None:
        """Commit what is staged outside of a read event, once this loop iteration is over."""
        if not self._commit_scheduled:
            self._commit_scheduled = True
            self._loop.call_soon(self._commit_scheduled_now)

    def _commit_scheduled_now(self) -> None:
        self._commit_scheduled = False
        self.commit_staged()
