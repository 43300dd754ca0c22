"""Transactions: those that coordinators know, and those that are open in partitions (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from minikafka.client.admin import base
from minikafka.client.admin.base import NO_TOPIC, AdminCalls, check
from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.consuming.queries import indexes_by_topic
from minikafka.client.key_coordinator import TRANSACTION, KeyCoordinator
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE, NO_OFFSET, NO_TIMESTAMP, ProducerIdentity, TopicPartition
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from minikafka.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from minikafka.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

PARTITIONS_AT_ONCE: Final = 500
"""Of one DescribeProducers, as in Kafka's tool: a partition may have thousands of producers."""
ANY_DURATION: Final = -1
FENCING_TIMEOUT_MS: Final = 1
"""Of a transaction that does not begin; the next producer brings its own."""
FIRST_WITH_DURATION: Final = 1
FIRST_WITH_PATTERN: Final = 2

T = TypeVar("T")


class TransactionListing(NamedTuple):
    """A transactional id as its coordinator lists it. ``state`` is Empty, Ongoing, PrepareCommit, CompleteAbort, ..."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionView(NamedTuple):
    """A transactional id: its producer, and its transaction, if one is under way. Times in milliseconds."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]
    """That have no marker yet."""


class ProducerView(NamedTuple):
    """A producer as a replica knows it. ``transaction_start``: first offset of its open transaction there, or None."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int | None


class OpenTransaction(NamedTuple):
    """A producer's transaction in a partition. ``transactional_id``: None when no coordinator knows the producer."""

    partition: TopicPartition
    producer: ProducerView
    transactional_id: str | None


