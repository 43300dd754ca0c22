"""An admin client whose requests get lost, refused and redirected."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from scripted_cluster import HANG, HANG_UP, Reaction, ScriptedCluster

from minikafka.client import Admin
from minikafka.client.admin import base as admin_module
from minikafka.client.admin.configs import BROKER_RESOURCE, GROUP_RESOURCE
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.wire.api import ApiKey
from minikafka.wire.consumer_protocol import encode_assignment
from minikafka.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from minikafka.wire.messages.alter_configs import AlterConfigsResourceResponse as ReplacedResourceResponse
from minikafka.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
)
from minikafka.wire.messages.consumer_protocol import AssignmentTopicPartition, ConsumerProtocolAssignment
from minikafka.wire.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from minikafka.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from minikafka.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from minikafka.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from minikafka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from minikafka.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from minikafka.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from minikafka.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


@pytest.fixture
async def admin(cluster: ScriptedCluster) -> AsyncIterator[Admin]:
    async with Admin(cluster.servers, request_timeout_ms=20_000) as client:
        yield client


def created(code: ErrorCode, message: str | None = None) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="new", error_code=code, error_message=message)])


async def test_a_controller_that_hangs_is_left_once_there_is_another(cluster: ScriptedCluster, admin: Admin) -> None:
    """The call's own time-out leaves the connection open, so each later call waited for it, too."""

    def create(node_id: int, request: object) -> CreateTopicsResponse | Reaction:
        if node_id != 1:
            return created(ErrorCode.NONE)
        cluster.live.discard(1)  # fenced
        return HANG

    cluster.on(ApiKey.CREATE_TOPICS, create)
    await admin.create_topic("new")


def deleted(code: ErrorCode) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[DeletableTopicResult(name="t", error_code=code)])


