"""Topics that must not come into being."""

from __future__ import annotations

import os

import pytest
from live_cluster import eventually
from live_wire import Wire, assigned_topic, batch, produce_request

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

pytestmark = [pytest.mark.spec("P6"), pytest.mark.usefixtures("nodes_are_unharmed")]

BAD_NAMES = {
    "empty": "",
    "dot": ".",
    "dot dot": "..",
    "upwards": "../x",
    "absolute": "/etc",
    "with NUL": "a\0b",
    "250 characters": "x" * 250,
    "space": "a b",
    "not ASCII": "tópico",
    "line break": "a\n",
    "the cluster's own": "__cluster_metadata",
}


def create(wire: Wire, *topics: CreatableTopic, validate_only: bool = False) -> dict[str, tuple[ErrorCode, str]]:
    """Name -> error and its message."""
    answer = wire.ask(CreateTopicsRequest(topics=list(topics), timeout_ms=30_000, validate_only=validate_only), 7)
    return {topic.name: (ErrorCode(topic.error_code), topic.error_message or "") for topic in answer.topics}


def new(name: str, partitions: int = 1, replication_factor: int = 3) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)


@pytest.mark.parametrize("kind", BAD_NAMES)
def test_a_name_that_no_topic_may_have_is_refused(server: LocalCluster, wire: Wire, kind: str) -> None:
    name = BAD_NAMES[kind]
    data = server.layout.data_directory(1)
    before = set(os.listdir(data))
    error, message = create(wire, new(name))[name]
    assert error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert message

    for may_create in (True, False):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=may_create)
        assert wire.ask(request, 9).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not {entry for entry in os.listdir(data) if not entry.endswith(".tmp")} - before


@pytest.mark.parametrize("kind", BAD_NAMES)
def test_nothing_is_written_to_such_a_name(wire: Wire, kind: str) -> None:
    answer = wire.ask(produce_request(BAD_NAMES[kind], batch(b"x")), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_clusters_own_topics_are_not_written_by_clients(wire: Wire) -> None:
    wire.ask(FindCoordinatorRequest(key="some group"), 2)  # which makes the offsets topic
    eventually(lambda: wire.has_topic("__consumer_offsets"), "the offsets topic")
    for partition in range(10):
        answer = wire.ask(produce_request("__consumer_offsets", batch(b"no offset"), partition=partition), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(("first", "second"), [("col.lide", "col_lide"), ("ex_is.ts", "ex.is_ts")])
def test_names_that_metrics_could_not_tell_apart_are_refused(wire: Wire, first: str, second: str) -> None:
    assert create(wire, new(first))[first][0] is ErrorCode.NONE
    error, message = create(wire, new(second))[second]
    assert error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert first in message


def test_of_two_such_names_in_one_request_one_is_made(wire: Wire) -> None:
    results = create(wire, new("pair.a"), new("pair_a"))
    assert sorted(error for error, _ in results.values()) == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_topic_named_twice_is_refused_and_the_others_are_made(wire: Wire) -> None:
    results = create(wire, new("twice"), new("once"), new("twice"))
    assert results["twice"][0] is ErrorCode.INVALID_REQUEST
    assert results["once"][0] is ErrorCode.NONE
    assert wire.has_topic("once")
    assert not wire.has_topic("twice")


@pytest.mark.parametrize("partitions", [0, -2, -(2**31)])
def test_a_topic_without_partitions_is_refused(wire: Wire, partitions: int) -> None:
    assert create(wire, new("no-partitions", partitions))["no-partitions"][0] is ErrorCode.INVALID_PARTITIONS


def test_more_partitions_than_a_cluster_can_have_are_refused(wire: Wire) -> None:
    error, message = create(wire, new("too-many", 2**31 - 1))["too-many"]
    assert error in (ErrorCode.INVALID_PARTITIONS, ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_REQUEST), message
    assert not wire.has_topic("too-many")


@pytest.mark.parametrize("replication_factor", [0, -2, 4, 32767])
def test_a_replication_factor_that_cannot_be_is_refused(wire: Wire, replication_factor: int) -> None:
    error, _ = create(wire, new("bad-factor", 1, replication_factor))["bad-factor"]
    assert error is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    "assignment",
    [[[]], [[1, 1]], [[9]], [[-1]], [[1, 2], [3]], [[1], [2, 9]]],
    ids=["no replica", "a broker twice", "unknown broker", "negative broker", "uneven", "unknown in the second"],
)
def test_a_bad_assignment_is_refused(wire: Wire, assignment: list[list[int]]) -> None:
    error, message = create(wire, assigned_topic("bad-assignment", assignment))["bad-assignment"]
    assert error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message


def test_an_assignment_that_leaves_out_a_partition_is_refused(wire: Wire) -> None:
    topic = assigned_topic("gap", [[1], [2]])
    topic.assignments[1].partition_index = 2
    assert create(wire, topic)["gap"][0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_numbers_beside_an_assignment_are_refused(wire: Wire) -> None:
    topic = assigned_topic("both", [[1], [2]])
    topic.num_partitions = 2
    assert create(wire, topic)["both"][0] is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "config",
    [{"no_such_setting": "1"}, {"retention_ms": "soon"}, {"min_insync_replicas": "0"}],
    ids=lambda c: next(iter(c)),
)
def test_a_bad_setting_is_refused(wire: Wire, config: dict[str, str]) -> None:
    error, message = create(wire, assigned_topic("bad-setting", [[1, 2, 3]], **config))["bad-setting"]
    assert error is ErrorCode.INVALID_CONFIG
    assert next(iter(config)).replace("_", ".") in message


def test_a_topic_that_exists_is_not_made_again(wire: Wire, topic: str) -> None:
    assert create(wire, new(topic))[topic][0] is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_dry_run_makes_nothing(wire: Wire) -> None:
    assert create(wire, new("dry"), validate_only=True)["dry"][0] is ErrorCode.NONE
    assert not wire.has_topic("dry")


def test_partitions_are_only_added_to_a_topic_and_only_with_replicas(wire: Wire, topic: str) -> None:
    def add(name: str, count: int, assignments: list[list[int]] | None = None) -> ErrorCode:
        given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=given)], timeout_ms=30_000
        )
        return ErrorCode(wire.ask(request, 3).results[0].error_code)

    assert add("missing", 3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert add(topic, 1) is ErrorCode.INVALID_PARTITIONS
    assert add(topic, 0) is ErrorCode.INVALID_PARTITIONS
    assert add(topic, 2, [[1, 2, 9]]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert add(topic, 2, [[1, 2]]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert add(topic, 3, [[1, 2, 3]]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert add("__consumer_offsets", 100) in (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert add(topic, 2, [[3, 2, 1]]) is ErrorCode.NONE


def test_what_is_not_there_is_not_deleted(wire: Wire) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="missing")], timeout_ms=30_000)
    assert wire.ask(request, 6).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
