"""Topics are created, deleted and extended (row C5); what bad requests get (reliability list)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import controller_requests as ask
import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.topics import PARTITIONS_PER_REQUEST_MAX
from minikafka.model import CONSUMER_OFFSETS_TOPIC
from minikafka.wire.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from minikafka.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from minikafka.wire.messages.delete_topics import DeleteTopicsResponse
from minikafka.wire.schema import Message

pytestmark = pytest.mark.spec("C5")


def test_created_with_everything(cluster: Any) -> None:
    result = cluster.create("t", num_partitions=6, replication_factor=3, configs=(("flush.ms", " 5"),))
    topic = cluster.image.topics_by_name["t"]
    assert result == CreatableTopicResult(
        name="t", topic_id=topic.topic_id, error_message=None, num_partitions=6, replication_factor=3
    )
    assert cluster.image.topic_overrides("t") == {"flush.ms": "5"}
    assert sorted(topic.partitions) == [0, 1, 2, 3, 4, 5]
    for partition in topic.partitions.values():
        assert sorted(partition.replicas) == [1, 2, 3]
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert topic.topic_id.version == 4


def test_defaults_of_the_node(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(num_partitions=4, default_replication_factor=2)
    cluster.join(1, 2)
    result = cluster.create("t")
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_spread_over_racks(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster()
    cluster.join(1, 2, 3, 4, racks={1: "a", 2: "a", 3: "b", 4: "b"})
    cluster.create("t", num_partitions=8, replication_factor=2)
    for index in range(8):
        assert len({cluster.image.brokers[one].rack for one in cluster.partition(index).replicas}) == 2


def test_a_broker_that_is_away_gets_its_replica_but_is_not_in_sync(cluster: Any) -> None:
    cluster.fence(2)
    cluster.create("t", num_partitions=3, replication_factor=3)
    for index in range(3):
        partition = cluster.partition(index)
        assert sorted(partition.replicas) == [1, 2, 3]
        assert sorted(partition.isr) == [1, 3]
        assert partition.leader == partition.isr[0]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "../x"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a_b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a.b"}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"num_partitions": 2**31 - 1}, ErrorCode.POLICY_VIOLATION),
        ({"configs": (("flush.ms", "-1"),)}, ErrorCode.INVALID_CONFIG),
        ({"configs": (("flush.ms", None),)}, ErrorCode.INVALID_CONFIG),
        ({"configs": (("no.such", "1"),)}, ErrorCode.INVALID_CONFIG),
        ({"assignments": ((0, (1, 1)),)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, ()),)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (9,)),)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((1, (1,)),)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (1,)), (0, (2,)))}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (1,)), (1, (1, 2)))}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (3,)),)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (1,)),), "num_partitions": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": ((0, (1,)),), "replication_factor": 1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_refused_topic_says_why_and_keeps_no_other_from_being_created(
    cluster: Any, fields: dict[str, Any], code: ErrorCode
) -> None:
    cluster.create("a.b")
    cluster.fence(3)
    bad = ask.topic(**{"name": "bad"} | fields)
    results = cluster.ask(ask.create(bad, ask.topic("good"))).topics
    assert (results[0].name, results[0].error_code) == (bad.name, code)
    assert results[0].error_message
    assert results[1].error_code == ErrorCode.NONE
    assert sorted(cluster.image.topics_by_name) == ["a.b", "good"]


def test_a_topic_named_twice_is_refused_and_the_others_proceed(cluster: Any) -> None:
    topics = (ask.topic("a"), ask.topic("b"), ask.topic("a"))
    results = cluster.ask(ask.create(*topics)).topics
    assert [(result.name, result.error_code) for result in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.NONE),
    ]
    assert list(cluster.image.topics_by_name) == ["b"]


def test_names_that_collide_within_a_request(cluster: Any) -> None:
    results = cluster.ask(ask.create(ask.topic("a.b"), ask.topic("a_b"))).topics
    assert [result.error_code for result in results] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_validate_only_answers_and_does_nothing(cluster: Any) -> None:
    outcome = cluster.handle(ask.create(ask.topic("t", 3, 2), ask.topic(".."), validate_only=True))
    assert outcome.records == ()
    assert outcome.response.topics[0] == CreatableTopicResult(
        name="t", error_message=None, num_partitions=3, replication_factor=2
    )
    assert outcome.response.topics[1].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_one_request_creates_a_bounded_number_of_partitions(cluster: Any) -> None:
    most = ask.topic("most", PARTITIONS_PER_REQUEST_MAX - 1, 1)
    topics = (most, ask.topic("two", 2, 1), ask.topic("one", 1, 1))
    results = cluster.ask(ask.create(*topics)).topics
    assert [result.error_code for result in results] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]


def test_no_broker_gets_more_replicas_than_it_can_keep_open(cluster: Any) -> None:
    cluster.controller._state.replicas_per_broker_max = 5
    room, none, more = ask.topic("a", 5, 3), ask.topic("b", 1, 1), ask.topic("c", 4, 3)
    results = cluster.ask(ask.create(more, room, none)).topics
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.POLICY_VIOLATION,  # and what it would have taken is free for the next
        ErrorCode.NONE,
    ]
    extended = cluster.ask(ask.extend(ask.more("c", 6))).results[0]
    assert extended.error_code == ErrorCode.POLICY_VIOLATION
    assert "limit of open files" in extended.error_message
    assert len(cluster.image.topic("c").partitions) == 4
    assert cluster.create("d", (1, 2, 3)).error_code == ErrorCode.POLICY_VIOLATION


class Quota:
    """Accepts so many changes."""

    def __init__(self, changes: int) -> None:
        self.left, self.accepted = changes, list[int]()

    def accept(self, partitions: int) -> None:
        if len(self.accepted) == self.left:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "wait")
        self.accepted.append(partitions)


def test_who_exceeds_a_quota_is_refused_what_would_have_been_done(cluster: Any) -> None:
    def codes(request: Message, quota: Quota) -> list[int]:
        outcome = cluster.controller.handle(request, cluster.now_ms, quota.accept)
        cluster.log(outcome.records)
        match outcome.response:
            case CreateTopicsResponse(topics=results) | DeleteTopicsResponse(responses=results):
                pass
            case CreatePartitionsResponse(results=results):
                pass
        return [each.error_code for each in results]

    cluster.controller._state.replicas_per_broker_max = 5
    throttled = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    wrong, first, second = ask.topic("a.b", 0, 1), ask.topic("a", 4, 3), ask.topic("b", 1, 3)
    quota = Quota(1)
    assert codes(ask.create(wrong, first, second, second, ask.topic("c", 1, 3)), quota) == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        throttled,
    ]
    assert quota.accepted == [4], "what is refused for another reason is not counted"
    assert cluster.image.topic("c") is None
    assert codes(ask.create(ask.topic("c", 1, 3), validate_only=True), Quota(0)) == [ErrorCode.NONE]
    assert codes(ask.create(ask.topic("c", 1, 3), ask.topic("d", 1, 3)), Quota(0)) == [throttled] * 2, (
        "and takes no room"
    )
    assert codes(ask.extend(ask.more("a", 5)), Quota(0)) == [throttled]
    assert codes(ask.extend(ask.more("a", 5)), quota := Quota(1)) == [ErrorCode.NONE]
    assert quota.accepted == [1]
    deletion = ask.delete(ask.named("nowhere"), ask.named("a"))
    assert codes(deletion, Quota(0)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, throttled]
    assert codes(deletion, quota := Quota(1)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert quota.accepted == [5]
    assert cluster.ask(ask.create(first)).topics[0].error_code == ErrorCode.NONE, "the next one has no quota"


def test_deleted_by_name_and_by_id(cluster: Any) -> None:
    by_name, by_id = cluster.create("a"), cluster.create("b", configs=(("flush.ms", "5"),))
    references = (
        ask.named("a"),
        ask.named(None, by_id.topic_id),
        ask.named("a"),
        ask.named(None, UUID(int=9)),
        ask.named("b", by_id.topic_id),
    )
    results = cluster.ask(ask.delete(*references)).responses
    assert [(result.name, result.topic_id, result.error_code) for result in results] == [
        ("a", by_name.topic_id, ErrorCode.NONE),
        ("b", by_id.topic_id, ErrorCode.NONE),
        ("a", UUID(int=0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, UUID(int=9), ErrorCode.UNKNOWN_TOPIC_ID),
        ("b", by_id.topic_id, ErrorCode.INVALID_REQUEST),
    ]
    assert not cluster.image.topics_by_name
    assert not cluster.image.configs
    assert cluster.create("a").topic_id != by_name.topic_id


def test_topics_that_are_deleted_twice_are_written_at_once(cluster: Any, writes: list[int]) -> None:
    """Each write copies the table of all topics."""
    names = [f"t{index}" for index in range(20)]
    cluster.ask(ask.create(*map(ask.topic, names)))
    writes.clear()
    results = cluster.ask(ask.delete(*(ask.named(name) for name in names for _ in range(2)))).responses
    assert [result.error_code for result in results] == 20 * [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert writes == [20]


def test_a_topic_made_anew_has_later_leader_epochs_than_before(cluster: Any) -> None:
    cluster.create("t", num_partitions=3, replication_factor=3)
    cluster.fence(cluster.partition(0).leader)
    before = [cluster.partition(index).leader_epoch for index in range(3)]
    assert max(before) == 1
    cluster.ask(ask.delete(ask.named("t")))
    cluster.create("t", num_partitions=2, replication_factor=2)
    cluster.ask(ask.extend(ask.more("t", 3)))
    made = [cluster.partition(index) for index in range(3)]
    assert [(each.leader_epoch, each.first_leader_epoch) for each in made] == [(2, 2)] * 3
    cluster.fence(made[0].leader)
    assert (cluster.partition(0).leader_epoch, cluster.partition(0).first_leader_epoch) == (3, 2)


def test_deletion_may_be_disabled(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(delete_topic_enable=False)
    cluster.join(1)
    cluster.create("t")
    results = cluster.ask(ask.delete(ask.named("t"), ask.named("u"))).responses
    assert [one.error_code for one in results] == [
        ErrorCode.TOPIC_DELETION_DISABLED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_the_offsets_topic_is_created_and_then_left_alone(cluster: Any) -> None:
    cluster.create(CONSUMER_OFFSETS_TOPIC, num_partitions=2)
    deleted = cluster.ask(ask.delete(ask.named(CONSUMER_OFFSETS_TOPIC))).responses[0]
    extended = cluster.ask(ask.extend(ask.more(CONSUMER_OFFSETS_TOPIC, 3))).results[0]
    assert deleted.error_code == extended.error_code == ErrorCode.INVALID_REQUEST


def test_the_offsets_topic_is_deleted_where_a_test_says_so(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(delete_internal_topics_enable=True)
    cluster.join(1)
    cluster.create(CONSUMER_OFFSETS_TOPIC, num_partitions=2)
    deleted = cluster.ask(ask.delete(ask.named(CONSUMER_OFFSETS_TOPIC))).responses[0]
    assert deleted.error_code == ErrorCode.NONE
    assert not cluster.image.topics_by_name


def test_more_partitions(cluster: Any) -> None:
    cluster.create("t", num_partitions=2, replication_factor=2)
    before = [cluster.partition(index) for index in range(2)]
    outcome = cluster.handle(ask.extend(ask.more("t", 6)))
    assert outcome.response.results == [CreatePartitionsTopicResult(name="t")]
    assert [cluster.partition(index) for index in range(2)] == before
    leaders = [cluster.partition(index).leader for index in range(6)]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    assigned = cluster.ask(ask.extend(ask.more("t", 7, ((3, 1),))))
    assert assigned.results[0].error_code == ErrorCode.NONE
    assert cluster.partition(6).replicas == (3, 1)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (ask.more("u", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ask.more("t", 2), ErrorCode.INVALID_PARTITIONS),
        (ask.more("t", -1), ErrorCode.INVALID_PARTITIONS),
        (ask.more("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (ask.more("t", 3, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (ask.more("t", 3, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (ask.more("t", 3, ((1, 1),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (ask.more("t", 3, ((1, 9),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_refused_extensions(cluster: Any, topic: CreatePartitionsTopic, code: ErrorCode) -> None:
    cluster.create("t", num_partitions=2, replication_factor=2)
    outcome = cluster.handle(ask.extend(topic))
    assert outcome.response.results[0].error_code == code
    assert outcome.records == ()


def test_extensions_named_twice_or_only_validated(cluster: Any) -> None:
    cluster.create("t", num_partitions=2)
    twice = ask.extend(ask.more("t", 3), ask.more("t", 4))
    assert [one.error_code for one in cluster.ask(twice).results] == [ErrorCode.INVALID_REQUEST]
    outcome = cluster.handle(ask.extend(ask.more("t", 3), validate_only=True))
    assert outcome.response.results[0].error_code == ErrorCode.NONE
    assert outcome.records == ()