async def test_a_change_is_made_by_the_controller(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.on(ApiKey.CREATE_TOPICS, lambda node_id, request: created(ErrorCode.NONE))
    await admin.create_topic("new", partitions=3, replication_factor=2, configs={"retention.ms": "1"})
    (request,) = cluster.asked(CreateTopicsRequest, 1)
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("new", 3, 2)
    assert [(config.name, config.value) for config in topic.configs] == [("retention.ms", "1")]


async def test_a_refusal_says_why(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.on(ApiKey.CREATE_TOPICS, lambda node_id, request: created(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there"))
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS: it is there"):
        await admin.create_topic("new")
    cluster.on(ApiKey.CREATE_TOPICS, lambda node_id, request: created(ErrorCode.INVALID_PARTITIONS))
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS: creating topic 'new' failed"):
        await admin.create_topic("new")


async def test_a_controller_that_is_not_one_any_more(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.next_only(ApiKey.CREATE_TOPICS, created(ErrorCode.NOT_CONTROLLER), created(ErrorCode.NONE))
    await admin.create_topic("new")


async def test_a_change_whose_answer_was_lost_is_done(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.next_only(ApiKey.CREATE_TOPICS, HANG_UP, created(ErrorCode.TOPIC_ALREADY_EXISTS))
    await admin.create_topic("new")
    cluster.next_only(ApiKey.DELETE_TOPICS, HANG_UP, deleted(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    await admin.delete_topic("t")
    assert len(cluster.asked(DeleteTopicsRequest)) == 2


async def test_a_topic_that_is_not_there_is_not_waited_for(cluster: ScriptedCluster, admin: Admin) -> None:
    cluster.on(ApiKey.DELETE_TOPICS, lambda node_id, request: deleted(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await admin.delete_topic("t")
    assert len(cluster.asked(DeleteTopicsRequest)) == 1


async def test_partitions_are_added(cluster: ScriptedCluster, admin: Admin) -> None:
    def answer(code: ErrorCode) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name="t", error_code=code)])

    cluster.next_only(ApiKey.CREATE_PARTITIONS, answer(ErrorCode.NONE), answer(ErrorCode.INVALID_PARTITIONS))
    await admin.create_partitions("t", 5)
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS: adding partitions to 't' failed"):
        await admin.create_partitions("t", 5)


async def test_topics_are_described(cluster: ScriptedCluster, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module, "PROPAGATION_S", 0.05)
    missing, there = await admin.describe_topics(["nosuch", "t"])
    assert missing.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(there.partitions) == [0, 1]
    assert [topic.name for topic in await admin.list_topics()] == ["t"], "and not what was asked for before"


async def test_a_topic_that_a_broker_has_not_heard_of_yet(cluster: ScriptedCluster, admin: Admin) -> None:
    def forget(node_id: int, request: object) -> None:
        if len(cluster.requests) > 4:
            cluster.topic_errors.clear()

    cluster.topic_errors["t"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.on(ApiKey.METADATA, forget)
    (view,) = await admin.describe_topics(["t"])
    assert view.is_usable


async def test_settings_are_described_and_altered_one_by_one(cluster: ScriptedCluster, admin: Admin) -> None:
    rows = [
        DescribeConfigsResourceResult(name="retention.ms", value="7", config_source=1),
        DescribeConfigsResourceResult(name="cleanup.policy", value="delete", config_source=5),
    ]
    answer = DescribeConfigsResponse(results=[DescribeConfigsResult(configs=rows)])
    cluster.on(ApiKey.DESCRIBE_CONFIGS, lambda node_id, request: answer)
    expected = [("cleanup.policy", "delete", True), ("retention.ms", "7", False)]
    assert [entry[:3] for entry in await admin.describe_configs("t")] == expected
    assert [entry[:3] for entry in await admin.describe_broker_configs(2)] == expected
    done = IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse()])
    cluster.on(ApiKey.INCREMENTAL_ALTER_CONFIGS, lambda node_id, request: done)
    await admin.alter_configs("t", {"retention.ms": "8", "cleanup.policy": None})
    (request,) = cluster.asked(IncrementalAlterConfigsRequest)
    changes = [(c.name, c.config_operation, c.value) for c in request.resources[0].configs]
    assert changes == [("retention.ms", 0, "8"), ("cleanup.policy", 1, None)]


async def test_settings_of_several_resources_are_taken_back_at_once(cluster: ScriptedCluster, admin: Admin) -> None:
    results = [
        ReplacedResourceResponse(resource_name=""),
        ReplacedResourceResponse(resource_name="9", error_code=ErrorCode.INVALID_REQUEST, error_message="not found"),
    ]
    cluster.on(ApiKey.ALTER_CONFIGS, lambda node_id, request: AlterConfigsResponse(responses=results[:1]))
    await admin.clear_resources([(BROKER_RESOURCE, ""), (GROUP_RESOURCE, "g")])
    (request,) = cluster.asked(AlterConfigsRequest)
    assert [(each.resource_type, each.resource_name, each.configs) for each in request.resources] == [
        (4, "", []),
        (32, "g", []),
    ]
    cluster.on(ApiKey.ALTER_CONFIGS, lambda node_id, request: AlterConfigsResponse(responses=results))
    with pytest.raises(KafkaError, match="not found"):
        await admin.clear_resources([(BROKER_RESOURCE, ""), (BROKER_RESOURCE, "9")])


async def test_settings_of_a_broker_that_is_not_there_are_not_waited_for(
    cluster: ScriptedCluster, admin: Admin
) -> None:
    with pytest.raises(KafkaError, match="broker 9 is not alive; live brokers are 1, 2") as refused:
        await admin.describe_broker_configs(9)
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    cluster.kill(2)
    cluster.live.discard(2)
    with pytest.raises(KafkaError, match="broker 2 is not alive"):
        await admin.describe_broker_configs(2)
    assert not cluster.asked(DescribeConfigsRequest)


async def test_groups_are_listed_from_every_broker(cluster: ScriptedCluster, admin: Admin) -> None:
    loading = True

    def answer(node_id: int, request: object) -> ListGroupsResponse:
        nonlocal loading
        if node_id == 2 and loading:
            loading = False
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return ListGroupsResponse(groups=[ListedGroup(group_id=f"g{3 - node_id}", group_state="Stable")])

    cluster.on(ApiKey.LIST_GROUPS, answer)
    assert [(each.group_id, each.state) for each in await admin.list_groups()] == [("g1", "Stable"), ("g2", "Stable")]


async def test_a_group_is_described(cluster: ScriptedCluster, admin: Admin) -> None:
    share = ConsumerProtocolAssignment(assigned_partitions=[AssignmentTopicPartition(topic="t", partitions=[1])])
    members = [
        DescribedGroupMember(member_id="m", client_id="c", client_host="h", member_assignment=encode_assignment(share)),
        DescribedGroupMember(member_id="n", member_assignment=b"?"),
    ]
    group = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=members
    )
    moved = DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", error_code=ErrorCode.NOT_COORDINATOR)])
    cluster.next_only(ApiKey.DESCRIBE_GROUPS, moved, DescribeGroupsResponse(groups=[group]))
    view = await admin.describe_group("g")
    assert (view.group_id, view.state, view.assignor) == ("g", "Stable", "range")
    assert view.members[0][:5] == ("m", "c", "h", None, (TopicPartition("t", 1),))
    assert view.members[1].assignment == ()


async def test_a_group_that_is_not_there(cluster: ScriptedCluster, admin: Admin) -> None:
    dead = DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", group_state="Dead")])
    cluster.on(ApiKey.DESCRIBE_GROUPS, lambda node_id, request: dead)
    for error, where in (
        (ErrorCode.GROUP_ID_NOT_FOUND, "$"),
        (ErrorCode.UNSUPPORTED_VERSION, " among classic ones, and feature group.version is below 1"),
    ):
        missing = ConsumerGroupDescribeResponse(groups=[DescribedConsumerGroup(group_id="g", error_code=error)])
        cluster.next_only(ApiKey.CONSUMER_GROUP_DESCRIBE, missing)
        with pytest.raises(KafkaError, match=f"GROUP_ID_NOT_FOUND: group 'g' not found{where}"):
            await admin.describe_group("g")


async def test_a_group_of_the_newer_protocol_is_described(cluster: ScriptedCluster, admin: Admin) -> None:
    dead = DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)])
    cluster.on(ApiKey.DESCRIBE_GROUPS, lambda node_id, request: dead)
    share = DescribedAssignment(topic_partitions=[DescribedTopicPartitions(topic_name="t", partitions=[1])])
    member = DescribedConsumerMember(
        member_id="m",
        client_id="c",
        client_host="h",
        instance_id="i",
        assignment=share,
        target_assignment=DescribedAssignment(),
    )
    group = DescribedConsumerGroup(group_id="g", group_state="Reconciling", assignor_name="uniform", members=[member])
    cluster.next_only(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeResponse(groups=[group]))
    view = await admin.describe_group("g")
    assert (view.state, view.assignor) == ("Reconciling", "uniform")
    (reader,) = view.members
    assert reader == ("m", "c", "h", "i", (TopicPartition("t", 1),), 0, ())
    assert (view.group_type, view.coordinator) == ("consumer", 1)


async def test_all_offsets_of_a_group(cluster: ScriptedCluster, admin: Admin) -> None:
    offsets = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, committed_leader_epoch=2),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    ]
    answer = OffsetFetchResponse(topics=[OffsetFetchResponseTopics(name="t", partitions=offsets)])
    loading = OffsetFetchResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.next_only(ApiKey.OFFSET_FETCH, loading, answer)
    assert await admin.group_offsets("g") == {TopicPartition("t", 0): OffsetAndEpoch(5, 2)}
    request = cluster.asked(OffsetFetchRequest)[-1]
    assert (request.group_id, request.topics) == ("g", None)


