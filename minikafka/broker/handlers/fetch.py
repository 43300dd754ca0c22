"""Fetch (key 1), versions 4-18: consumers up to the high watermark, followers up to the log end (rows R15-R17, D5).

How a fetch reads, waits and is answered, is ``fetching``. Fetch sessions are incremental (KIP-227). A read_committed
consumer reads up to the last stable offset, and is told which transactions among its records were aborted (row T23). A
consumer that speaks version 11 or later may also read from a follower in its rack, up to the follower's high watermark;
the leader names that follower (row R25, KIP-392).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.fetching import Fetch, Parts, send_response
from minikafka.broker.partition import Partition
from minikafka.config.topics import RACK_AWARE_SELECTOR
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Isolation, OffsetAndEpoch, TopicPartition
from minikafka.net.turns import REQUEST_COST
from minikafka.replication.epochs import diverging_epoch
from minikafka.replication.fetch_session import INITIAL_EPOCH
from minikafka.replication.progress import ReplicaProgress
from minikafka.replication.server_session import CachedPartition, Follower
from minikafka.replication.session_cache import FetchContext
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.storage.slice import LogSlice
from minikafka.timing.purgatory import Purgatory
from minikafka.wire.codec import decoder
from minikafka.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

AUTHORIZATION: Final = (
    ByHandler("READ on each topic; followers are nodes", ((AclOperation.READ, ResourceType.TOPIC),)),
)

FIRST_VERSION_WITH_RACK: Final = 11
FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
READS_PER_SAMPLE: Final = 31
"""One read of a partition in so many is verified. A prime: where consumers take turns, each is sampled some time."""
SAMPLE_BYTES: Final = 64 * 1024
"""Of its beginning: a consumer that cannot read on asks from the bad batch on."""


def handle_frame(frame: memoryview, position: int, context: RequestContext, parts: Parts) -> None:
    """Answer at once, or park the request until there is enough to answer with."""
    request, _ = decoder(FetchRequest, context.version)(frame, position, context.elements_max)
    replica_id, broker_epoch = request.replica_id, -1
    if context.version >= FIRST_VERSION_WITH_REPLICA_STATE and request.replica_state is not None:
        replica_id, broker_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    if replica_id >= 0 and replica_id != context.connection.principal:
        # A forged follower's fetch would move the high watermark.
        _refuse(context, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return
    follower = Follower(replica_id, broker_epoch) if replica_id >= 0 else None
    try:
        now_ms, user = parts.clock.monotonic_ms(), context.connection.user
        session = parts.sessions.open(request, context.version, follower=follower, now_ms=now_ms, user=user)
    except KafkaError as error:
        _refuse(context, error.code)
        return
    if len(session.partitions) > 1:
        context.connection.spend(REQUEST_COST * len(session.partitions))
    if follower is None:
        _ConsumerFetch(request, session, context, parts, now_ms).begin()
    else:
        _FollowerFetch(request, session, context, parts, now_ms, follower).begin()


class _ConsumerFetch(Fetch):
    """Committed records, to who may read the topic. That is looked at again when it waited."""

    __slots__ = ("_may_follow",)

    def __init__(
        self, request: FetchRequest, session: FetchContext, context: RequestContext, parts: Parts, came_ms: int
    ) -> None:
        super().__init__(request, session, context, parts, came_ms)
        self._tells_aborted = request.isolation_level == Isolation.READ_COMMITTED
        self._may_follow = context.version >= FIRST_VERSION_WITH_RACK

    def _waits_in(self) -> Purgatory[object]:
        return self._parts.replicas.waiting.consumer_fetches

    def _find(self, cached: CachedPartition, tp: TopicPartition) -> Partition:
        authorizer = self._parts.authorizer
        if authorizer.is_enabled and not authorizer.permits(
            self._context, AclOperation.READ, ResourceType.TOPIC, tp.topic
        ):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        replicas, epoch = self._parts.replicas, cached.asked.current_leader_epoch
        if self._may_follow:
            return replicas.replica_of(tp, current_leader_epoch=epoch)
        return replicas.leader_of(tp, current_leader_epoch=epoch)

    def _note(self, cached: CachedPartition, partition: Partition) -> OffsetAndEpoch | None:
        """Nobody has to know."""
        return diverging_epoch(partition.log, cached.asked.fetch_offset, cached.asked.last_fetched_epoch)

    def _settle(self) -> None:
        """Each fetch of a client looks at all partitions of its session."""

    def _max_bytes(self) -> int:
        """No more than its quota has in some seconds: it is muted until that is paid."""
        most = super()._max_bytes()
        quotas = self._parts.client_quotas
        return min(most, quotas.fetch_max_bytes(self._context.client)) if quotas.bound_keys else most

    def _throttle_ms(self, response: FetchResponse) -> int:
        quotas, context = self._parts.client_quotas, self._context
        if quotas.bound_keys:
            quotas.on_fetched(context, sum(len(data.records or b"") for _, data in self._results))
        return context.throttle_ms

    def _limit(self, partition: Partition, high_watermark: int) -> int:
        return partition.log.last_stable_offset(high_watermark) if self._tells_aborted else high_watermark

    def _preferred_read_replica(self, partition: Partition, fetch_offset: int) -> int | None:
        rack, parts = self._request.rack_id, self._parts
        if not self._may_follow or partition.leader is None or rack == parts.config.broker_rack:
            return None
        if parts.config.replica_selector_class != RACK_AWARE_SELECTOR:
            return None
        in_rack = [broker.broker_id for broker in parts.metadata.image.live_brokers() if broker.rack == rack]
        return partition.leader.preferred_read_replica(fetch_offset, in_rack)

    def _on_read(self, partition: Partition, fetch_offset: int, found: LogSlice, data: PartitionData) -> None:
        partition.reads += 1
        if not partition.reads % READS_PER_SAMPLE:
            self._parts.replicas.on_sample_consumed(partition, fetch_offset, min(found.size, SAMPLE_BYTES))

    def _on_sent(self, tp: TopicPartition, fetch_offset: int, size: int) -> None:
        partition = self._parts.replicas.get(tp)
        if partition is not None:
            partition.traffic.bytes_out += size


class _FollowerFetch(Fetch):
    """A follower's fetch: records up to the log end. Its fetch offset is the follower's own log end (row R17).

    It looks only at partitions that are not settled (:mod:`~minikafka.replication.server_session`), and what happens to
    one of the others wakes it by its session.
    """

    __slots__ = ("_broker_epoch", "_replica_id")
    _from_first_batch = True

    def __init__(
        self,
        request: FetchRequest,
        session: FetchContext,
        context: RequestContext,
        parts: Parts,
        came_ms: int,
        follower: Follower,
    ) -> None:
        super().__init__(request, session, context, parts, came_ms)
        self._replica_id, self._broker_epoch = follower

    def _waits_in(self) -> Purgatory[object]:
        return self._parts.replicas.waiting.follower_fetches

    def _watched(self) -> Collection[Hashable]:
        return self._asked if self._session.session is None else (self._session.session,)

    def _changed(self, key: object) -> Iterable[CachedPartition]:
        if key is self._session.session:
            return self._session.take_moved()
        return super()._changed(key)

    def _is_satisfied(self, key: object | None) -> bool:
        """Who takes any byte is woken by the end of a log that moved, and need not look for what it will read."""
        has_moved = key is not None and key is self._session.session
        if has_moved and self._request.min_bytes <= 1 and not self._parts.quotas.as_leader.is_limited:
            return True
        return super()._is_satisfied(key)

    @property
    def _opens_session(self) -> bool:
        return self._session.session is not None and self._request.session_epoch == INITIAL_EPOCH

    def _settle(self) -> None:
        self._session.settle(self._results, self._progress_at_end)

    def _progress_at_end(self, cached: CachedPartition) -> ReplicaProgress | None:
        partition, asked = None if cached.tp is None else self._parts.replicas.get(cached.tp), cached.asked
        if partition is None:
            return None
        return partition.replica.progress_at_end(self._replica_id, asked.current_leader_epoch, asked.fetch_offset)

    def _find(self, cached: CachedPartition, tp: TopicPartition) -> Partition:
        return self._parts.replicas.leader_of(tp, current_leader_epoch=cached.asked.current_leader_epoch)

    def _limit(self, partition: Partition, high_watermark: int) -> int:
        return partition.log.log_end_offset

    def _on_read(self, partition: Partition, fetch_offset: int, found: LogSlice, data: PartitionData) -> None:
        """Say where they end; no samples: a follower that repeats itself is noticed (``_on_sent``)."""
        data.records_end_offset = partition.log.end_of(fetch_offset, found)

    def _is_withheld(self, partition: Partition) -> bool:
        quotas = self._parts.quotas
        return quotas.as_leader.is_limited and quotas.withholds(partition, self._replica_id)

    def _note(self, cached: CachedPartition, partition: Partition) -> OffsetAndEpoch | None:
        replicas, asked, now_ms = self._parts.replicas, cached.asked, self._came_ms
        try:
            replicas.check_follower(partition, self._replica_id, asked.high_watermark, asked.last_fetched_epoch, now_ms)
            diverging = diverging_epoch(partition.log, asked.fetch_offset, asked.last_fetched_epoch)
            if diverging is None:
                replicas.on_follower_fetch(
                    partition, self._replica_id, self._broker_epoch, asked.fetch_offset, asked.log_start_offset, now_ms
                )
            return diverging
        except KafkaError as error:
            self._refused[cached] = error
            raise

    def _on_sent(self, tp: TopicPartition, fetch_offset: int, size: int) -> None:
        replicas, quotas = self._parts.replicas, self._parts.quotas
        partition = replicas.get(tp)
        if partition is None:
            return
        replicas.traffic.replication_bytes_out += size
        if not self._opens_session:  # one that took its last fetch back for a further partition may have had these
            replicas.on_records_sent(partition, self._replica_id, fetch_offset, size)
        if quotas.as_leader.is_limited:
            quotas.on_sent(partition, size)


def _refuse(context: RequestContext, error: ErrorCode) -> None:
    context.note_errors((error,))
    send_response(context, FetchResponse(error_code=error))