class TransactionCalls(AdminCalls):
    """Calls about transactions."""

    # -- what coordinators know -------------------------------------------------------------------------------------

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = ANY_DURATION,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Every transactional id that passes the filters, by id: each broker is asked for those it coordinates.

        ``longer_than_ms``: only transactions that are under way for longer. ``pattern``: a regular expression (RE2's)
        for the whole id. INVALID_REQUEST for an unknown state, INVALID_REGULAR_EXPRESSION for a pattern that is wrong.
        """
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=longer_than_ms,
            transactional_id_pattern=pattern,
        )

        async def attempt() -> list[TransactionListing]:
            found: list[TransactionListing] = []
            for node_id in sorted((await self._connections.refresh([])).brokers):
                connection = await self._connections.to_node(node_id)
                _check_filters(connection, request)
                answer = await connection.call(request, ListTransactionsResponse, timeout_s=self._answer_s)
                if answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
                    why = "is no regular expression of RE2, or one that costs too much"
                    raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r} {why}")
                check(answer.error_code, None, f"listing the transactions of broker {node_id}")
                if answer.unknown_state_filters:
                    unknown = ", ".join(answer.unknown_state_filters)
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown states of transactions: {unknown}")
                found += (
                    TransactionListing(each.transactional_id, node_id, each.producer_id, each.transaction_state)
                    for each in answer.transaction_states
                )
            return sorted(found)

        return await self._retrying(attempt, "listing transactions")

    async def describe_transaction(self, transactional_id: str) -> TransactionView:
        """A transactional id, from its coordinator. TRANSACTIONAL_ID_NOT_FOUND when there is none."""
        coordinator = KeyCoordinator(self._connections, transactional_id, TRANSACTION)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

        async def attempt() -> TransactionView:
            answer = await coordinator.call(request, DescribeTransactionsResponse, timeout_s=self._answer_s)
            (found,) = answer.transaction_states
            if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise KafkaError(
                    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"transactional id {transactional_id!r} not found"
                )
            coordinator.check(found.error_code, "describing it")
            return _view(found, coordinator.node_id)

        return await self._retrying(attempt, f"describing transactional id {transactional_id!r}")

    async def fence_producer(self, transactional_id: str) -> ProducerIdentity:
        """Abort the open transaction of an id, and let its producer write no more; the epoch after it (KIP-588).

        As if another producer had begun with the id. TRANSACTIONAL_ID_NOT_FOUND when there is none.
        """
        await self.describe_transaction(transactional_id)
        coordinator = KeyCoordinator(self._connections, transactional_id, TRANSACTION)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS)

        async def attempt() -> ProducerIdentity:
            answer = await coordinator.call(request, InitProducerIdResponse, timeout_s=self._answer_s)
            coordinator.check(answer.error_code, "fencing its producer")
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)

        return await self._retrying(attempt, f"fencing the producer of transactional id {transactional_id!r}")

    # -- what partitions know ---------------------------------------------------------------------------------------

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerView]]:
        """The producers that wrote lately to each partition, as its leader knows them, or that broker's replica."""
        wanted, found = list(dict.fromkeys(partitions)), dict[TopicPartition, list[ProducerView]]()

        async def attempt() -> None:
            await self._describe_producers([tp for tp in wanted if tp not in found], broker_id, found)

        doing = "describing producers"
        await self._retrying(attempt, doing, final=NO_TOPIC, believed_after_s=base.PROPAGATION_S)
        return found

    async def _describe_producers(
        self, wanted: list[TopicPartition], broker_id: int | None, found: dict[TopicPartition, list[ProducerView]]
    ) -> None:
        """Add what brokers answer to ``found``; KafkaError for the first that is missing."""
        cluster = await self._connections.refresh(sorted({tp.topic for tp in wanted}))
        by_broker: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for tp in wanted:
            if cluster.partition(tp) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {tp} not found")
            by_broker[cluster.leader_of(tp) if broker_id is None else broker_id].append(tp)
        if leaderless := by_broker.pop(NO_NODE, None):
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{leaderless[0]} has no leader now")
        if broker_id is not None and broker_id not in cluster.brokers:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no live broker {broker_id}")
        for node_id, of_node in by_broker.items():
            for some in _portions(of_node):
                await self._ask_broker(node_id, some, found)

    async def _ask_broker(
        self, node_id: int, partitions: Iterable[TopicPartition], found: dict[TopicPartition, list[ProducerView]]
    ) -> None:
        topics = [
            TopicRequest(name=topic, partition_indexes=indexes)
            for topic, indexes in indexes_by_topic(partitions).items()
        ]
        connection = await self._connections.to_node(node_id)
        answer = await connection.call(
            DescribeProducersRequest(topics=topics), DescribeProducersResponse, timeout_s=self._answer_s
        )
        for topic in answer.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                check(each.error_code, each.error_message, f"describing the producers of {tp}")
                found[tp] = [_producer(producer) for producer in each.active_producers]

    async def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> list[tuple[OpenTransaction, TransactionView | None]]:
        """What is open in partitions, in their order and by offset, with the transaction that its coordinator will end.

        Without one it hangs.
        """
        found = await self._as_coordinators_know(_open(await self.describe_producers(partitions)))
        hanging = await self._still_open([each for each, known in found if known is None])
        return [(each, known) for each, known in found if known is not None or each in hanging]

    # -- where both differ ------------------------------------------------------------------------------------------

    async def find_hanging(
        self, partitions: Iterable[TopicPartition], *, idle_for_ms: int, now_ms: int, broker_id: int | None = None
    ) -> list[OpenTransaction]:
        """Open transactions that nobody will end: no coordinator has the partition in a transaction of the producer.

        Only those of producers that wrote nothing for ``idle_for_ms``, by their time stamps. ``now_ms``: wall clock.
        """
        idle = [
            each
            for each in _open(await self.describe_producers(partitions, broker_id=broker_id))
            if now_ms - each.producer.last_timestamp >= idle_for_ms
        ]
        hanging = [each for each, known in await self._as_coordinators_know(idle) if known is None]
        return await self._still_open(hanging, broker_id)

    async def _still_open(
        self, transactions: list[OpenTransaction], broker_id: int | None = None
    ) -> list[OpenTransaction]:
        """Those of them that are open now. One that ended after it was seen is not known to its coordinator, either."""
        if not transactions:
            return []
        now = _open(await self.describe_producers([each.partition for each in transactions], broker_id=broker_id))
        starts = {(each.partition, each.producer.transaction_start) for each in now}
        return [each for each in transactions if (each.partition, each.producer.transaction_start) in starts]

    async def _as_coordinators_know(
        self, transactions: list[OpenTransaction]
    ) -> list[tuple[OpenTransaction, TransactionView | None]]:
        """Each with its transactional id, and the transaction that its coordinator will end; None if it will not."""
        if not transactions:
            return []
        known = await self._listed(sorted({each.producer.producer_id for each in transactions}))
        ids = {each.producer_id: each.transactional_id for each in known}
        views: dict[str, TransactionView | None] = {}
        for transactional_id in sorted(set(ids.values())):
            try:
                views[transactional_id] = await self.describe_transaction(transactional_id)
            except KafkaError as error:
                if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
        found: list[tuple[OpenTransaction, TransactionView | None]] = []
        for each in transactions:
            named = each._replace(transactional_id=ids.get(each.producer.producer_id))
            view = views.get(named.transactional_id or "")
            if view is not None and (
                view.producer_id != each.producer.producer_id or each.partition not in view.partitions
            ):
                view = None
            found.append((named, view))
        return found

    async def _listed(self, producer_ids: Iterable[int]) -> list[TransactionListing]:
        listed: list[TransactionListing] = []
        for some in _portions(producer_ids):
            listed += await self.list_transactions(producer_ids=some)
        return listed

    async def abort_transaction(self, partition: TopicPartition, start_offset: int) -> OpenTransaction:
        """Abort the hanging transaction that begins at this offset, with a marker in this partition only.

        INVALID_TXN_STATE, and nothing is done, when no open transaction begins there, or when its coordinator will end
        it: its producer is alive, or its time-out will come.
        """
        may_be_done: list[OpenTransaction] = []

        async def attempt() -> OpenTransaction:
            opened = _open(await self.describe_producers([partition]))
            wanted = [each for each in opened if each.producer.transaction_start == start_offset]
            if not wanted:
                if may_be_done:  # most likely by the attempt whose answer was lost
                    return may_be_done[-1]
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, _not_open(partition, start_offset, opened))
            ((hanging, known),) = await self._as_coordinators_know(wanted)
            if known is not None:
                raise KafkaError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"the transaction at offset {start_offset} of {partition} does not hang: transactional id"
                    f" {known.transactional_id!r} is in the state {known.state}; its producer ends it, or its"
                    f" coordinator after its time-out of {known.timeout_ms / 1000:g} s",
                )
            may_be_done.append(hanging)
            await self._write_abort(hanging)
            return hanging

        doing = f"aborting the transaction at offset {start_offset} of {partition}"
        return await self._retrying(attempt, doing, final=NO_TOPIC)

    async def _write_abort(self, hanging: OpenTransaction) -> None:
        tp, producer = hanging.partition, hanging.producer
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        connection = await self._connections.to_node(self._connections.cluster.leader_of(tp))
        answer = await connection.call(
            WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, timeout_s=self._answer_s
        )
        (result,) = answer.markers[0].topics[0].partitions
        check(result.error_code, None, f"aborting the transaction of producer {producer.producer_id} in {tp}")


