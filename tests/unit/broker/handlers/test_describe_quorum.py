from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

StartNode = Callable[..., Awaitable[Node]]
Join = Callable[[Node], Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]


def request(topic: str = "__cluster_metadata", index: int = 0) -> DescribeQuorumRequest:
    partition = RequestPartitionData(partition_index=index)
    return DescribeQuorumRequest(topics=[RequestTopicData(topic_name=topic, partitions=[partition])])


@pytest.mark.spec("C1")
async def test_any_node_tells_who_leads_the_quorum_and_how_far_the_others_are(
    start_node: StartNode, join: Join, dial: Dial
) -> None:
    voter = await start_node()
    observer = await join(voter)
    for node in (voter, observer):
        for version in (0, 1, 2):
            answer = await (await dial(node)).ask(request(), version)
            described: ResponsePartitionData = answer.topics[0].partitions[0]
            assert (answer.error_code, described.error_code, described.leader_id) == (0, 0, 1)
            assert [replica.replica_id for replica in described.current_voters] == [1]
            assert [replica.replica_id for replica in described.observers] == [2]
            assert 0 < described.observers[0].log_end_offset <= described.current_voters[0].log_end_offset
            assert described.high_watermark > 0
            if version >= 1:
                assert abs(described.observers[0].last_fetch_timestamp - time.time() * 1000) < 60_000
        assert [each.node_id for each in answer.nodes] == [1]
        assert answer.nodes[0].listeners[0].name == "CONTROLLER"


@pytest.mark.parametrize(("topic", "index"), [("orders", 0), ("__cluster_metadata", 1)])
async def test_only_the_metadata_log_is_a_quorums(client: Client, topic: str, index: int) -> None:
    answer = await client.ask(request(topic, index))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_without_a_leader_there_is_an_error(node: Node, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(node.control_plane.raft), "leader_id", None)
    answer = await client.ask(request())
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert answer.error_message == "the metadata quorum has no leader; an election is under way"
