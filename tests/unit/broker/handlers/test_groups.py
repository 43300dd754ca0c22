"""The APIs of consumer groups on a real node; the coordinator itself is tested in tests/unit/groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from broker_client import Client
from broker_node import create_topic, delete_topic, eventually, in_time

from minikafka.broker.authorizer import NOT_ASKED
from minikafka.broker.handlers import offset_commit, offset_fetch
from minikafka.broker.handlers.offset_commit import FIRST_VERSION_WITH_IDS
from minikafka.broker.node import Node
from minikafka.broker.topic_creation import TopicCreation
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.model import NO_EPOCH
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest
from minikafka.wire.messages.describe_groups import DescribeGroupsRequest
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.heartbeat import HeartbeatRequest
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from minikafka.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.wire.messages.list_groups import ListGroupsRequest
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.wire.schema import Message

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]


@pytest.fixture
async def node(start_node: StartNode) -> Node:
    """One whose offsets topic is there."""
    node = await start_node(
        offsets_topic_num_partitions=2,
        offsets_topic_replication_factor=1,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=1,
    )
    await node.parts.part(TopicCreation).create_internal("__consumer_offsets")
    await eventually(lambda: is_loaded(node), "the groups to be loaded")
    return node


def is_loaded(node: Node) -> bool:
    phases = [shard.coordinator.phase for shard in node.groups]
    return bool(phases) and all(phase is Phase.ACTIVE for phase in phases)


async def join(
    client: Client, group: str = "g", member: str = "", version: int = 9, **how: object
) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group,
        rebalance_timeout_ms=5_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"subscription")],
        **{"session_timeout_ms": 30_000, **how},  # type: ignore[arg-type]
    )
    answer: JoinGroupResponse = await client.ask(request, version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return await join(client, group, answer.member_id, version, **how)
    return answer


def commit(group: str, offset: int, *topics: str, generation: int = -1, member: str = "") -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m"),
                    OffsetCommitRequestPartition(partition_index=9, committed_offset=offset),
                ],
            )
            for topic in topics
        ],
    )


async def committed(client: Client, group: str, *topics: str) -> dict[str, int]:
    asked = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0]) for topic in topics] or None
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=asked)])
    found = (await client.ask(request)).groups[0]
    assert not found.error_code
    return {topic.name: topic.partitions[0].committed_offset for topic in found.topics}


async def test_a_member_joins_works_and_leaves(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    joined = await join(client)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assert [member.metadata for member in joined.members] == [b"subscription"]
    mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all of it")
    who = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id}
    for named in ({}, {"protocol_type": "consumer"}, {"protocol_name": "range"}):
        nameless = SyncGroupRequest(**who, **named, assignments=[mine])  # type: ignore[arg-type]
        assert (await client.ask(nameless, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    synced = await client.ask(
        SyncGroupRequest(**who, protocol_type="consumer", protocol_name="range", assignments=[mine])  # type: ignore[arg-type]
    )
    assert (synced.error_code, synced.assignment) == (0, b"all of it")
    assert (await client.ask(HeartbeatRequest(**who))).error_code == 0  # type: ignore[arg-type]
    answer = await client.ask(commit("g", 5, "orders", generation=1, member=joined.member_id))
    assert [(each.partition_index, each.error_code) for each in answer.topics[0].partitions] == [(0, 0), (9, 3)]
    assert await committed(client, "g", "orders") == {"orders": 5}

    described = (await client.ask(DescribeGroupsRequest(groups=["g", "nobody"]))).groups
    assert [(each.group_id, each.group_state) for each in described] == [("g", "Stable"), ("nobody", "Dead")]
    assert (described[0].members[0].client_id, described[0].members[0].client_host) == ("test", "127.0.0.1")
    assert [group.group_id for group in (await client.ask(ListGroupsRequest())).groups] == ["g"]
    assert (await client.ask(ListGroupsRequest(states_filter=["Empty"]))).groups == []

    left = await client.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)]))
    assert (left.error_code, left.members[0].error_code) == (0, 0)
    assert (await client.ask(HeartbeatRequest(**who))).error_code == ErrorCode.UNKNOWN_MEMBER_ID  # type: ignore[arg-type]


@pytest.mark.spec("D7")
async def test_a_member_that_falls_silent_is_removed(node: Node, client: Client) -> None:
    joined = await join(client, version=3, session_timeout_ms=30)  # at once: an id that is given first may expire
    assert not joined.error_code
    async with asyncio.timeout(20):
        while (await client.ask(DescribeGroupsRequest(groups=["g"]))).groups[0].group_state != "Empty":  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_commits_to_what_is_not_there_are_refused_one_by_one(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    for version in range(ApiKey.OFFSET_COMMIT.versions.first, FIRST_VERSION_WITH_IDS):
        answer = await client.ask(commit("simple", version, "orders", "nowhere"), version)
        errors = {
            (topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
        }
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == {("orders", 0): 0, ("orders", 9): unknown, ("nowhere", 0): unknown, ("nowhere", 9): unknown}
        assert len(answer.topics) == 2, "each topic once"
        assert await committed(client, "simple", "orders") == {"orders": version}
    for _ in range(2):
        answer = await client.ask(commit("simple", 1, "nowhere"))
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("nowhere", 2)]


async def test_of_a_partition_that_is_named_several_times_the_last_offset_is_committed(
    node: Node, client: Client
) -> None:
    """One request for 9,990 offsets of one partition held the loop for 0.16 s."""
    await create_topic(node, "orders")
    request = commit("simple", 3, "orders", "orders")
    for topic in request.topics:
        topic.partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index in (0, 9)
            for offset in range(2_000)
        ]
    request.topics[1].partitions[1_999].committed_offset = 7
    answer = await client.ask(request)
    errors = [
        (topic.name, each.partition_index, each.error_code) for topic in answer.topics for each in topic.partitions
    ]
    assert errors.count(("orders", 0, 0)) == 1, "one record"
    assert {each for each in errors if each[1] == 9} == {("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert len(errors) == 3
    assert await committed(client, "simple", "orders") == {"orders": 7}


async def test_offsets_are_told_in_every_version(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    await client.ask(commit("g", 7, "orders"))
    for version in range(ApiKey.OFFSET_FETCH.versions.first, FIRST_VERSION_WITH_IDS):
        if version < 8:
            asked = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])]
            answer = await client.ask(OffsetFetchRequest(group_id="g", topics=asked), version)
        else:
            topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])]
            groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
            answer = (await client.ask(OffsetFetchRequest(groups=groups), version)).groups[0]
        found = [(each.committed_offset, each.metadata, each.error_code) for each in answer.topics[0].partitions]
        assert found == [(7, "m", 0), (-1, "", 0)]
    assert await committed(client, "g") == {"orders": 7}, "all there are"


async def test_thousands_of_offsets_are_committed_and_fetched_in_portions(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each topic is told once, and of what the client sends next nothing is done before."""
    monkeypatch.setattr(offset_commit, "PARTITIONS_AT_ONCE", 40)
    monkeypatch.setattr(offset_fetch, "ROWS_AT_ONCE", 40)
    many = {"first": 90, "orders": 100, "none": 0, "last": 90}
    await create_topic(node, "orders", partitions=100)
    partitions = {
        name: [OffsetCommitRequestPartition(partition_index=n, committed_offset=n) for n in range(count)]
        for name, count in many.items()
    }
    topics = [OffsetCommitRequestTopic(name=name, partitions=each) for name, each in partitions.items()]
    large = client.send(OffsetCommitRequest(group_id="g", topics=topics), 8)
    last = OffsetCommitRequestPartition(partition_index=99, committed_offset=7)
    small = client.send(
        OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[last])]), 8
    )
    told = {
        topic.name: [(each.partition_index, each.error_code) for each in topic.partitions]
        for topic in (await large).topics
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told == {
        "first": [(n, unknown) for n in range(90)],
        "orders": [(n, 0) for n in range(100)],
        "last": [(n, unknown) for n in range(90)],
    }
    assert (await small).topics[0].partitions[0].error_code == 0
    asked = [OffsetFetchRequestTopics(name=name, partition_indexes=list(range(count))) for name, count in many.items()]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=asked)]
    (group,) = (await client.ask(OffsetFetchRequest(groups=groups), 8)).groups
    found = {topic.name: [each.committed_offset for each in topic.partitions] for topic in group.topics}
    assert len(group.topics) == len(many)
    assert found == {name: [-1] * count for name, count in many.items()} | {"orders": [*range(99), 7]}