def _check_filters(connection: BrokerConnection, request: ListTransactionsRequest) -> None:
    """A broker of an older version would not look at a filter that it does not know."""
    version = connection.version_for(ApiKey.LIST_TRANSACTIONS)
    if request.duration_filter != ANY_DURATION and version < FIRST_WITH_DURATION:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{connection.endpoint} cannot select by duration")
    if request.transactional_id_pattern and version < FIRST_WITH_PATTERN:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{connection.endpoint} cannot select by a pattern")


def _portions(items: Iterable[T]) -> Iterator[list[T]]:
    left = iter(items)
    while some := list(islice(left, PARTITIONS_AT_ONCE)):
        yield some


def _view(found: TransactionState, coordinator: int) -> TransactionView:
    started_ms = found.transaction_start_time_ms
    return TransactionView(
        found.transactional_id,
        coordinator,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        None if started_ms == NO_TIMESTAMP else started_ms,
        tuple(sorted(TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions)),
    )


def _producer(state: ProducerState) -> ProducerView:
    start = state.current_txn_start_offset
    return ProducerView(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        None if start == NO_OFFSET else start,
    )


def _open(producers: dict[TopicPartition, list[ProducerView]]) -> list[OpenTransaction]:
    found = [
        OpenTransaction(tp, producer, None)
        for tp, of_partition in producers.items()
        for producer in of_partition
        if producer.transaction_start is not None
    ]
    return sorted(found, key=lambda each: (each.partition, each.producer.transaction_start))


def _not_open(partition: TopicPartition, start_offset: int, opened: list[OpenTransaction]) -> str:
    starts = sorted(each.producer.transaction_start or 0 for each in opened)
    those = f"; open ones begin at {', '.join(map(str, starts[:5]))}" if starts else ""
    return f"no open transaction begins at offset {start_offset} of {partition}{those}"
