"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on a real node; tests/unit/groups/consumer has the rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client
from broker_node import create_topic, delete_topic, eventually

from minikafka.broker.authorizer import NOT_ASKED
from minikafka.broker.handlers import groups
from minikafka.broker.node import Node
from minikafka.broker.topic_creation import TopicCreation
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.net.connection import Connection
from minikafka.wire.consumer_protocol import encode_subscription
from minikafka.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from minikafka.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from minikafka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.wire.messages.offset_delete import OffsetDeleteRequest
from minikafka.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

StartNode = Callable[..., Awaitable[Node]]


@pytest.fixture
async def node(start_node: StartNode) -> Node:
    """One whose offsets topic is there."""
    node = await start_node(
        offsets_topic_num_partitions=2,
        offsets_topic_replication_factor=1,
        group_consumer_heartbeat_interval_ms=700,
        group_consumer_min_heartbeat_interval_ms=500,
        group_consumer_assignors="range,uniform",
        broker_rack="r1",
    )
    await node.parts.part(TopicCreation).create_internal("__consumer_offsets")
    await eventually(lambda: all(shard.coordinator.phase is Phase.ACTIVE for shard in node.groups), "the groups")
    return node


async def beat(client: Client, member: str, epoch: int = 0, **fields: object) -> ConsumerGroupHeartbeatResponse:
    first: dict[str, object] = {"rebalance_timeout_ms": 5_000, "topic_partitions": []} if epoch == 0 else {}
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **first, **fields)  # type: ignore[arg-type]
    answer: ConsumerGroupHeartbeatResponse = await client.ask(request)
    return answer


def partitions(answer: ConsumerGroupHeartbeatResponse) -> int:
    return (
        0 if answer.assignment is None else sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)
    )


@pytest.mark.spec("G1", "G2", "G12")
async def test_a_member_joins_sees_topics_come_and_go_and_is_described(node: Node, client: Client) -> None:
    answer = await beat(client, "a", subscribed_topic_names=["t"])
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 1, 700)
    await create_topic(node, "t", 3)
    answer = await beat(client, "a", 1)
    assert (answer.member_epoch, partitions(answer)) == (2, 3)

    described = await client.ask(ConsumerGroupDescribeRequest(group_ids=["g", "g", "nobody"]))
    found, unknown = described.groups
    assert (found.group_state, found.assignor_name, found.members[0].member_id) == ("Stable", "range", "a")
    assert found.members[0].assignment.topic_partitions[0].topic_name == "t"
    assert (unknown.group_id, unknown.error_code) == ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)
    allowed = ConsumerGroupDescribeRequest(group_ids=["g", "nobody"], include_authorized_operations=True)
    assert found.authorized_operations == NOT_ASKED
    assert [each.authorized_operations for each in (await client.ask(allowed)).groups] == [3400, NOT_ASKED]

    await delete_topic(node, "t")
    await eventually(lambda: node.metadata.image.topic("t") is None, "the deletion")
    assert (await beat(client, "a", 2)).assignment is not None
    assert (await beat(client, "a", -1)).error_code == 0


@pytest.mark.spec("G10")
async def test_regular_expressions_are_matched_in_a_thread(node: Node, client: Client) -> None:
    await create_topic(node, "t1", 2)
    await create_topic(node, "u")
    refused = await beat(client, "a", subscribed_topic_regex="t(")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.error_message
    answer = await beat(client, "a", subscribed_topic_regex="t.")
    assert (answer.error_code, partitions(answer)) == (0, 0)

    async def assigned() -> int:
        return partitions(await beat(client, "a", answer.member_epoch, topic_partitions=[]))

    while not (found := await assigned()):
        pass
    assert found == 2


async def test_without_the_feature_there_are_no_consumer_groups(node: Node, client: Client) -> None:
    off = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
    assert (await client.ask(UpdateFeaturesRequest(feature_updates=[off]))).error_code == 0
    await eventually(lambda: "group.version" not in node.metadata.image.features, "the level")
    assert (await beat(client, "a", subscribed_topic_names=["t"])).error_code == ErrorCode.UNSUPPORTED_VERSION
    described = await client.ask(ConsumerGroupDescribeRequest(group_ids=["g"]))
    assert described.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_group_without_an_id(node: Node, client: Client) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="", member_id="a")
    assert (await client.ask(request)).error_code == ErrorCode.INVALID_GROUP_ID
    described = await client.ask(ConsumerGroupDescribeRequest(group_ids=[""]))
    assert described.groups[0].error_code == ErrorCode.INVALID_GROUP_ID


async def test_a_change_costs_its_turn_what_the_group_has(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever protocol the member speaks: its coordinator looks at all of them."""
    much, rows = 10**9, []
    monkeypatch.setattr(groups, "ROW_COST", much)
    monkeypatch.setattr(Connection, "spend", lambda connection, cost: rows.append(cost // much))
    await beat(client, "a", subscribed_topic_names=["t"])
    await beat(client, "a", 1)
    assert [count for count in rows if count] == [2], "a heartbeat that changes nothing costs nothing"
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=["t"]), 3)
    request = JoinGroupRequest(
        group_id="g",
        group_instance_id="i",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    assert (await client.ask(request)).error_code == 0
    assert [count for count in rows if count] == [2, 3]
    assert (await client.ask(OffsetDeleteRequest(group_id="g"))).error_code == 0
    assert [count for count in rows if count] == [2, 3, 3], "which topics are in use, all of its members say"


@pytest.mark.spec("G13")
async def test_settings_of_a_group_count_from_the_next_heartbeat_on(node: Node, client: Client) -> None:
    """They are there before the group, and again after a restart of its coordinator: they are metadata."""
    assert (await beat(client, "a", subscribed_topic_names=["t"])).heartbeat_interval_ms == 700
    await set_of_group(client, "g", "consumer.heartbeat.interval.ms", "900")
    assert (await beat(client, "a", 1)).heartbeat_interval_ms == 900
    described = await client.ask(
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=32, resource_name="g")])
    )
    rows = {row.name: (row.value, row.config_source) for row in described.results[0].configs}
    assert rows == {
        "consumer.heartbeat.interval.ms": ("900", 8),
        "consumer.session.timeout.ms": ("45000", 5),
        "consumer.assignment.interval.ms": ("0", 5),
    }
    await set_of_group(client, "g", "consumer.heartbeat.interval.ms", None)
    assert (await beat(client, "a", 1)).heartbeat_interval_ms == 700


@pytest.mark.spec("G13", "G15")
async def test_the_interval_of_assignments_is_dynamic_of_nodes_too(node: Node, client: Client) -> None:
    await beat(client, "a", subscribed_topic_names=["t"])
    await set_of(client, 4, "", "group.consumer.assignment.interval.ms", "15000")
    assert (await beat(client, "b", subscribed_topic_names=["t"])).member_epoch == 1
    await set_of_group(client, "g", "consumer.assignment.interval.ms", "0")
    assert (await beat(client, "b", 1)).member_epoch == 2


async def set_of_group(client: Client, group_id: str, name: str, value: str | None) -> None:
    await set_of(client, 32, group_id, name, value)


async def set_of(client: Client, kind: int, resource_name: str, name: str, value: str | None) -> None:
    setting = AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=resource_name, configs=[setting])
    assert (await client.ask(IncrementalAlterConfigsRequest(resources=[resource]))).responses[0].error_code == 0