async def test_topics_are_named_by_their_ids_since_version_10(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    known, unknown = node.image.topics_by_name["orders"].topic_id, UUID(int=7)
    request = commit("g", 5, "", "")
    request.topics[0].topic_id, request.topics[1].topic_id = known, unknown
    answer = await client.ask(request, FIRST_VERSION_WITH_IDS)
    errors = {
        (topic.topic_id, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
    }
    no_partition, no_topic = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
    assert errors == {(known, 0): 0, (known, 9): no_partition, (unknown, 0): no_topic, (unknown, 9): no_topic}
    assert len(answer.topics) == 2, "each topic once"
    assert await committed(client, "g", "orders") == {"orders": 5}

    asked = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in (known, unknown)]
    for topics, expected in ((asked, {known: (5, 0), unknown: (-1, no_topic)}), (None, {known: (5, 0)})):
        groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
        found = (await client.ask(OffsetFetchRequest(groups=groups), FIRST_VERSION_WITH_IDS)).groups[0]
        offsets = {topic.topic_id: topic.partitions[0] for topic in found.topics}
        assert {each: (at.committed_offset, at.error_code) for each, at in offsets.items()} == expected


async def test_a_commit_for_a_deleted_topic_does_not_land_in_the_next_of_its_name(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    late = commit("g", 5, "orders")
    late.topics[0].topic_id = node.image.topics_by_name["orders"].topic_id
    await delete_topic(node, "orders")
    await eventually(lambda: node.image.topic("orders") is None, "the topic to go")
    await create_topic(node, "orders")
    answer = await client.ask(late, FIRST_VERSION_WITH_IDS)
    assert {each.error_code for each in answer.topics[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert await committed(client, "g", "orders") == {"orders": -1}


@pytest.mark.parametrize("name", ["nobody", "x" * 32_767, "\0" * 20_000])
async def test_a_group_that_is_not_there_is_an_error_since_version_6(client: Client, name: str) -> None:
    asked = DescribeGroupsRequest(groups=[name])
    for version in (5, 6):
        found = (await client.ask(asked, version)).groups[0]
        error = ErrorCode.GROUP_ID_NOT_FOUND if version > 5 else ErrorCode.NONE
        assert (found.group_state, found.error_code, bool(found.error_message)) == ("Dead", error, version > 5)


async def test_without_an_authorizer_everything_may_be_done_with_a_group(client: Client) -> None:
    """KIP-430. The number is Apache Kafka's: of a group that has no error, where it is asked for."""
    await join(client, "g")
    for asked, operations in [(False, NOT_ASKED), (True, 3400)]:
        request = DescribeGroupsRequest(groups=["g", "nobody"], include_authorized_operations=asked)
        assert [each.authorized_operations for each in (await client.ask(request)).groups] == [operations, NOT_ASKED]


async def test_a_leader_epoch_that_the_partition_has_not_had_is_not_committed(node: Node, client: Client) -> None:
    """It is that of an earlier cluster: Java's client would not read before there is such a leader."""
    await create_topic(node, "orders")
    asked = OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    for told, kept in [(0, 0), (1, NO_EPOCH)]:
        request = commit("g", 7, "orders")
        request.topics[0].partitions[0].committed_leader_epoch = told
        await client.ask(request)
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[asked])])
        found = (await client.ask(fetch)).groups[0].topics[0].partitions[0]
        assert (found.committed_offset, found.committed_leader_epoch) == (7, kept)


async def test_offsets_and_groups_are_deleted(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    await client.ask(commit("g", 7, "orders"))
    two = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=two) for name in ("orders", "nothing")]
    deleted = (await client.ask(OffsetDeleteRequest(group_id="g", topics=topics))).topics
    told = [(topic.name, each.partition_index, each.error_code) for topic in deleted for each in topic.partitions]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told == [("orders", 0, 0), ("orders", 9, unknown), ("nothing", 0, unknown), ("nothing", 9, unknown)]
    assert len(deleted) == 2, "each topic once"
    assert await committed(client, "g", "orders") == {"orders": -1}
    await client.ask(commit("h", 7, "orders"))
    for version in range(ApiKey.DELETE_GROUPS.versions.first, ApiKey.DELETE_GROUPS.versions.last + 1):
        results = (await client.ask(DeleteGroupsRequest(groups_names=["h", "nobody"]), version)).results
        expected = 0 if version == 0 else ErrorCode.GROUP_ID_NOT_FOUND
        assert [each.error_code for each in results] == [expected, ErrorCode.GROUP_ID_NOT_FOUND]
    joined = await join(client, "busy")
    assert not joined.error_code
    results = (await client.ask(DeleteGroupsRequest(groups_names=["busy"]))).results
    assert results[0].error_code == ErrorCode.NON_EMPTY_GROUP


