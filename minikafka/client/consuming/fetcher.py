"""Keeps fetches under way, so that records are buffered before they are asked for.

One fetch asks a leader for all of its partitions, and the next one starts as soon as each of them has at most one
answer in the buffer. So memory is bounded, records arrive while earlier ones are returned, and a long poll includes
partitions with buffered records. Partitions that become ready during a long poll (after a look-up, a seek, a recovery)
get a second fetch in parallel.

Topics are fetched by id (KIP-516), so no replica answers for another topic of the same name. The name is used only if
the id is unknown, or the broker is too old for ids.

A leader may send a consumer with a rack on to a follower in that rack (KIP-392). After a failure at a follower the
leader is asked next. Only the leader's word about offsets counts.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from minikafka.client.broker_connection import PATIENCE_S
from minikafka.client.connections import Connections
from minikafka.client.consuming.buffer import FetchBuffer
from minikafka.client.consuming.fetched import Fetched
from minikafka.client.consuming.positions import Position
from minikafka.client.consuming.resolver import Resolver, Tickets
from minikafka.client.metadata import MAX_AGE_S, Metadata
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE, ZERO_TOPIC_ID, Isolation, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

MAX_VERSION_BY_NAME: Final = 12  # newer versions know topics by their ids only
FETCHES_PER_LEADER: Final = 2
WAITING_MAX: Final = 1  # answers that a partition may have waiting when its leader is asked again
READ_REPLICA_MS: Final = int(MAX_AGE_S * 1000)  # how long a follower is read before the leader is asked again


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Settings of a fetch; see :class:`~minikafka.client.consumer.Consumer`."""

    isolation: Isolation
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    check_crcs: bool
    rack_id: str = ""


def _all_slots() -> set[int]:
    return set(range(FETCHES_PER_LEADER))


