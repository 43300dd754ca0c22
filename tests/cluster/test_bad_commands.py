"""Requests to the controller by the thousand, and those that only nodes may send, or nobody may."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Final

import pytest
from live_attack import HONEST_TOPIC
from live_cluster import eventually
from live_wire import Wire, fetch_request

from minikafka.broker.drivers.controller_client import REQUESTS_MAX
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.metadata.records import ConfigResourceType
from minikafka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest
from minikafka.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

pytestmark = [pytest.mark.spec("P6"), pytest.mark.usefixtures("nodes_are_unharmed")]

CONNECTIONS: Final = 50
OF_ONE: Final = 30
TRANSACTIONAL_ID: Final = "troubled-id"


def quorum_epoch(wire: Wire) -> tuple[int, int]:
    """Who leads the quorum, and in which epoch."""
    asked = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
    told = wire.ask(DescribeQuorumRequest(topics=[asked]), 2).topics[0].partitions[0]
    assert told.error_code == ErrorCode.NONE
    return told.leader_id, told.leader_epoch


def retention(number: int) -> IncrementalAlterConfigsRequest:
    """Another one for the honest topic; always a long one."""
    config = AlterableConfig(name="retention.ms", value=str(10**11 + number))
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.TOPIC, resource_name=HONEST_TOPIC, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def test_commands_by_the_thousand_depose_no_controller(server: LocalCluster, wire: Wire) -> None:
    """They shared a bound with the quorum's fetches and the heartbeats, and broke the connection of these."""
    before = quorum_epoch(wire)
    forwarding = next(node_id for node_id in server.node_ids if node_id != before[0])
    errors: Counter[int] = Counter()
    with ExitStack() as opened:
        wires = [opened.enter_context(Wire(server.layout.client_port(forwarding))) for _ in range(CONNECTIONS)]
        for number in range(CONNECTIONS * OF_ONE):
            wires[number % CONNECTIONS].send(retention(number), 1)
        for number in range(CONNECTIONS * OF_ONE):
            errors[wires[number % CONNECTIONS].receive(retention(number), 1).responses[0].error_code] += 1
    assert set(errors) <= {ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert errors[ErrorCode.NONE] >= REQUESTS_MAX
    assert quorum_epoch(wire) == before


def test_a_client_decides_no_transaction(wire: Wire, topic: str) -> None:
    """Markers are a coordinator's; an operator may abort what is open, and nothing is."""
    assert wire.produce(topic, b"x") == 0

    def decide(*, commits: bool) -> ErrorCode:
        marker = WritableTxnMarker(
            producer_id=1,
            producer_epoch=0,
            transaction_result=commits,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        )
        answer = wire.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    assert decide(commits=True) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert decide(commits=False) is ErrorCode.INVALID_TXN_STATE
    assert wire.ask(fetch_request(topic, 0), 11).responses[0].partitions[0].high_watermark == 1


@pytest.fixture
def coordinator(server: LocalCluster, wire: Wire) -> int:
    """The port of the transactional id's coordinator."""

    def find() -> int:
        answer = wire.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[TRANSACTIONAL_ID]), 4).coordinators[0]
        return int(answer.node_id) if answer.error_code == ErrorCode.NONE else 0

    return server.layout.client_port(eventually(find, "a coordinator"))


def test_a_transaction_that_may_not_be_is_refused(coordinator: int, topic: str) -> None:
    with Wire(coordinator) as wire:

        def begin(**how: int) -> ErrorCode:
            request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, **{"transaction_timeout_ms": 1000} | how)
            return ErrorCode(wire.ask(request, 4).error_code)

        eventually(lambda: begin() is ErrorCode.NONE, "the coordinator to be ready")
        for timeout_ms in (900_001, 0, -1, 2**31 - 1):
            assert begin(transaction_timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert begin(producer_id=2**40, producer_epoch=1) is ErrorCode.PRODUCER_FENCED
        assert begin(producer_id=5) is ErrorCode.INVALID_REQUEST
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=1,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        answer = wire.ask(AddPartitionsToTxnRequest(transactions=[transaction]), 5)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only nodes ask for many"
