"""Fetch (key 1), versions 4-16: consumers up to the high watermark, followers up to the log end (rows R15-R17, D5).

Records leave as regions of log files. A request that finds too little is kept, not its result: when bytes arrive or its
time is up, the log is read again. Incremental sessions are KIP-227's. Reading from followers is not offered: a fetch
goes to the leader.
"""

from __future__ import annotations

import structlog

from minikafka.broker.context import RequestContext
from minikafka.broker.delayed import DelayedFetch
from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_OFFSET, ZERO_TOPIC_ID, Isolation
from minikafka.net.outbox import Chunk
from minikafka.replication.session_cache import CachedPartition, FetchContext, FetchResult
from minikafka.wire.codec import decoder
from minikafka.wire.hot import encode_fetch_response, records_slot
from minikafka.wire.messages.fetch import EpochEndOffset, FetchRequest, FetchResponse, LeaderIdAndEpoch, PartitionData
from minikafka.wire.schema import RecordsSlot

log = structlog.get_logger(__name__)

FIRST_VERSION_WITH_REPLICA_STATE = 15


def handle(frame: memoryview, position: int, context: RequestContext) -> None:
    """Answer at once, or park the request until there is enough to answer with."""
    request, _ = decoder(FetchRequest, context.version)(frame, position)
    node = context.node
    replica_id, broker_epoch = request.replica_id, -1
    if context.version >= FIRST_VERSION_WITH_REPLICA_STATE and request.replica_state is not None:
        replica_id, broker_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    if replica_id >= 0 and replica_id != context.connection.principal:
        # A forged follower's fetch would move the high watermark.
        _send(context, FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    try:
        session = node.fetch_sessions.open(
            request, context.version, is_follower=replica_id >= 0, now_ms=node.clock.monotonic_ms()
        )
    except KafkaError as error:
        _send(context, FetchResponse(error_code=error.code))
        return
    _Fetch(request, session, context, replica_id, broker_epoch).begin()


class _Fetch:
    """One request while it is being answered."""

    __slots__ = (
        "_broker_epoch",
        "_context",
        "_is_follower",
        "_isolation",
        "_node",
        "_replica_id",
        "_request",
        "_session",
    )

    def __init__(
        self,
        request: FetchRequest,
        session: FetchContext,
        context: RequestContext,
        replica_id: int,
        broker_epoch: int,
    ) -> None:
        self._request = request
        self._session = session
        self._context = context
        self._node = context.node
        self._replica_id = replica_id
        self._broker_epoch = broker_epoch
        self._is_follower = replica_id >= 0
        self._isolation = Isolation.READ_COMMITTED if request.isolation_level else Isolation.READ_UNCOMMITTED

    def begin(self) -> None:
        """Rows R16, R17: note a follower's progress, read, and answer if that is enough."""
        request, partitions = self._request, self._session.partitions
        refused = self._note_progress() if self._is_follower else {}
        results, size, must_answer = self._read(refused)
        if request.max_wait_ms <= 0 or not partitions or must_answer or size >= request.min_bytes:
            self._answer(results)
            return
        replicas = self._node.replicas
        purgatory = replicas.follower_fetches if self._is_follower else replicas.consumer_fetches
        keys = [cached.where for cached in partitions if cached.where is not None]
        operation = DelayedFetch(request.max_wait_ms, self._is_satisfied, self._answer_anew)
        purgatory.try_complete_else_watch(operation, keys, self._node.clock.monotonic_ms())

    # -- reading ----------------------------------------------------------------------------------------------------

    def _read(self, refused: dict[CachedPartition, KafkaError]) -> tuple[list[FetchResult], int, bool]:
        """Results in order, their bytes, and whether one of them must be answered without waiting."""
        results: list[FetchResult] = []
        room = min(self._request.max_bytes, self._node.config.fetch_max_bytes)
        total = 0
        must_answer = False
        for cached in self._session.partitions:
            try:
                error = refused.get(cached) if refused else None
                if error is not None:
                    raise error
                partition = self._partition(cached)
                data = self._read_partition(partition, cached, max(0, room - total), is_first=total == 0)
            except KafkaError as error:
                data = self._failed(cached, error)
            if data.error_code or data.diverging_epoch is not None:
                must_answer = True
            total += len(data.records) if data.records is not None else 0
            results.append((cached, data))
        return results, total, must_answer

    def _partition(self, cached: CachedPartition) -> Partition:
        where = cached.where
        if where is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has id {cached.topic_id}")
        partition = self._node.replicas.leader_of(where, current_leader_epoch=cached.asked.current_leader_epoch)
        if cached.topic_id not in (ZERO_TOPIC_ID, partition.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{where} is another topic of that name now")
        return partition

    def _read_partition(
        self, partition: Partition, cached: CachedPartition, room: int, *, is_first: bool
    ) -> PartitionData:
        asked, log_ = cached.asked, partition.log
        leader = partition.leader
        assert leader is not None
        data = PartitionData(
            partition_index=cached.partition,
            high_watermark=leader.high_watermark,
            last_stable_offset=log_.last_stable_offset(leader.high_watermark),
            log_start_offset=log_.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        diverging = partition.diverging_epoch(asked.fetch_offset, asked.last_fetched_epoch)
        if diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset)
            return data
        limit = log_.log_end_offset if self._is_follower else partition.read_limit(self._isolation)
        if asked.fetch_offset == limit:
            return data
        if asked.fetch_offset > limit and asked.fetch_offset <= log_.log_end_offset:
            return data  # a consumer ahead of the high watermark, after a leader change: it will get there
        found = log_.read(
            asked.fetch_offset,
            min(asked.partition_max_bytes, room),
            max_offset=limit,
            min_one_batch=is_first,
        )
        if found.size:
            data.records = records_slot(found.size, found)
        return data

    def _failed(self, cached: CachedPartition, error: KafkaError) -> PartitionData:
        data = PartitionData(
            partition_index=cached.partition,
            error_code=error.code,
            high_watermark=NO_OFFSET,
            aborted_transactions=None,
            records=b"",
        )
        if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH) and cached.where is not None:
            partition = self._node.replicas.get(cached.where)
            if partition is not None:  # leader discovery (KIP-595)
                data.current_leader = LeaderIdAndEpoch(
                    leader_id=partition.leader_id, leader_epoch=partition.leader_epoch
                )
        return data

    # -- a follower's progress --------------------------------------------------------------------------------------

    def _note_progress(self) -> dict[CachedPartition, KafkaError]:
        """Row R17, for every partition of the session; what is refused gets its error instead of records."""
        refused: dict[CachedPartition, KafkaError] = {}
        replicas, now_ms = self._node.replicas, self._node.clock.monotonic_ms()
        for cached in self._session.partitions:
            asked = cached.asked
            try:
                partition = self._partition(cached)
                if partition.diverging_epoch(asked.fetch_offset, asked.last_fetched_epoch) is not None:
                    continue
                replicas.on_follower_fetch(
                    partition, self._replica_id, self._broker_epoch, asked.fetch_offset, asked.log_start_offset, now_ms
                )
            except KafkaError as error:
                refused[cached] = error
        return refused

    # -- completing -------------------------------------------------------------------------------------------------

    def _is_satisfied(self) -> bool:
        """Row D5: enough bytes over all partitions, or one that moved, was cut, fenced or diverged."""
        total = 0
        for cached in self._session.partitions:
            asked = cached.asked
            try:
                partition = self._partition(cached)
            except KafkaError:
                return True
            if partition.diverging_epoch(asked.fetch_offset, asked.last_fetched_epoch) is not None:
                return True
            log_ = partition.log
            limit = log_.log_end_offset if self._is_follower else partition.read_limit(self._isolation)
            if asked.fetch_offset > log_.log_end_offset or asked.fetch_offset < log_.log_start_offset:
                return True
            if asked.fetch_offset < limit:
                if asked.fetch_offset < log_.active_base_offset:
                    return True  # a segment was rolled under the fetch
                total += log_.bytes_between(asked.fetch_offset, limit)
                if total >= self._request.min_bytes:
                    return True
        return False

    def _answer_anew(self) -> None:
        results, _, _ = self._read({})
        self._answer(results)

    def _answer(self, results: list[FetchResult]) -> None:
        _send(self._context, self._session.response(results))


def _send(context: RequestContext, response: FetchResponse) -> None:
    chunks: list[Chunk] = [
        segment.handle if isinstance(segment, RecordsSlot) else segment  # type: ignore[misc]  # handles are regions
        for segment in encode_fetch_response(response, context.version, context.correlation_id)
    ]
    context.reply.send(chunks)
