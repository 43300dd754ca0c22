"""What every fetch does: read its partitions, wait until there is enough, answer (rows R16, D5).

Records are sent as regions of log files; the last write, if it is small, from memory. A fetch that finds too few bytes
waits: the request is kept, and the log is read again when bytes arrive or its time is up. One of many partitions is
looked at in portions, and what nobody read lately is read from the disk beside the loop first. Who may read what is up
to its kinds (``fetch``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from minikafka.broker.authorizer import Authorizer
from minikafka.broker.client_quotas import ClientQuotas
from minikafka.broker.clock import Clock
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.cold_reads import ColdRead, read_beside_the_loop
from minikafka.broker.handlers.new_leaders import TELLING, NewLeader, NewLeaders, reached_at
from minikafka.broker.logs import one_line
from minikafka.broker.lookups import Lookups
from minikafka.broker.partition import Partition
from minikafka.broker.quotas import ReplicationQuotas
from minikafka.broker.replicas import Replicas
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.model import NO_EPOCH, NO_NODE, NO_OFFSET, ZERO_TOPIC_ID, OffsetAndEpoch, TopicPartition
from minikafka.net.outbox import Chunk
from minikafka.net.tasks import TaskOwner
from minikafka.replication.epochs import diverging_epoch
from minikafka.replication.server_session import CachedPartition
from minikafka.replication.session_cache import FetchContext, FetchResult, FetchSessionCache
from minikafka.storage.reading import COLD_READ_BYTES
from minikafka.storage.slice import LogSlice
from minikafka.timing.purgatory import DelayedOperation, Purgatory
from minikafka.wire.hot import encode_fetch_response, records_slot
from minikafka.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from minikafka.wire.schema import RecordsSlot

log = get_logger()

LONGEST_WAIT_MS: Final = 60_000
"""Whoever asks to wait longer is answered with nothing then, as after any wait, and asks again."""
WAITING_BYTES: Final = 16 * 1024
"""What a fetch that waits is said to hold, so that 250 of a connection do: each write to its partition looks at it."""
WAITING_PARTITION_BYTES: Final = 512
"""What it holds for each of its partitions."""
WAITING_COLD_BYTES: Final = 64 * 1024
"""What one that waits to be read beside the loop is said to hold, so that 64 of a connection do. It is less than the
allowance of a connection: after a restart hundreds of consumers wait at once, and none may be closed for that."""

PARTITIONS_OF_WEIGHT: Final = 5
"""Partitions of a fetch that cost as much as a fetch of one, when it is woken or its time is up."""
PARTITIONS_AT_ONCE: Final = 500
"""Partitions of a portion: some 5 ms. A fetch of more is looked at in portions, with turns for others in between."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What fetches ask of their node."""

    config: BrokerConfig
    clock: Clock
    tasks: TaskOwner
    metadata: Metadata
    replicas: Replicas
    sessions: FetchSessionCache
    lookups: Lookups
    quotas: ReplicationQuotas
    client_quotas: ClientQuotas
    authorizer: Authorizer
    new_leaders: NewLeaders


