"""Writes the markers that transaction coordinators order to the leaders of the partitions, until they are there (T2).

What is ordered in one iteration of the loop goes to a node in one request. Several requests to a node are under way at
a time: one partition whose followers are slow holds up nobody else's markers. What fails is tried again after growing
pauses, at the leader of then. A request to a node that leads one of its partitions no more is given up: the node may be
paused, and the next leader is there already.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Set
from dataclasses import dataclass, field
from typing import Final

from minikafka.broker.backoff import Backoff
from minikafka.broker.drivers.shards import Shard
from minikafka.broker.marker_writes import MARKERS_AT_ONCE, Wanted, write_markers
from minikafka.broker.pacing import PerTurn
from minikafka.broker.peers import UNREACHABLE, Peers
from minikafka.broker.ports import Ports
from minikafka.broker.replicas import Replicas
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.event_log import get_logger
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import MetadataImage
from minikafka.model import NO_NODE, ProducerIdentity, TopicPartition
from minikafka.transactions.coordinator import TransactionCoordinator
from minikafka.transactions.effects import SendMarkers
from minikafka.transactions.records import sorted_portions
from minikafka.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

log = get_logger()

ANSWER_TIMEOUT_S: Final = 35.0
"""A leader waits for its followers for half a minute."""
REQUESTS_AT_ONCE: Final = 16
"""To one node."""
MARKERS_PER_REQUEST: Final = 1_000
"""Of one or many transactions. The rest of a large one waits behind others."""
FIRST_RETRY_MS: Final = 10
LAST_RETRY_MS: Final = 500


@dataclass(slots=True, eq=False)
class _Order:
    """The marker of one transaction."""

    shard: Shard[TransactionCoordinator]
    markers: SendMarkers
    pauses: Backoff

    @property
    def is_wanted(self) -> bool:
        """False once another coordinator writes it."""
        return self.shard.coordinator.phase is not Phase.RESIGNED


Orders = list[tuple[_Order, list[TopicPartition]]]


@dataclass(slots=True, eq=False)
class _Destination:
    """A node that leads partitions."""

    waiting: dict[_Order, list[TopicPartition]] = field(default_factory=dict)
    under_way: int = 0
    limits: dict[asyncio.Timeout, frozenset[TopicPartition]] = field(default_factory=dict)
    """Of each request under way the limit of its time, and what it is about."""

    def take(self, count: int) -> Orders:
        """So many of the markers that wait, if there are."""
        taken: Orders = []
        while count and self.waiting:
            order = next(iter(self.waiting))
            partitions = self.waiting.pop(order)
            taken.append((order, partitions[:count]))
            if len(partitions) > count:
                self.waiting[order] = partitions[count:]
            count -= len(taken[-1][1])
        return taken


class Markers:
    """All markers of the coordinators on this node."""

    def __init__(self, ports: Ports, replicas: Replicas, image: Callable[[], MetadataImage], peers: Peers) -> None:
        self._node_id = ports.config.node_id
        self._clock = ports.clock
        self._rng = ports.rng
        self._tasks = ports.tasks
        self._replicas = replicas
        self._image = image
        self._peers = peers
        self._destinations: defaultdict[int, _Destination] = defaultdict(_Destination)
        self._is_scheduled = False
        self._per_turn = PerTurn(MARKERS_AT_ONCE)
        self._portions_per_turn = PerTurn(1)
        self.requests = self.written = 0
        """Requests that were made, and partitions that have their marker."""
        self.leaderless = 0
        """Markers that wait for a leader of their partition."""

    def send(self, shard: Shard[TransactionCoordinator], markers: SendMarkers) -> None:
        """Write the marker to each partition, and report to the shard's coordinator."""
        pauses = Backoff(self._rng, first_ms=FIRST_RETRY_MS, last_ms=LAST_RETRY_MS)
        self._order(_Order(shard, markers, pauses), markers.partitions)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """What a node was to write that leads the partition no more goes to the next leader.

        Only what is under way is looked at: 100,000 partitions may have changed.
        """
        now_s, changed = asyncio.get_running_loop().time(), delta.partitions
        for node_id, destination in self._destinations.items():
            lost = [limit for limit, about in destination.limits.items() if self._has_lost(node_id, about, changed)]
            for limit in lost:
                del destination.limits[limit]
                if not limit.expired():  # in this very turn: its request is given up in the next
                    limit.reschedule(now_s)
            waiting = destination.waiting
            for order in [order for order, about in waiting.items() if self._has_lost(node_id, about, changed)]:
                self._tasks.start(self._try_again(order, waiting.pop(order)), "markers elsewhere")

    def _has_lost(self, node_id: int, about: Iterable[TopicPartition], changed: Set[TopicPartition]) -> bool:
        return any(tp in changed and not self._is_led_by(node_id, tp) for tp in about)

    def _is_led_by(self, node_id: int, tp: TopicPartition) -> bool:
        partition = self._image().partition(tp)
        return partition is not None and partition.leader == node_id

    def _order(self, order: _Order, partitions: Collection[TopicPartition]) -> None:
        if self._tasks.is_closed:
            return  # the node stops, and the next coordinator writes them
        if len(partitions) > MARKERS_PER_REQUEST:
            self._tasks.start(self._order_in_portions(order, partitions), "many markers")
        else:
            self._order_now(order, sorted(partitions))

    async def _order_in_portions(self, order: _Order, partitions: Collection[TopicPartition]) -> None:
        for portion in sorted_portions(partitions):
            await self._portions_per_turn.wait()
            if not order.is_wanted:
                return
            self._order_now(order, portion)

    def _order_now(self, order: _Order, partitions: list[TopicPartition]) -> None:
        gone, leaderless = [], []
        for tp in partitions:
            partition = self._image().partition(tp)
            if partition is None:
                gone.append(tp)  # deleted, with what the transaction wrote there
            elif partition.leader == NO_NODE:
                leaderless.append(tp)
            else:
                self._destinations[partition.leader].waiting.setdefault(order, []).append(tp)
        if gone:  # not in the middle of a step
            asyncio.get_running_loop().call_soon(self._report, order, gone)
        if leaderless:
            self._tasks.start(self._wait_for_leaders(order, leaderless), "markers without a leader")
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_waiting)

    def _send_waiting(self) -> None:
        self._is_scheduled = False
        if self._tasks.is_closed:
            return
        for node_id, destination in self._destinations.items():
            while destination.waiting and destination.under_way < REQUESTS_AT_ONCE:
                orders = destination.take(MARKERS_PER_REQUEST)
                destination.under_way += 1
                self._tasks.start(self._write(node_id, destination, orders), f"markers-to-{node_id}")

    async def _write(self, node_id: int, destination: _Destination, orders: Orders) -> None:
        wanted = [(order, partitions) for order, partitions in orders if order.is_wanted]
        try:
            failed = await self._written(node_id, destination, wanted) if wanted else []
        finally:
            destination.under_way -= 1
            if destination.waiting and not self._is_scheduled:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._send_waiting)
        for order, partitions in failed:
            self._tasks.start(self._try_again(order, partitions), "markers again")

    async def _written(self, node_id: int, destination: _Destination, wanted: Orders) -> Orders:
        """Write these; what has to be tried again."""
        request = WriteTxnMarkersRequest(markers=[_marker(order, partitions) for order, partitions in wanted])
        self.requests += 1
        limit = asyncio.timeout(ANSWER_TIMEOUT_S)
        about = frozenset(tp for _order, partitions in wanted for tp in partitions)
        try:
            async with limit:
                destination.limits[limit] = about
                response = await self._respond(node_id, request)
        except UNREACHABLE as error:
            log.debug("markers not written", node=node_id, why=str(error))
            return wanted
        finally:
            destination.limits.pop(limit, None)
        failed = []
        for (order, _partitions), result in zip(wanted, response.markers, strict=True):
            errors = {
                TopicPartition(topic.name, partition.partition_index): ErrorCode.of(partition.error_code)
                for topic in result.topics
                for partition in topic.partitions
            }
            settled: list[TopicPartition] = []
            again: list[TopicPartition] = []
            for tp, code in errors.items():
                (settled if _is_settled(order, tp, code) else again).append(tp)
            if again:
                failed.append((order, again))
            self.written += len(settled)
            self._report(order, settled)
        return failed

    async def _respond(self, node_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        if node_id == self._node_id:
            return await write_markers(request, self._replicas, self._paced)
        return await self._peers.call(node_id, request, WriteTxnMarkersResponse, timeout_s=ANSWER_TIMEOUT_S)

    async def _paced(self, wanted: Iterable[Wanted]) -> AsyncIterator[Wanted]:
        """Some in each turn of the loop, of all requests together."""
        for each in wanted:
            await self._per_turn.wait()
            yield each

    async def _wait_for_leaders(self, order: _Order, partitions: list[TopicPartition]) -> None:
        self.leaderless += len(partitions)
        try:
            await asyncio.sleep(order.pauses.next_s())
        finally:
            self.leaderless -= len(partitions)
        if order.is_wanted:
            self._order(order, partitions)

    async def _try_again(self, order: _Order, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(order.pauses.next_s())
        if order.is_wanted:
            self._order(order, partitions)

    def _report(self, order: _Order, partitions: list[TopicPartition]) -> None:
        markers, shard = order.markers, order.shard
        producer = ProducerIdentity(markers.producer_id, markers.producer_epoch)
        now_ms = self._clock.monotonic_ms()
        shard.step(shard.coordinator.on_marked(markers.transactional_id, producer, partitions, now_ms))


def _is_settled(order: _Order, tp: TopicPartition, error: ErrorCode) -> bool:
    """The partition has the marker, or a later one of the same producer: the transaction is not open there."""
    if error is ErrorCode.INVALID_PRODUCER_EPOCH:
        markers = order.markers
        log.warning(
            "a transaction was ended by another marker",
            transactional_id=markers.transactional_id,
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            partition=str(tp),
        )
        return True
    return error is ErrorCode.NONE


def _marker(order: _Order, partitions: list[TopicPartition]) -> WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    markers = order.markers
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.commits,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()],
        coordinator_epoch=order.shard.leader_epoch,
        transaction_version=markers.transaction_version,
    )