async def test_a_member_may_not_commit_for_a_group_that_lives_without_it(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    joined = await join(client)
    for generation, member, error in [
        (1, "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        (7, joined.member_id, ErrorCode.ILLEGAL_GENERATION),
    ]:
        answer = await client.ask(commit("g", 1, "orders", generation=generation, member=member))
        errors = {each.partition_index: each.error_code for topic in answer.topics for each in topic.partitions}
        assert errors == {0: error, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_offsets_of_a_deleted_topic_are_dropped(node: Node, client: Client) -> None:
    for name in ("orders", "kept"):
        await create_topic(node, name)
    await client.ask(commit("g", 7, "orders", "kept"))
    await delete_topic(node, "orders")
    async with asyncio.timeout(20):
        while await committed(client, "g") != {"kept": 7}:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


# -- who is the coordinator -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(ApiKey.FIND_COORDINATOR.versions.last + 1))
async def test_the_coordinator_is_found(start_node: StartNode, dial: Dial, version: int) -> None:
    node = await start_node(
        offsets_topic_num_partitions=2,
        offsets_topic_replication_factor=1,
        transaction_state_log_replication_factor=1,
    )
    client = await dial(node)
    for key_type, topic in [(0, "__consumer_offsets"), (1, "__transaction_state")][: 1 + bool(version)]:
        keys = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
        answer = await client.ask(FindCoordinatorRequest(**keys, key_type=key_type), version)  # type: ignore[arg-type]
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.node_id, found.host) == (0, 1, "127.0.0.1")
        if version:
            assert found.error_message == ("NONE" if version < 4 else ""), "as in Apache Kafka"
        assert node.image.topic(topic) is not None, "made when first needed"
    for bad, error in [
        ({"key": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"key": "", "key_type": 1}, ErrorCode.INVALID_REQUEST),
        ({"key": "g:AAAAAAAAAAAAAAAAAAAAAA:0", "key_type": 2}, ErrorCode.INVALID_REQUEST),
    ]:
        if "key_type" in bad and not version:
            continue  # version 0 knows groups only
        asked = {**bad, "coordinator_keys": [bad["key"]]}
        answer = await client.ask(FindCoordinatorRequest(**asked), version)  # type: ignore[arg-type]
        refused = answer.coordinators[0] if version >= 4 else answer
        assert (refused.error_code, refused.node_id) == (error, -1)


async def test_too_few_brokers_for_the_offsets_topic_is_said(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(offsets_topic_replication_factor=3)
    answer = (await (await dial(node)).ask(FindCoordinatorRequest(coordinator_keys=["g", "h"]))).coordinators
    assert [each.error_code for each in answer] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert "offsets.topic.replication.factor" in answer[0].error_message


async def test_an_offsets_partition_without_leader_is_not_available(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(node.image), "broker", lambda _self, _id: None)
    answer = (await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[0]
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


REQUESTS: list[Message] = [
    JoinGroupRequest(group_id="g", member_id="m", protocol_type="consumer"),
    SyncGroupRequest(group_id="g", member_id="m", protocol_type="consumer", protocol_name="range"),
    HeartbeatRequest(group_id="g", member_id="m"),
    LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]),
    OffsetDeleteRequest(group_id="g"),
]


async def test_elsewhere_nobody_is_served(start_node: StartNode, dial: Dial) -> None:
    node = await start_node()  # without an offsets topic every group is somewhere else
    client = await dial(node)
    for request in REQUESTS:
        assert (await client.ask(request)).error_code == ErrorCode.NOT_COORDINATOR, type(request).__name__
    fetched = await client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]))
    assert fetched.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    described = await client.ask(DescribeGroupsRequest(groups=["g"]))
    assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    deleted = await client.ask(DeleteGroupsRequest(groups_names=["g"]))
    assert deleted.results[0].error_code == ErrorCode.NOT_COORDINATOR
    assert (await client.ask(ListGroupsRequest())).groups == []
    assert (await client.ask(HeartbeatRequest(group_id="", member_id="m"))).error_code == ErrorCode.INVALID_GROUP_ID