class Fetch(DelayedOperation):
    """One request while it is being answered. If it finds too few bytes it waits (row D5)."""

    __slots__ = (
        "_asked",
        "_available",
        "_available_bytes",
        "_came_ms",
        "_cold",
        "_context",
        "_elsewhere",
        "_epochs",
        "_is_noted",
        "_must_answer",
        "_parts",
        "_refused",
        "_request",
        "_results",
        "_session",
        "_size",
        "_tells_aborted",
        "_was_read_at_once",
        "weight",
    )
    _from_first_batch: ClassVar[bool] = False
    """Also what lies below the log start and is still there."""

    def __init__(
        self, request: FetchRequest, session: FetchContext, context: RequestContext, parts: Parts, came_ms: int
    ) -> None:
        super().__init__(min(request.max_wait_ms, LONGEST_WAIT_MS))
        self._came_ms = came_ms  # monotonic
        self._cold: list[ColdRead] | None = []  # what must be read beside the loop first; None once that is done
        self._elsewhere: list[NewLeader] = []  # of partitions that were refused
        self._asked: dict[TopicPartition, CachedPartition] = {}  # what it waits for
        self._epochs: dict[TopicPartition, int] = {}  # those in which it began to wait, where it names none
        self._available: dict[TopicPartition, int] = {}  # bytes that were there when it was looked at last, if any
        self._available_bytes = 0  # sum of these
        self._results: list[FetchResult] = []  # of the last reading, and their bytes
        self._size = 0
        self._must_answer = False
        self._was_read_at_once = False  # and not in portions, or beside the loop
        self._is_noted = False  # that it came
        self._refused: dict[CachedPartition, KafkaError] = {}  # when it came
        self._tells_aborted = False  # only up to the last stable offset, and which transactions were aborted
        self._request = request
        self._session = session
        self._context = context
        self._parts = parts

    def begin(self) -> None:
        """Answer, park, or first have read beside the loop what nobody read lately."""
        self._read_all(self._begin)

    def _begin(self) -> None:
        """Answer at once if there are enough bytes, an error, or no time to wait (row R16)."""
        request, session = self._request, self._session
        if request.max_wait_ms <= 0 or session.is_empty or self._must_answer or self._size >= request.min_bytes:
            self._answer()
            return
        session.look_again()
        self.weight = 1 + len(session.partitions) // PARTITIONS_OF_WEIGHT
        for cached in session.partitions:
            if (tp := cached.tp) is not None:
                self._asked[tp] = cached
                if cached.asked.current_leader_epoch == NO_EPOCH:  # else another one is refused
                    partition = self._parts.replicas.get(tp)
                    self._epochs[tp] = NO_EPOCH if partition is None else partition.leader_epoch
        if self._is_large:
            self._waits_in().watch(self, self._watched(), self._came_ms)
            self._start(self._look_in_portions(), WAITING_BYTES)
            self._context.reply.cancel_with_connection(self.cancel)
        elif self._has_found_nothing or not self.try_complete():
            self._waits_in().watch(self, self._watched(), self._came_ms)
            held_bytes = WAITING_BYTES + WAITING_PARTITION_BYTES * len(session.partitions)
            self._context.reply.hold(held_bytes, self.cancel)

    @property
    def _has_found_nothing(self) -> bool:
        """A look now would find no more than the reading did, which is not over for long and left nothing out."""
        return self._size == 0 and self._was_read_at_once and not self._tells_aborted

    @property
    def _is_large(self) -> bool:
        return len(self._session.partitions) > PARTITIONS_AT_ONCE

    # -- in portions, and beside the loop ---------------------------------------------------------------------------

    def _read_all(self, then: Callable[[], None]) -> None:
        """Read every partition, and go on: at once, unless there are many, or some that must be read from the disk."""
        self._results, self._size, self._must_answer, self._elsewhere = [], 0, False, []
        is_large = self._is_large
        self._was_read_at_once = not is_large and self._cold is not None
        if is_large:
            held_bytes = 0 if self._is_noted else WAITING_PARTITION_BYTES * len(self._session.partitions)
            self._start(self._read_in_portions(then), held_bytes)
            return
        self._read(self._session.partitions)
        self._go_on_warm(then)

    async def _read_in_portions(self, then: Callable[[], None]) -> None:
        partitions = self._session.partitions
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            await self._context.connection.wait_for_turn()
            self._read(partitions[start : start + PARTITIONS_AT_ONCE])
        await self._context.connection.wait_for_turn()
        self._go_on_warm(then)

    def _go_on_warm(self, then: Callable[[], None]) -> None:
        """Go on; if some of it must be read from the disk, have that done beside the loop first, and read anew."""
        self._is_noted = True
        if self._cold:
            self._start(self._read_cold(self._cold, then), WAITING_COLD_BYTES)
        else:
            then()

    async def _look_in_portions(self) -> None:
        """It is watched already: look whether it is to be answered now."""
        for count, tp in enumerate(self._asked, 1):
            if self.is_completed or self.try_complete_for(tp):
                return
            if count % PARTITIONS_AT_ONCE == 0:
                await self._context.connection.wait_for_turn()

    async def _read_cold(self, cold: list[ColdRead], then: Callable[[], None]) -> None:
        await read_beside_the_loop(cold, self._parts.lookups, self._context.connection)
        self._cold = None
        self._read_all(then)

    def _start(self, work: Coroutine[Any, Any, None], held_bytes: int) -> None:
        if self._parts.tasks.is_closed:
            work.close()
            self._context.connection.close()  # the node stops
            return
        task = self._parts.tasks.start(self._guarded(work), "fetch")
        self._context.reply.hold(held_bytes, task.cancel)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # a bug, and what one client asks must not stop the node for all others
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        log.error("fetch failed", why=one_line(error), exc_info=error)
        self._context.connection.close()

    # -- what consumers and followers differ in ---------------------------------------------------------------------

    @abstractmethod
    def _waits_in(self) -> Purgatory[object]:
        """Where it waits."""

    @abstractmethod
    def _find(self, cached: CachedPartition, tp: TopicPartition) -> Partition:
        """The partition, if it may be read here. KafkaError."""

    @abstractmethod
    def _note(self, cached: CachedPartition, partition: Partition) -> OffsetAndEpoch | None:
        """The fetch of this partition came: where the fetcher's log and this one part, if they do.

        KafkaError, also kept: what it is told instead of records.
        """

    @abstractmethod
    def _limit(self, partition: Partition, high_watermark: int) -> int:
        """First offset that this reader may not read: log end, high watermark or last stable offset (row R15)."""

    @abstractmethod
    def _on_read(self, partition: Partition, fetch_offset: int, found: LogSlice, data: PartitionData) -> None:
        """Records were found, and are in the answer."""

    @abstractmethod
    def _on_sent(self, tp: TopicPartition, fetch_offset: int, size: int) -> None:
        """So many bytes of records are in the answer, which is final."""

    @abstractmethod
    def _settle(self) -> None:
        """The fetcher is being told all that is new."""

    def _watched(self) -> Collection[Hashable]:
        """Keys of what it waits for: all its partitions."""
        return self._asked

    def _changed(self, key: object) -> Iterable[CachedPartition]:
        """Partitions of that key to which something happened."""
        assert isinstance(key, TopicPartition)
        return (self._asked[key],)

    def _is_withheld(self, partition: Partition) -> bool:
        """True when there are no records for now."""
        return False

    def _preferred_read_replica(self, partition: Partition, fetch_offset: int) -> int | None:
        """Another broker to read from, for a reader in a rack."""
        return None

    # -- reading ----------------------------------------------------------------------------------------------------

    def _read(self, partitions: Iterable[CachedPartition]) -> None:
        """Results in order, their bytes, and whether one of them must be answered without waiting."""
        room = self._max_bytes()
        size, results = self._size, self._results
        for cached in partitions:
            try:
                partition = self._partition(cached)
                if (refusal := self._refused.get(cached)) is not None:
                    raise refusal
                if self._is_noted:
                    asked = cached.asked
                    diverging = diverging_epoch(partition.log, asked.fetch_offset, asked.last_fetched_epoch)
                else:
                    diverging = self._note(cached, partition)
                self._session.on_looked_at(cached)
                data = self._read_partition(partition, cached, diverging, max(0, room - size), is_first=size == 0)
            except KafkaError as error:
                data = self._failed(cached, error)
            if data.error_code or data.diverging_epoch is not None or data.preferred_read_replica != NO_NODE:
                self._must_answer = True
            if data.records:
                size += len(data.records)
            results.append((cached, data))
        self._size = size

    def _max_bytes(self) -> int:
        """Of the records in the answer; only a first batch that is larger is sent all the same."""
        return min(self._request.max_bytes, self._parts.config.fetch_max_bytes)

    def _partition(self, cached: CachedPartition) -> Partition:
        tp = cached.tp
        if tp is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {cached.topic_id} not found")
        partition = self._find(cached, tp)
        if cached.topic_id is not ZERO_TOPIC_ID and cached.topic_id.int != partition.topic_id.int:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"the topic of {tp} was deleted and created again")
        return partition

    def _read_partition(
        self,
        partition: Partition,
        cached: CachedPartition,
        diverging: OffsetAndEpoch | None,
        room: int,
        *,
        is_first: bool,
    ) -> PartitionData:
        asked, log_ = cached.asked, partition.log
        high_watermark = partition.high_watermark
        data = PartitionData(
            partition_index=cached.partition,
            high_watermark=high_watermark,
            last_stable_offset=log_.last_stable_offset(high_watermark),
            log_start_offset=log_.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        fetch_offset, size = asked.fetch_offset, min(asked.partition_max_bytes, room)
        if diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset)
            return data
        if self._request.rack_id:
            preferred = self._preferred_read_replica(partition, fetch_offset)
            if preferred is not None:
                data.preferred_read_replica = preferred
                return data
        if self._tells_aborted:
            data.aborted_transactions = []
        limit = self._limit(partition, high_watermark)
        if fetch_offset == limit or self._is_withheld(partition):
            return data
        if fetch_offset > limit and fetch_offset <= log_.log_end_offset:
            return data  # a consumer ahead of the high watermark, after a leader change: it will get there
        if self._cold is not None and log_.is_cold(fetch_offset, size):
            if self._tells_aborted:
                self._cold.append(partial(log_.aborted.prepare, fetch_offset))
            return self._read_later(data, size, partial(log_.prepare_read, fetch_offset, size))
        has_aborted = self._tells_aborted and log_.aborted.are_possible(fetch_offset)
        if has_aborted:
            limit = log_.aborted.read_limit(fetch_offset, limit)
        found = log_.read(
            fetch_offset,
            size,
            max_offset=limit,
            min_one_batch=is_first,
            from_first_batch=self._from_first_batch,
        )
        if not found.size:
            return data
        if has_aborted:
            end_offset = log_.end_of(fetch_offset, found)
            aborted = log_.aborted.between(fetch_offset, end_offset)
            if aborted is None:
                return self._read_later(data, size, partial(log_.aborted.prepare, fetch_offset, end_offset))
            data.aborted_transactions = [
                AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in aborted
            ]
        data.records = records_slot(found.size, found) if found.content is None else found.content
        self._on_read(partition, fetch_offset, found, data)
        return data

    def _read_later(self, data: PartitionData, size: int, prepare: ColdRead) -> PartitionData:
        """No records: they are read again when the job is done, or, if one was, with the client's next fetch."""
        if self._cold is not None:
            self._cold.append(prepare)
            data.records = records_slot(min(size, COLD_READ_BYTES), None)  # as if it were there: it takes the room
        return data

    def _failed(self, cached: CachedPartition, error: KafkaError) -> PartitionData:
        data = PartitionData(
            partition_index=cached.partition,
            error_code=error.code,
            high_watermark=NO_OFFSET,
            aborted_transactions=None,
            records=b"",
        )
        if error.code in TELLING and cached.tp is not None:
            partition = self._parts.replicas.get(cached.tp)
            if partition is not None:  # leader discovery (KIP-595)
                data.current_leader = LeaderIdAndEpoch(
                    leader_id=partition.leader_id, leader_epoch=partition.leader_epoch
                )
            if leader := self._parts.new_leaders.find(cached.tp, error.code, self._context.listener):
                data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch)
                self._elsewhere.append(leader)
        return data

    # -- completing -------------------------------------------------------------------------------------------------

    def try_complete(self) -> bool:
        return self._is_satisfied(None) and self.force_complete()

    def try_complete_for(self, key: object) -> bool:
        return self._is_satisfied(key) and self.force_complete()

    def _is_satisfied(self, key: object | None) -> bool:
        """Enough bytes over all partitions, or one of them moved, was cut, was fenced or diverged (row D5).

        ``key``: something happened only to what it stands for since all were looked at; None: look at all. A fetch may
        have thousands of partitions, and each write of a producer thousands, too.
        """
        for cached in self._asked.values() if key is None else self._changed(key):
            tp = cached.tp
            available = None if tp is None else self._bytes_for(tp, cached)
            if tp is None or available is None:
                return True
            if available or tp in self._available:
                self._available_bytes += available - self._available.get(tp, 0)
                self._available[tp] = available
        return self._available_bytes >= self._request.min_bytes

    def _bytes_for(self, tp: TopicPartition, cached: CachedPartition) -> int | None:
        """What it could be answered with from this partition; None: it has to be answered now."""
        asked = cached.asked
        try:
            partition = self._partition(cached)
        except KafkaError:
            return None
        if tp in self._epochs and self._epochs[tp] != partition.leader_epoch:
            return None  # it moved
        log_ = partition.log
        limit = self._limit(partition, partition.high_watermark)
        is_held_back = asked.fetch_offset >= limit or self._is_withheld(partition)
        if not is_held_back and self._request.min_bytes <= 1:
            return None  # any byte will do
        if diverging_epoch(log_, asked.fetch_offset, asked.last_fetched_epoch) is not None:
            return None
        if asked.fetch_offset > log_.log_end_offset or asked.fetch_offset < log_.log_start_offset:
            return None
        if is_held_back:
            return 0
        if asked.fetch_offset < log_.active_base_offset:
            return None  # a segment was rolled under the fetch
        return log_.bytes_between(asked.fetch_offset, limit)

    def on_complete(self) -> None:
        """It waited, and reads anew. That may have gone cold: a segment was rolled, or is another's copy now."""
        try:
            self._session.look_again()
            self._read_all(self._answer)
        except Exception as error:  # a bug, and others are to be woken by what woke this one
            self._fail(error)

    def on_expiration(self) -> None:
        """Nothing more to do: ``on_complete`` has answered with the bytes that are there (row D6)."""

    def _answer(self) -> None:
        for cached, data in self._results:
            if data.records and cached.tp is not None:
                self._on_sent(cached.tp, cached.asked.fetch_offset, len(data.records))
            elif data.error_code:
                self._context.note_errors((data.error_code,))
        response = self._session.response(self._results)
        self._settle()
        if self._elsewhere:
            response.node_endpoints = reached_at(NodeEndpoint, self._elsewhere)
        response.throttle_time_ms = self._throttle_ms(response)
        send_response(self._context, response)

    def _throttle_ms(self, response: FetchResponse) -> int:
        """What the client is to wait: nodes never do."""
        return 0


def send_response(context: RequestContext, response: FetchResponse) -> None:
    """Encode it; regions of files stay regions."""
    chunks: list[Chunk] = [
        segment.handle if isinstance(segment, RecordsSlot) else segment  # type: ignore[misc]  # handles are regions
        for segment in encode_fetch_response(response, context.version, context.correlation_id)
    ]
    context.reply.send(chunks)
