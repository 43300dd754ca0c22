"""Calls about replicas, to a cluster that answers as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from scripted_cluster import HANG_UP, ScriptedCluster

from minikafka.client import Admin
from minikafka.client.admin import LogDirectory, Reassignment, ReplicaSize
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.wire.api import ApiKey
from minikafka.wire.messages import (
    alter_partition_reassignments,
    alter_replica_log_dirs,
    describe_log_dirs,
    elect_leaders,
    list_partition_reassignments,
    unregister_broker,
)
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from minikafka.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
async def admin(cluster: ScriptedCluster) -> AsyncIterator[Admin]:
    async with Admin(cluster.servers, request_timeout_ms=20_000) as client:
        yield client


def reassigned(*results: tuple[int, ErrorCode, str | None]) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        responses=[
            alter_partition_reassignments.ReassignableTopicResponse(
                name="a",
                partitions=[
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=index, error_code=code, error_message=message
                    )
                    for index, code, message in results
                ],
            )
        ]
    )


@pytest.mark.spec("A4")
async def test_each_partition_has_an_outcome_of_its_own(cluster: ScriptedCluster, admin: Admin) -> None:
    answer = reassigned((0, ErrorCode.NONE, None), (1, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9 is not alive"))
    cluster.next_only(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        AlterPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER),
        HANG_UP,
        answer,
    )
    outcomes = await admin.alter_partition_reassignments(
        {A0: (1, 2), A1: (9,), B0: None}, allow_replication_factor_change=False
    )
    assert outcomes[A0] is None
    assert str(outcomes[A1]) == "INVALID_REPLICA_ASSIGNMENT: broker 9 is not alive"
    request = cluster.asked(AlterPartitionReassignmentsRequest)[-1]
    assert not request.allow_replication_factor_change
    asked = {topic.name: [(p.partition_index, p.replicas) for p in topic.partitions] for topic in request.topics}
    assert asked == {"a": [(0, [1, 2]), (1, [9])], "b": [(0, None)]}


@pytest.mark.spec("A4")
async def test_what_is_under_way_is_listed_with_where_it_leads(cluster: ScriptedCluster, admin: Admin) -> None:
    ongoing = list_partition_reassignments.OngoingPartitionReassignment(
        partition_index=1, replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[2]
    )
    answer = list_partition_reassignments.ListPartitionReassignmentsResponse(
        topics=[list_partition_reassignments.OngoingTopicReassignment(name="a", partitions=[ongoing])]
    )
    cluster.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, lambda node_id, request: answer)
    expected = Reassignment((3, 1, 2), (3,), (2,))
    assert expected.target == (3, 1)
    assert await admin.list_partition_reassignments() == {A1: expected}
    assert await admin.list_partition_reassignments([A0, A1]) == {A1: expected}
    every, some = cluster.asked(list_partition_reassignments.ListPartitionReassignmentsRequest)
    assert every.topics is None
    assert [(topic.name, topic.partition_indexes) for topic in some.topics] == [("a", [0, 1])]


async def test_an_election_of_an_unknown_type(admin: Admin) -> None:
    with pytest.raises(ValueError, match="election_type is 'best'; it must be one of preferred, unclean"):
        await admin.elect_leaders("best")  # type: ignore[arg-type]


@pytest.mark.spec("C4")
async def test_elections_tell_of_each_partition(cluster: ScriptedCluster, admin: Admin) -> None:
    results = [
        elect_leaders.PartitionResult(partition_id=0, error_code=ErrorCode.NONE),
        elect_leaders.PartitionResult(partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED),
    ]
    topic = elect_leaders.ReplicaElectionResult(topic="a", partition_result=results)
    answer = elect_leaders.ElectLeadersResponse(replica_election_results=[topic])
    cluster.on(ApiKey.ELECT_LEADERS, lambda node_id, request: answer)
    outcomes = await admin.elect_leaders("unclean", [A0, A1])
    error = outcomes[A1]
    assert outcomes[A0] is None
    assert error is not None
    assert error.code is ErrorCode.ELECTION_NOT_NEEDED
    await admin.elect_leaders("preferred")
    some, every = cluster.asked(elect_leaders.ElectLeadersRequest)
    assert (some.election_type, every.election_type, every.topic_partitions) == (1, 0, None)


@pytest.mark.spec("A5")
async def test_log_directories_are_asked_of_each_broker(cluster: ScriptedCluster, admin: Admin) -> None:
    partition = describe_log_dirs.DescribeLogDirsPartition(
        partition_index=1, partition_size=10, offset_lag=2, is_future_key=True
    )
    results = [
        describe_log_dirs.DescribeLogDirsResult(
            log_dir="/a",
            topics=[describe_log_dirs.DescribeLogDirsTopic(name="a", partitions=[partition])],
            total_bytes=100,
            usable_bytes=40,
        ),
        describe_log_dirs.DescribeLogDirsResult(log_dir="/b", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    answer = describe_log_dirs.DescribeLogDirsResponse(results=results)
    cluster.on(ApiKey.DESCRIBE_LOG_DIRS, lambda node_id, request: answer)
    found = await admin.describe_log_dirs([2, 77])
    assert found == {
        2: [
            LogDirectory("/a", ErrorCode.NONE, 100, 40, {A1: ReplicaSize(10, 2, True)}),
            LogDirectory("/b", ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, {}),
        ]
    }
    assert sorted(await admin.describe_log_dirs()) == [1, 2]


@pytest.mark.spec("A5")
async def test_moves_between_directories_go_to_their_broker(cluster: ScriptedCluster, admin: Admin) -> None:
    results = [
        alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(partition_index=0),
        alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(
            partition_index=1, error_code=ErrorCode.LOG_DIR_NOT_FOUND
        ),
    ]
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopicResult(topic_name="a", partitions=results)
    answer = alter_replica_log_dirs.AlterReplicaLogDirsResponse(results=[topic])
    cluster.on(ApiKey.ALTER_REPLICA_LOG_DIRS, lambda node_id, request: answer if node_id == 2 else None)
    outcomes = await admin.alter_replica_log_dirs(2, {A0: "/a", A1: "/b"})
    error = outcomes[A1]
    assert outcomes[A0] is None
    assert error is not None
    assert error.code is ErrorCode.LOG_DIR_NOT_FOUND
    (request,) = cluster.asked(alter_replica_log_dirs.AlterReplicaLogDirsRequest, 2)
    assert [each.path for each in request.dirs] == ["/a", "/b"]


async def test_a_broker_is_forgotten_once(cluster: ScriptedCluster, admin: Admin) -> None:
    def answer(code: ErrorCode, message: str | None = None) -> unregister_broker.UnregisterBrokerResponse:
        return unregister_broker.UnregisterBrokerResponse(error_code=code, error_message=message)

    cluster.next_only(
        ApiKey.UNREGISTER_BROKER,
        HANG_UP,
        answer(ErrorCode.BROKER_ID_NOT_REGISTERED),
        answer(ErrorCode.INVALID_REQUEST, "broker 2 is alive"),
    )
    await admin.unregister_broker(2)  # the first attempt did it, as it seems
    with pytest.raises(KafkaError, match="INVALID_REQUEST: broker 2 is alive"):
        await admin.unregister_broker(2)


async def test_settings_of_brokers_are_changed(cluster: ScriptedCluster, admin: Admin) -> None:
    answer = IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse()])
    cluster.on(ApiKey.INCREMENTAL_ALTER_CONFIGS, lambda node_id, request: answer)
    await admin.alter_broker_configs(2, {"leader.replication.throttled.rate": "7"})
    await admin.alter_broker_configs(None, {"leader.replication.throttled.rate": None})
    one, every = (request.resources[0] for request in cluster.asked(IncrementalAlterConfigsRequest))
    assert (one.resource_type, one.resource_name, every.resource_name) == (4, "2", "")
    assert [config.config_operation for config in (*one.configs, *every.configs)] == [0, 1]