async def test_a_commit_elsewhere_is_refused_for_every_partition(start_node: StartNode, dial: Dial) -> None:
    node = await start_node()
    await create_topic(node, "orders")
    answer = await (await dial(node)).ask(commit("g", 1, "orders", "nowhere"))
    errors = {
        (topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
    }
    assert set(errors) == {("orders", 0), ("orders", 9), ("nowhere", 0), ("nowhere", 9)}
    assert errors["orders", 0] == ErrorCode.NOT_COORDINATOR


async def test_while_groups_are_loaded_lists_are_not_given(node: Node, client: Client) -> None:
    shard = next(iter(node.groups))
    shard.coordinator.phase = Phase.LOADING
    assert (await client.ask(ListGroupsRequest())).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_who_waits_when_the_partition_moves_is_sent_away(node: Node, client: Client, dial: Dial) -> None:
    joined = await join(client, "g")
    assert not joined.error_code
    waiting = (await dial(node)).send(  # a second member: the first must rejoin, which it does not
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        3,
    )
    await eventually(lambda: any(shard._alarms for shard in node.groups), "the join to wait")
    await client.ask(ListGroupsRequest())  # by now it has arrived
    for partition in list(node.replicas):
        node.groups.on_leading_no_more(partition.topic_partition)
    assert (await in_time(waiting)).error_code == ErrorCode.NOT_COORDINATOR