async def test_a_group_is_deleted(cluster: ScriptedCluster, admin: Admin) -> None:
    def answer(code: ErrorCode) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=code)])

    cluster.next_only(ApiKey.DELETE_GROUPS, answer(ErrorCode.NONE), answer(ErrorCode.NON_EMPTY_GROUP))
    await admin.delete_group("g")
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP: group 'g': deleting it failed"):
        await admin.delete_group("g")


# -- offsets --------------------------------------------------------------------------------------------------------


async def test_leaders_are_asked_for_offsets_and_the_ends_of_epochs(cluster: ScriptedCluster, admin: Admin) -> None:
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    for count in (2, 3):
        cluster.partition(0).append(bytes(build_batch([Record(-1, count, None, b"")] * count)))
    cluster.partition(1).lead(1)
    assert await admin.list_offsets({t0: -2, t1: -1}) == {t0: (0, -1), t1: (0, -1)}
    cluster.next_only(ApiKey.LIST_OFFSETS, HANG_UP, None)
    assert await admin.list_offsets({t0: -1, t1: -1}) == {t0: (5, -1), t1: (0, -1)}
    cluster.partition(0).lead(2, cut_to=2)
    cluster.partition(0).append(bytes(build_batch([Record(-1, 0, None, b"")] * 9)))
    assert await admin.epoch_ends({t0: 0}) == {t0: (2, 0)}
    assert await admin.epoch_ends({t0: 1, t1: 1}) == {t0: (11, 1), t1: (0, 1)}


async def test_offsets_of_what_is_not_there(cluster: ScriptedCluster) -> None:
    async with Admin(cluster.servers, request_timeout_ms=300) as admin:
        with pytest.raises(KafkaError, match=r"looking up an offset timed out after 0\.3 s: t-7 does not exist"):
            await admin.list_offsets({TopicPartition("t", 7): -1})