@dataclass(eq=False)
class Fetcher:
    """``positions``: the consumer's positions, read each time. ``on_change``: called for new records, or an error."""

    _connections: Connections
    _metadata: Metadata
    _resolver: Resolver
    _tasks: TaskOwner
    _clock_ms: Callable[[], int]
    _positions: Callable[[], Collection[Position]]
    _buffer: FetchBuffer
    _settings: FetchSettings
    _on_change: Callable[[], None]
    _slots: dict[int, set[int]] = field(default_factory=lambda: defaultdict(_all_slots), init=False)  # free ones
    _serving: int = field(default=0, init=False)
    _work: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def start(self) -> None:
        """Begin to fetch."""
        self._tasks.start(self._run(), "fetcher")

    def wake(self) -> None:
        """Check again for fetches to start: a position, a leader or the buffer changed."""
        self._work.set()

    # -- the loop ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._work.clear()
            positions = self._positions()
            self._hear_of_metadata(positions)
            if any(position.failures for position in positions):
                self._metadata.request_refresh()  # until the cause is found, at the pace that metadata keeps
            now_ms = self._clock_ms()
            self._resolver.ask(positions, now_ms)
            self._start_fetches(positions, now_ms)
            await self._pause(positions, now_ms)

    def _hear_of_metadata(self, positions: Iterable[Position]) -> None:
        cluster = self._connections.cluster
        is_other = [position.on_topic_id(cluster.topic_id_of(position.tp.topic)) for position in positions]
        for position in positions:
            position.on_leader_epoch(cluster.leader_epoch_of(position.tp))
        if any(is_other):
            self._on_change()  # nothing may be asked any more whose answer would tell the user

    async def _pause(self, positions: Iterable[Position], looked_ms: int) -> None:
        """Until something changes, or a back-off ends that was not over at ``looked_ms``, be it over by now."""
        due_ms = min((p.not_before_ms for p in positions if p.not_before_ms > looked_ms), default=None)
        try:
            async with asyncio.timeout(None if due_ms is None else max(0, due_ms - self._clock_ms()) / 1000):
                await self._work.wait()
        except TimeoutError:
            pass

    def _start_fetches(self, positions: Iterable[Position], now_ms: int) -> None:
        by_source: dict[int, list[Position]] = defaultdict(list)
        for position in positions:
            if position.may_be_read:
                leader = self._connections.cluster.leader_of(position.tp)
                by_source[position.source(leader, now_ms)].append(position)
        if by_source.pop(NO_NODE, None):
            self._metadata.request_refresh()
        for source, there in by_source.items():
            due = [position for position in there if position.is_due(now_ms) and not position.is_fetched]
            if due and self._slots[source] and all(position.waiting <= WAITING_MAX for position in there):
                due.sort(key=lambda position: position.served)
                slot = self._slots[source].pop()
                tickets = {position.tp: (position, position.ask()) for position in due}
                self._tasks.start(self._fetch(source, slot, tickets), f"from-{source}-{slot}")

    # -- one fetch --------------------------------------------------------------------------------------------------

    async def _fetch(self, source: int, slot: int, tickets: Tickets) -> None:
        settings = self._settings
        wait_s = settings.max_wait_ms / 1000
        names = {position.topic_id: position.tp.topic for position, _ in tickets.values()}
        try:
            connection = await self._connections.to_node(source, f"fetch-{slot}")
            response = await connection.call(
                self._request([position for position, _ in tickets.values()]),
                FetchResponse,
                timeout_s=self._connections.request_timeout_s + wait_s,
                patience_s=PATIENCE_S + wait_s,
                at_most=MAX_VERSION_BY_NAME if ZERO_TOPIC_ID in names else None,
            )
            if response.error_code:
                raise KafkaError(ErrorCode.of(response.error_code), "the fetch was refused")
        except KafkaError as error:
            for position, ticket in tickets.values():
                if position.answered(ticket):
                    position.read_from_leader()
                    self._resolver.back_off(position, error)
        else:
            self._take_in(response, tickets, names)
        finally:
            self._slots[source].add(slot)
        self._work.set()
        self._on_change()

    def _request(self, positions: Iterable[Position]) -> FetchRequest:
        topics: list[FetchTopic] = []
        for position in positions:  # in their order, because the byte limit is shared in it
            if not topics or topics[-1].topic != position.tp.topic:
                topics.append(FetchTopic(topic=position.tp.topic, topic_id=position.topic_id))
            topics[-1].partitions.append(
                FetchPartition(
                    partition=position.tp.partition,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetched.offset,
                    partition_max_bytes=self._settings.partition_max_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=self._settings.max_wait_ms,
            min_bytes=self._settings.min_bytes,
            max_bytes=self._settings.max_bytes,
            isolation_level=self._settings.isolation,
            topics=topics,
            rack_id=self._settings.rack_id,
        )

    def _take_in(self, response: FetchResponse, tickets: Tickets, names: Mapping[UUID, str]) -> None:
        answers = {
            TopicPartition(topic.topic or names.get(topic.topic_id, ""), data.partition_index): data
            for topic in response.responses
            for data in topic.partitions
        }
        for tp, (position, ticket) in tickets.items():
            if position.answered(ticket) and (data := answers.get(tp)) is not None:
                self._settle(position, data)

    def _settle(self, position: Position, data: PartitionData) -> None:
        error = ErrorCode.of(data.error_code)
        try:
            if error is ErrorCode.NONE:
                self._add(position, data)
            elif position.read_replica != NO_NODE:
                position.read_from_leader()
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"a follower of {position.tp}: {error.name}")
            elif error is ErrorCode.OFFSET_OUT_OF_RANGE and not position.waiting:
                position.on_out_of_range()
            elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._back_off_until_taken(position)
            else:
                raise KafkaError(error, f"fetching from {position.tp} failed")
        except KafkaError as failure:
            self._resolver.back_off(position, failure)

    def _back_off_until_taken(self, position: Position) -> None:
        """Out of range after the buffered records: return those first."""
        self._resolver.back_off(position, KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE))

    def _add(self, position: Position, data: PartitionData) -> None:
        """Raises KafkaError for records that cannot be read."""
        position.high_watermark = data.high_watermark
        position.failures = 0
        if data.preferred_read_replica != NO_NODE:
            position.read_from(data.preferred_read_replica, self._clock_ms() + READ_REPLICA_MS)
        if not data.records:
            return
        fetched = Fetched(position, data, check_crcs=self._settings.check_crcs)
        if fetched.is_exhausted:
            return  # a first batch cut off by the byte limit: next time it is this partition's turn
        self._serving += 1
        position.served = self._serving
        self._buffer.add(fetched)
