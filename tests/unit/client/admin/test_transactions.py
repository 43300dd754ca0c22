"""Calls about transactions, to a cluster that answers as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from scripted_cluster import HANG_UP, ScriptedCluster

from minikafka.client import Admin
from minikafka.client.admin import OpenTransaction, ProducerView, TransactionListing, TransactionView
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.wire.api import ApiKey
from minikafka.wire.messages import describe_producers, describe_transactions, list_transactions, write_txn_markers
from minikafka.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from minikafka.wire.messages.describe_transactions import DescribeTransactionsResponse
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from minikafka.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

T0 = TopicPartition("t", 0)
PRODUCER = 7
HOUR_MS = 3_600_000


@pytest.fixture
async def admin(cluster: ScriptedCluster) -> AsyncIterator[Admin]:
    async with Admin(cluster.servers, request_timeout_ms=20_000) as client:
        yield client


def opened(start: int | None = 5, *, error: ErrorCode = ErrorCode.NONE) -> DescribeProducersResponse:
    producer = describe_producers.ProducerState(
        producer_id=PRODUCER,
        producer_epoch=3,
        last_sequence=9,
        last_timestamp=1_000,
        coordinator_epoch=-1,
        current_txn_start_offset=-1 if start is None else start,
    )
    partition = describe_producers.PartitionResponse(
        partition_index=0, error_code=error, active_producers=[] if error else [producer]
    )
    return DescribeProducersResponse(topics=[describe_producers.TopicResponse(name="t", partitions=[partition])])


def listed(*names: str) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        transaction_states=[
            list_transactions.TransactionState(
                transactional_id=name, producer_id=PRODUCER, transaction_state="CompleteAbort"
            )
            for name in names
        ]
    )


def described(*partitions: int, error: ErrorCode = ErrorCode.NONE) -> DescribeTransactionsResponse:
    state = describe_transactions.TransactionState(
        error_code=error,
        transactional_id="copier",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=-1,
        producer_id=PRODUCER,
        producer_epoch=3,
        topics=[describe_transactions.TopicData(topic="t", partitions=list(partitions))],
    )
    return DescribeTransactionsResponse(transaction_states=[state])


def marked(error: ErrorCode = ErrorCode.NONE) -> WriteTxnMarkersResponse:
    partition = write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=0, error_code=error)
    topic = write_txn_markers.WritableTxnMarkerTopicResult(name="t", partitions=[partition])
    marker = write_txn_markers.WritableTxnMarkerResult(producer_id=PRODUCER, topics=[topic])
    return WriteTxnMarkersResponse(markers=[marker])


HANGING = OpenTransaction(T0, ProducerView(PRODUCER, 3, 9, 1_000, -1, 5), None)


def unknown_to_all(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.LIST_TRANSACTIONS, lambda node_id, request: listed())


async def test_ids_of_all_brokers_are_listed(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.on(ApiKey.LIST_TRANSACTIONS, lambda node_id, request: listed(f"id-{9 - node_id}"))
    found = await admin.list_transactions(states=["Ongoing"], producer_ids=[1], longer_than_ms=5)
    assert found == sorted(TransactionListing(f"id-{9 - node}", node, PRODUCER, "CompleteAbort") for node in (1, 2))
    request = cluster.asked(ListTransactionsRequest)[-1]
    assert (request.state_filters, request.producer_id_filters, request.duration_filter) == (["Ongoing"], [1], 5)


async def test_a_state_that_there_is_not_is_named(cluster: ScriptedCluster, admin: Admin) -> None:
    answer = ListTransactionsResponse(unknown_state_filters=["Sleeping"])
    cluster.on(ApiKey.LIST_TRANSACTIONS, lambda node_id, request: answer)
    with pytest.raises(KafkaError, match="unknown states of transactions: Sleeping"):
        await admin.list_transactions(states=["Sleeping"])


async def test_an_id_is_described_by_its_coordinator(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.next_only(
        ApiKey.DESCRIBE_TRANSACTIONS, described(error=ErrorCode.NOT_COORDINATOR), HANG_UP, described(1, 0)
    )
    assert await admin.describe_transaction("copier") == TransactionView(
        "copier", 1, "Ongoing", PRODUCER, 3, 60_000, None, (T0, TopicPartition("t", 1))
    )


async def test_a_producer_is_fenced_once_its_transaction_is_over(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, lambda node_id, request: described(0))
    cluster.next_only(
        ApiKey.INIT_PRODUCER_ID,
        InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS),
        HANG_UP,
        InitProducerIdResponse(producer_id=PRODUCER, producer_epoch=4),
    )
    assert await admin.fence_producer("copier") == (PRODUCER, 4)
    cluster.on(
        ApiKey.DESCRIBE_TRANSACTIONS, lambda node_id, request: described(error=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    )
    with pytest.raises(KafkaError, match="transactional id 'copier' not found"):
        await admin.fence_producer("copier")
    assert len(cluster.asked(InitProducerIdRequest)) == 3, "an id that is not there is not made"


async def test_another_leader_is_asked_for_producers(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.next_only(ApiKey.DESCRIBE_PRODUCERS, opened(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), HANG_UP, opened(None))
    assert await admin.describe_producers([T0]) == {T0: [ProducerView(PRODUCER, 3, 9, 1_000, -1, None)]}


async def test_what_no_coordinator_knows_hangs(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.on(ApiKey.DESCRIBE_PRODUCERS, lambda node_id, request: opened())
    unknown_to_all(cluster)
    assert await admin.find_hanging([T0], idle_for_ms=HOUR_MS, now_ms=HOUR_MS) == []  # it may be alive
    assert await admin.find_hanging([T0], idle_for_ms=HOUR_MS, now_ms=2 * HOUR_MS) == [HANGING]
    cluster.on(ApiKey.LIST_TRANSACTIONS, lambda node_id, request: listed("copier"))
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, lambda node_id, request: described(0))
    assert await admin.find_hanging([T0], idle_for_ms=0, now_ms=2_000) == []
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, lambda node_id, request: described(1))  # the next one, elsewhere
    named = [HANGING._replace(transactional_id="copier")]
    assert await admin.find_hanging([T0], idle_for_ms=0, now_ms=2_000) == named
    expired = described(error=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, lambda node_id, request: expired)
    assert await admin.find_hanging([T0], idle_for_ms=0, now_ms=2_000) == named


async def test_what_ends_while_one_looks_does_not_hang(cluster: ScriptedCluster, admin: Admin) -> None:
    """Its coordinator has forgotten the partition, because the marker is there."""
    cluster.next_only(ApiKey.DESCRIBE_PRODUCERS, opened(5), opened(None), opened(5), opened(8))
    unknown_to_all(cluster)
    for _ in range(2):
        assert await admin.find_hanging([T0], idle_for_ms=0, now_ms=2_000) == []
    assert len(cluster.asked(DescribeProducersRequest)) == 4


async def test_open_transactions_are_told_from_those_that_hang(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.on(ApiKey.DESCRIBE_PRODUCERS, lambda node_id, request: opened())
    unknown_to_all(cluster)
    assert await admin.open_transactions([T0]) == [(HANGING, None)]
    cluster.next_only(ApiKey.DESCRIBE_PRODUCERS, opened(5), opened(None))  # it ends while one looks
    assert await admin.open_transactions([T0]) == []
    cluster.next_only(ApiKey.DESCRIBE_PRODUCERS, opened(5))
    cluster.on(ApiKey.LIST_TRANSACTIONS, lambda node_id, request: listed("copier"))
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, lambda node_id, request: described(0))
    ((found, known),) = await admin.open_transactions([T0])
    assert (found.transactional_id, known is not None and known.state) == ("copier", "Ongoing")


async def test_an_abort_whose_answer_is_lost_is_not_asked_for_twice(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.next_only(ApiKey.DESCRIBE_PRODUCERS, opened(5), opened(None))
    unknown_to_all(cluster)
    cluster.next_only(ApiKey.WRITE_TXN_MARKERS, HANG_UP)
    assert await admin.abort_transaction(T0, 5) == HANGING
    (request,) = cluster.asked(WriteTxnMarkersRequest, 1)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (PRODUCER, 3, 0)
    assert not marker.transaction_result


async def test_only_what_hangs_is_aborted(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.on(ApiKey.DESCRIBE_PRODUCERS, lambda node_id, request: opened())
    cluster.on(ApiKey.LIST_TRANSACTIONS, lambda node_id, request: listed("copier"))
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, lambda node_id, request: described(0))
    with pytest.raises(KafkaError, match=r"no open transaction begins at offset 4 of t-0; open ones begin at 5"):
        await admin.abort_transaction(T0, 4)
    with pytest.raises(KafkaError, match=r"does not hang: transactional id 'copier'.* time-out of 60 s"):
        await admin.abort_transaction(T0, 5)
    assert not cluster.asked(WriteTxnMarkersRequest)
    unknown_to_all(cluster)
    cluster.next_only(ApiKey.WRITE_TXN_MARKERS, marked(ErrorCode.INVALID_PRODUCER_EPOCH))
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
        await admin.abort_transaction(T0, 5)
    cluster.next_only(ApiKey.WRITE_TXN_MARKERS, marked(ErrorCode.NOT_LEADER_OR_FOLLOWER), marked())
    assert await admin.abort_transaction(T0, 5) == HANGING
