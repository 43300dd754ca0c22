"""What users may do on a real node with an authorizer: each API's checks, its partial answers, and what is not told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from broker_client import Client, batch, fetch_request, values_in
from broker_node import PATIENCE_S, Cluster, create_topic, eventually, in_time, led, listener_of, turns
from captured_logs import capture_logs

from minikafka.broker import authorization
from minikafka.broker.absences import Absences
from minikafka.broker.authorizer import NOT_ASKED, Authorizer
from minikafka.broker.long_answers import LongAnswer
from minikafka.broker.node import Node
from minikafka.config.security import STANDARD_AUTHORIZER
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.net.connection import Connection
from minikafka.records.batch import parse_header
from minikafka.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from minikafka.security.authorizer import bits_of
from minikafka.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from minikafka.wire.messages.api_versions import ApiVersionsRequest
from minikafka.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from minikafka.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.wire.messages.describe_acls import DescribeAclsRequest
from minikafka.wire.messages.describe_cluster import DescribeClusterRequest
from minikafka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.wire.messages.describe_groups import DescribeGroupsRequest
from minikafka.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from minikafka.wire.messages.fetch import FetchRequest
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest
from minikafka.wire.messages.list_groups import ListGroupsRequest
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from minikafka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
READ, WRITE, DESCRIBE, ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER
SETTINGS = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:root"}
DENIED_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED

StartNode = Callable[..., Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]


@pytest.fixture
async def secured(start_node: StartNode) -> Node:
    alone = {"offsets_topic_replication_factor": 1, "offsets_topic_num_partitions": 1}
    node = await start_node(**SETTINGS, **alone, auto_create_topics_enable="true")
    for name in ("mine", "other"):
        await create_topic(node, name)
    return node


async def as_user(node: Node, dial: Dial, user: str) -> Client:
    """A connection of that user, as if it had logged in."""
    client = await dial(node)
    await client.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    next(reversed(listener_of(node)._connections)).user = user
    return client


@pytest.fixture
async def alice(secured: Node, dial: Dial) -> Client:
    return await as_user(secured, dial, "alice")


@pytest.fixture
async def root(secured: Node, dial: Dial) -> Client:
    return await as_user(secured, dial, "root")


def acl(
    operation: AclOperation,
    resource_type: ResourceType,
    name: str = "kafka-cluster",
    permission: AclPermission = AclPermission.ALLOW,
) -> AclBinding:
    return AclBinding(resource_type, name, PatternType.LITERAL, "User:alice", "*", operation, permission)


def creation(acl: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


async def grant(node: Node, *acls: AclBinding) -> None:
    """Create ACLs; this node knows of them afterwards."""
    request = CreateAclsRequest(creations=[*map(creation, acls)])
    answer = await node.controller.call(request, CreateAclsResponse, timeout_s=PATIENCE_S)
    assert not any(result.error_code for result in answer.results), answer
    await eventually(lambda: all(each.acl_id in node.image.acls for each in acls), "the ACLs")


async def revoke_all(node: Node) -> None:
    any_acl = DeleteAclsFilter(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    any_acl.resource_name_filter = any_acl.principal_filter = any_acl.host_filter = None
    request = DeleteAclsRequest(filters=[any_acl])
    answer = await node.controller.call(request, DeleteAclsResponse, timeout_s=PATIENCE_S)
    assert not answer.filter_results[0].error_code


# -- produce and fetch -------------------------------------------------------------------------------------------------


async def test_produce_writes_what_it_may(secured: Node, alice: Client, root: Client) -> None:
    assert (await alice.produce("mine", b"no")).error_code == DENIED_TOPIC
    await grant(secured, acl(WRITE, TOPIC, "mine"))
    assert (await alice.produce("mine", b"yes")).error_code == 0
    both = ProduceRequest(
        acks=-1,
        timeout_ms=9999,
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch(b"both"))])
            for name in ("other", "mine")
        ],
    )
    answer = await alice.ask(both)
    assert {topic.name: topic.partition_responses[0].error_code for topic in answer.responses} == {
        "mine": 0,
        "other": DENIED_TOPIC,
    }
    assert values_in((await root.fetch("mine")).records) == [b"yes", b"both"]
    assert values_in((await root.fetch("other")).records) == []


async def test_produce_by_an_unknown_id_is_told_so(secured: Node, alice: Client) -> None:
    other = secured.image.topic("other")
    assert other is not None
    for topic_id, error in ((UUID(int=77), ErrorCode.UNKNOWN_TOPIC_ID), (other.topic_id, DENIED_TOPIC)):
        data = [PartitionProduceData(index=0, records=batch(b"x"))]
        request = ProduceRequest(
            acks=1, timeout_ms=9, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=data)]
        )
        answer = await alice.ask(request, 13)
        assert [each.partition_responses[0].error_code for each in answer.responses] == [error]


async def test_a_denied_produce_without_acks_closes_the_connection(alice: Client) -> None:
    alice.send_produce("mine", b"no", acks=0).cancel()
    await alice.wait_closed()


async def test_records_of_a_transaction_need_write_on_its_id(secured: Node, alice: Client) -> None:
    await grant(secured, acl(WRITE, TOPIC, "mine"))
    data = [PartitionProduceData(index=0, records=batch(b"x"))]
    request = ProduceRequest(
        transactional_id="tx", acks=-1, timeout_ms=9, topic_data=[TopicProduceData(name="mine", partition_data=data)]
    )
    answer = await alice.ask(request)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    partition, begun = led(secured, TopicPartition("mine", 0)), batch(b"x", producer=(7, 0, 0), is_transactional=True)
    secured.replicas.stage(partition, memoryview(begun), parse_header(begun))
    secured.replicas.commit_staged()
    for version in (9, 12):  # nor do they go into one that is open, without its id
        result = await alice.produce("mine", b"y", producer=(7, 0, 1), is_transactional=True, version=version)
        assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert partition.log.log_end_offset == 1


async def test_fetch_reads_what_it_may(secured: Node, alice: Client, root: Client) -> None:
    await root.produce("mine", b"record")
    denied = await alice.fetch("mine")
    assert (denied.error_code, denied.high_watermark, bytes(denied.records or b"")) == (DENIED_TOPIC, -1, b"")
    await grant(secured, acl(READ, TOPIC, "mine"))
    assert values_in((await alice.fetch("mine")).records) == [b"record"]


async def test_nobody_goes_on_with_the_fetch_session_of_another(alice: Client, root: Client) -> None:
    """Its answers would name the topics of another, and it would miss what was told elsewhere."""
    opened = await root.ask(fetch_request("other", session_epoch=0), 12)
    going_on, closing = (FetchRequest(session_id=opened.session_id, session_epoch=epoch) for epoch in (1, -1))
    told = await alice.ask(going_on, 12)
    assert (told.error_code, told.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
    await alice.ask(closing, 12)
    assert not (await root.ask(going_on, 12)).error_code


async def test_a_fetch_that_waits_when_its_right_is_revoked_gets_nothing(
    secured: Node, alice: Client, root: Client
) -> None:
    await grant(secured, acl(READ, TOPIC, "mine"))
    waiting = alice.send_fetch("mine", max_wait_ms=30_000, min_bytes=1)
    await eventually(lambda: secured.replicas.waiting.consumer_fetches.delayed, "the fetch to wait")
    await revoke_all(secured)
    await eventually(lambda: not secured.image.acls, "the revocation")
    await root.produce("mine", b"record")
    partition = (await in_time(waiting)).responses[0].partitions[0]
    assert (partition.error_code, bytes(partition.records or b"")) == (DENIED_TOPIC, b"")


async def test_a_client_is_no_follower(root: Client) -> None:
    answer = await root.ask(fetch_request("mine", replica_id=2), 12)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not even a super user is"


# -- topics ------------------------------------------------------------------------------------------------------------


async def metadata(client: Client, *names: str, **how: Any) -> dict[str, int]:
    topics = [MetadataRequestTopic(name=name) for name in names] if names else None
    answer = await client.ask(MetadataRequest(topics=topics, **how))
    return {topic.name: topic.error_code for topic in answer.topics}


async def test_metadata_does_not_tell_of_topics_that_may_not_be_described(secured: Node, alice: Client) -> None:
    await grant(secured, acl(DESCRIBE, TOPIC, "mine"), acl(DESCRIBE, TOPIC, "missing"))
    assert await metadata(alice) == {"mine": 0}
    assert await metadata(alice, "mine", "other", "nowhere") == {
        "mine": 0,
        "other": DENIED_TOPIC,
        "nowhere": DENIED_TOPIC,
    }
    missing = await metadata(alice, "missing", allow_auto_topic_creation=False)
    assert missing == {"missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    other = secured.image.topic("other")
    assert other is not None
    by_id = [MetadataRequestTopic(name=None, topic_id=each) for each in (other.topic_id, UUID(int=77))]
    answer = await alice.ask(MetadataRequest(topics=by_id))
    assert {(topic.name, topic.error_code, topic.topic_id) for topic in answer.topics} == {
        (None, DENIED_TOPIC, other.topic_id),
        (None, ErrorCode.UNKNOWN_TOPIC_ID, UUID(int=77)),
    }


async def test_metadata_creates_what_may_be_created(secured: Node, alice: Client) -> None:
    await grant(secured, acl(DESCRIBE, TOPIC, "new"), acl(DESCRIBE, TOPIC, "newer"))
    assert await metadata(alice, "new", allow_auto_topic_creation=True) == {"new": DENIED_TOPIC}
    assert secured.image.topic("new") is None
    await grant(secured, acl(AclOperation.CREATE, TOPIC, "new"))
    assert await metadata(alice, "new", allow_auto_topic_creation=True) == {"new": 0}
    await grant(secured, acl(AclOperation.CREATE, CLUSTER))
    assert await metadata(alice, "newer", allow_auto_topic_creation=True) == {"newer": 0}


async def test_topics_page_by_page_are_those_that_may_be_described(secured: Node, alice: Client) -> None:
    await grant(secured, acl(DESCRIBE, TOPIC, "mine"))
    answer = await alice.ask(DescribeTopicPartitionsRequest(response_partition_limit=10))
    assert [topic.name for topic in answer.topics] == ["mine"]
    named = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in ("mine", "nowhere", "other")], response_partition_limit=10
    )
    answer = await alice.ask(named)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("mine", 0),
        ("nowhere", DENIED_TOPIC),
        ("other", DENIED_TOPIC),
    ]
    assert answer.topics[2].topic_id == UUID(int=0)


async def test_topics_are_created_and_deleted_one_by_one(secured: Node, alice: Client) -> None:
    new = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("new", "newer")]
    refused = await alice.ask(CreateTopicsRequest(topics=new, timeout_ms=9999))
    assert {(topic.error_code, topic.num_partitions) for topic in refused.topics} == {(DENIED_TOPIC, -1)}
    await grant(secured, acl(AclOperation.CREATE, TOPIC, "new"), acl(AclOperation.DELETE, TOPIC, "new"))
    answer = await alice.ask(CreateTopicsRequest(topics=new, timeout_ms=9999))
    assert {topic.name: topic.error_code for topic in answer.topics} == {"new": 0, "newer": DENIED_TOPIC}
    created = next(topic for topic in answer.topics if topic.name == "new")
    assert (created.topic_config_error_code, created.num_partitions, created.configs) == (DENIED_TOPIC, -1, [])
    other = secured.image.topic("other")
    assert other is not None
    states = [
        DeleteTopicState(name="new"),
        DeleteTopicState(name="other"),
        DeleteTopicState(name=None, topic_id=other.topic_id),
        DeleteTopicState(name=None, topic_id=UUID(int=77)),
        DeleteTopicState(name=None),
    ]
    deleted = await alice.ask(DeleteTopicsRequest(topics=states, timeout_ms=9999))
    assert sorted((str(each.name), each.error_code) for each in deleted.responses) == [
        ("None", DENIED_TOPIC),
        ("None", DENIED_TOPIC),
        ("None", ErrorCode.UNKNOWN_TOPIC_ID),
        ("new", 0),
        ("other", DENIED_TOPIC),
    ]
    assert secured.image.topic("other") is not None
    await grant(secured, acl(DESCRIBE, TOPIC, "other"))  # who may describe it is told its name, as by Apache Kafka
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=other.topic_id)], timeout_ms=9999)
    (named,) = (await alice.ask(by_id)).responses
    assert (named.name, named.topic_id, named.error_code) == ("other", other.topic_id, DENIED_TOPIC)


async def test_offsets_and_settings_topic_by_topic(secured: Node, alice: Client) -> None:
    await grant(secured, acl(DESCRIBE, TOPIC, "mine"), acl(AclOperation.DESCRIBE_CONFIGS, TOPIC, "mine"))
    asked = [ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=-1)]
    topics = [ListOffsetsTopic(name=name, partitions=list(asked)) for name in ("mine", "other")]
    answer = await alice.ask(ListOffsetsRequest(topics=topics), 7)
    assert {topic.name: (topic.partitions[0].error_code, topic.partitions[0].offset) for topic in answer.topics} == {
        "mine": (0, 0),
        "other": (DENIED_TOPIC, -1),
    }
    wanted = [(2, "mine"), (2, "other"), (4, "1"), (32, "g")]
    resources = [DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in wanted]
    described = await alice.ask(DescribeConfigsRequest(resources=resources))
    assert [(each.resource_name, each.error_code, bool(each.configs)) for each in described.results] == [
        ("mine", 0, True),
        ("other", DENIED_TOPIC, False),
        ("1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, False),
        ("g", ErrorCode.GROUP_AUTHORIZATION_FAILED, False),
    ]


@pytest.mark.spec("E4")
async def test_ends_of_leader_epochs_are_told_to_who_may_describe_the_topic(secured: Node, alice: Client) -> None:
    await grant(secured, acl(DESCRIBE, TOPIC, "mine"))
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic=name, partitions=[asked]) for name in ("mine", "other")]
    answer = await alice.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))
    told = {topic.topic: topic.partitions[0] for topic in answer.topics}
    assert (told["mine"].error_code, told["mine"].end_offset) == (0, 0)
    assert (told["other"].error_code, told["other"].leader_epoch, told["other"].end_offset) == (DENIED_TOPIC, -1, -1)
    await grant(secured, acl(AclOperation.CLUSTER_ACTION, CLUSTER))
    answer = await alice.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))
    assert [topic.partitions[0].error_code for topic in answer.topics] == [0, 0]


# -- groups and transactions -------------------------------------------------------------------------------------------


def commit(*topics: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    named = [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in topics]
    return OffsetCommitRequest(group_id="g", topics=named)


async def test_offsets_are_committed_and_read_by_group_and_topic(
    secured: Node, alice: Client, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await root.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    assert not found.coordinators[0].error_code
    await eventually(lambda: secured.groups.shard_of("g"), "the coordinator")
    await eventually_active(secured, root)
    denied = await alice.ask(commit("mine", "other"))
    assert {topic.partitions[0].error_code for topic in denied.topics} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    await grant(secured, acl(READ, GROUP, "g"), acl(READ, TOPIC, "mine"))
    answer = await alice.ask(commit("mine", "other"))
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {"mine": 0, "other": DENIED_TOPIC}
    await root.ask(commit("other"))
    by_name = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("mine", "other")],
            ),
            OffsetFetchRequestGroup(group_id="not mine", topics=None),
        ]
    )
    rows, add = list[int](), LongAnswer.add

    async def note_and_add(answer: LongAnswer, count: int) -> None:
        rows.append(count)
        await add(answer, count)

    monkeypatch.setattr(LongAnswer, "add", note_and_add)
    mine, not_mine = (await alice.ask(by_name)).groups
    assert rows[0] == 2, "what is refused takes as much of a turn"
    assert {topic.name: topic.partitions[0].error_code for topic in mine.topics} == {"mine": 0, "other": DENIED_TOPIC}
    assert not_mine.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert [topic.name for topic in (await alice.ask(everything)).groups[0].topics] == ["mine"]
    assert [group.group_id for group in (await alice.ask(ListGroupsRequest())).groups] == ["g"]
    described = (await alice.ask(DescribeGroupsRequest(groups=["g", "h"]))).groups
    assert {group.group_id: group.error_code for group in described} == {
        "g": 0,
        "h": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }
    for group, topics in (("k", ["mine", "other"]), ("l", ["mine"])):
        await grant(secured, acl(DESCRIBE, GROUP, group))
        joining = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="a member",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=topics,
            topic_partitions=[],
        )
        assert not (await root.ask(joining)).error_code
    described = (await alice.ask(ConsumerGroupDescribeRequest(group_ids=["k", "l"]))).groups
    assert {group.group_id: group.error_code for group in described} == {"k": DENIED_TOPIC, "l": 0}
    await revoke_all(secured)
    await eventually(lambda: not secured.image.acls, "the revocation")
    assert (await alice.ask(ListGroupsRequest())).groups == []


async def test_many_names_are_looked_at_in_portions_and_requests_stay_in_order(
    secured: Node, alice: Client, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await root.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    await eventually(lambda: secured.groups.shard_of("g"), "the coordinator")
    await eventually_active(secured, root)
    await grant(secured, acl(READ, GROUP, "g"), acl(READ, TOPIC, "mine"))
    monkeypatch.setattr(authorization, "AT_ONCE", 10)
    looks, portions = [0], []

    def look(authorizer: Authorizer, *asked: Any) -> bool:
        looks[0] += 1
        return sees(authorizer, *asked)

    async def wait_for_turn(connection: Connection) -> None:
        portions.append(looks[0])
        looks[0] = 0
        await wait(connection)

    wait, sees = Connection.wait_for_turn, Authorizer.sees
    monkeypatch.setattr(Authorizer, "sees", look)
    monkeypatch.setattr(Connection, "wait_for_turn", wait_for_turn)
    unseen = [f"{number}" for number in range(50)]
    last = commit("mine")
    last.topics[0].partitions[0].committed_offset = 2
    first, second = alice.send(commit(*unseen, "mine")), alice.send(last)
    assert {topic.name: topic.partitions[0].error_code for topic in (await first).topics} == {
        "mine": 0,
        **dict.fromkeys(unseen, DENIED_TOPIC),
    }
    await second
    asked = [OffsetFetchRequestTopics(name="mine", partition_indexes=[0])]
    answer = await root.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=asked)]))
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 2, "the later one counts"
    assert portions[:5] == [11, 10, 10, 10, 10], "the first has the group, too"
    refused = (await alice.ask(DescribeGroupsRequest(groups=unseen))).groups
    assert {group.error_code for group in refused} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


async def eventually_active(node: Node, client: Client) -> None:
    while (await client.ask(commit("mine"))).topics[0].partitions[0].error_code:
        await turns()


async def test_producer_ids_and_coordinators(secured: Node, alice: Client) -> None:
    async def outcome(transactional_id: str | None) -> int:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
        code: int = (await alice.ask(request)).error_code
        return code

    assert await outcome(None) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await outcome("tx") == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    await grant(secured, acl(WRITE, TOPIC, "mine"))
    assert await outcome(None) == 0, "whoever may write to some topic (KIP-679)"
    await grant(secured, acl(WRITE, TRANSACTIONAL_ID, "tx"))
    assert await outcome("tx") != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    for key_type, error in (
        (0, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ):
        answer = await alice.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["nobody's"]))
        assert answer.coordinators[0].error_code == error


async def test_a_transaction_gets_all_its_partitions_or_none(secured: Node, alice: Client) -> None:
    await grant(secured, acl(WRITE, TRANSACTIONAL_ID, "tx"), acl(WRITE, TOPIC, "mine"))
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("mine", "other")]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx", v3_and_below_producer_id=1, v3_and_below_topics=topics
    )
    answer = await alice.ask(request, 3)
    assert [
        (each.name, each.results_by_partition[0].partition_error_code) for each in answer.results_by_topic_v3_and_below
    ] == [
        ("other", DENIED_TOPIC),
        ("mine", ErrorCode.OPERATION_NOT_ATTEMPTED),
    ]


# -- rights themselves -------------------------------------------------------------------------------------------------


def any_acl(**named: Any) -> DescribeAclsRequest:
    wildcard = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    anything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    return DescribeAclsRequest(**{**wildcard, **anything, **named})


async def test_acls_are_created_described_and_deleted(secured: Node, alice: Client, root: Client) -> None:
    acls = [acl(READ, TOPIC, "mine"), acl(WRITE, TOPIC, "mine"), acl(READ, GROUP, "g")]
    request = CreateAclsRequest(creations=[*map(creation, [*acls, acls[0]])])
    assert {each.error_code for each in (await alice.ask(request)).results} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert (await alice.ask(any_acl())).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not secured.image.acls
    assert [each.error_code for each in (await root.ask(request)).results] == [0, 0, 0, 0]
    assert set(secured.image.acls.values()) == set(acls)
    described = (await root.ask(any_acl())).resources
    assert [(each.resource_type, each.resource_name, len(each.acls)) for each in described] == [
        (TOPIC, "mine", 2),
        (GROUP, "g", 1),
    ]
    wrong = await root.ask(any_acl(operation=99))
    assert wrong.error_code == ErrorCode.INVALID_REQUEST
    of_topic = DeleteAclsFilter(resource_type_filter=TOPIC, pattern_type_filter=3, operation=1, permission_type=1)
    of_topic.resource_name_filter, of_topic.principal_filter, of_topic.host_filter = "mine", None, None
    bad = DeleteAclsFilter(resource_type_filter=99, operation=1, permission_type=1)
    results = (await root.ask(DeleteAclsRequest(filters=[of_topic, of_topic, bad]))).filter_results
    assert [(each.error_code, len(each.matching_acls)) for each in results] == [
        (0, 2),
        (0, 0),
        (ErrorCode.INVALID_REQUEST, 0),
    ]
    assert list(secured.image.acls.values()) == [acls[2]]


async def test_answers_tell_the_real_rights(secured: Node, alice: Client, root: Client) -> None:
    await grant(secured, acl(READ, TOPIC, "mine"), acl(DESCRIBE, GROUP, "g"))
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name="mine")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = await alice.ask(asked, 10)
    assert answer.topics[0].topic_authorized_operations == bits_of(READ, DESCRIBE)
    assert answer.cluster_authorized_operations == 0, "who may not describe the cluster is told nothing"
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert (await alice.ask(cluster)).cluster_authorized_operations == 0
    await grant(secured, acl(ALTER, CLUSTER))
    assert (await alice.ask(cluster)).cluster_authorized_operations == bits_of(ALTER, DESCRIBE)
    assert (await root.ask(cluster)).cluster_authorized_operations.bit_count() == 7
    assert (await alice.ask(DescribeClusterRequest())).cluster_authorized_operations == NOT_ASKED


async def test_denials_are_logged(secured: Node, alice: Client) -> None:
    with capture_logs() as lines:
        await alice.produce("other", b"no")
        await alice.ask(any_acl())
    said = [tuple(line.values()) for line in lines if line["event"] == "access denied"]
    whom = {"principal": "User:alice", "host": "127.0.0.1", "event": "access denied", "log_level": "warning"}
    assert [set(each) for each in said] == [
        {*whom.values(), "WRITE", "TOPIC", "other"},
        {*whom.values(), "DESCRIBE", "CLUSTER", "kafka-cluster"},
    ]


async def test_a_revoked_right_is_refused_on_every_node(cluster: Cluster, dial: Dial) -> None:
    await cluster.start(**SETTINGS)
    await cluster.ready()
    node = await cluster.wait_for_controller()
    await create_topic(node, "mine", replicas=[[1, 2, 3]])
    clients = {each: await as_user(cluster.nodes[each], dial, "alice") for each in cluster.node_ids}

    async def told() -> set[int]:
        return {(await metadata(client, "mine"))["mine"] for client in clients.values()}

    await eventually(lambda: all(each.image.topic("mine") for each in cluster.nodes.values()), "the topic everywhere")
    assert await told() == {DENIED_TOPIC}
    await grant(node, acl(DESCRIBE, TOPIC, "mine"))
    await eventually(lambda: all(each.image.acls for each in cluster.nodes.values()), "the right everywhere")
    assert await told() == {0}
    await revoke_all(node)
    await eventually(lambda: not any(each.image.acls for each in cluster.nodes.values()), "the revocation everywhere")
    assert await told() == {DENIED_TOPIC}
    leader_id = next(each for each, its_node in cluster.nodes.items() if its_node is node)
    await cluster.kill(leader_id)
    clients.pop(leader_id)
    await cluster.wait_for_controller()
    assert await told() == {DENIED_TOPIC}, "and it does not come back with another controller"
    await cluster.start(leader_id, **SETTINGS)
    await cluster.ready()
    clients[leader_id] = await as_user(cluster.nodes[leader_id], dial, "alice")
    assert await told() == {DENIED_TOPIC}


async def test_an_id_that_this_node_does_not_know_is_not_passed_on(
    secured: Node, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller may know the topic already: whoever asks could delete it without the right to."""

    async def call(request: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"{request} was passed on")

    monkeypatch.setattr(secured.controller, "call", call)
    unknown = [DeleteTopicState(name=None, topic_id=UUID(int=77))]
    answer = await alice.ask(DeleteTopicsRequest(topics=unknown, timeout_ms=9999))
    assert [each.error_code for each in answer.responses] == [ErrorCode.UNKNOWN_TOPIC_ID]


async def test_an_id_that_becomes_known_meanwhile_tells_nothing(
    secured: Node, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a topic may be described is looked at again when it is found."""
    other = secured.image.topic("other")
    assert other is not None
    latest = secured.image

    async def meanwhile(_: Any) -> None:
        secured.metadata.image = latest

    monkeypatch.setattr(secured.parts.part(Absences), "wait_until_decided", meanwhile)
    secured.metadata.image = replace(latest, topic_names={})
    wanted = [MetadataRequestTopic(name=None, topic_id=other.topic_id)]
    (topic,) = (await alice.ask(MetadataRequest(topics=wanted))).topics
    assert (topic.name, topic.error_code, topic.partitions) == (None, DENIED_TOPIC, [])
