"""Refusals of any API: the answer names what the request named, with the error, and can be sent."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from minikafka.errors import ErrorCode
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.error_codes import errors_of
from minikafka.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from minikafka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.wire.messages.describe_acls import DescribeAclsRequest
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from minikafka.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from minikafka.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.wire.refusals import has_error, refuse, refuse_as_brokers_do, say_error
from minikafka.wire.schema import ZERO_UUID, Message, MessageType

CODE = ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("key", [key for key in ApiKey if has_error(key.response_class)], ids=lambda key: key.name)
def test_every_api_is_refused_in_every_version(key: ApiKey) -> None:
    for version in range(key.versions.first, key.versions.last + 1):
        refusal = refuse(key.request_class(), key.response_class, CODE)
        there = decode_exactly(key.response_class, version, encode(refusal, version))
        assert set(errors_of(there)) <= {CODE}


NAMES = frozenset(
    {
        *("name", "topic", "topic_id", "topic_name", "partition", "partition_id", "partition_index"),
        *("key", "group_id", "transactional_id", "producer_id", "member_id", "user"),
        *("resource_type", "resource_name", "entity_type", "entity_name", "feature"),
    }
)
"""Fields by which a client finds what an element of an answer is about."""


@pytest.mark.parametrize("key", [key for key in ApiKey if has_error(key.response_class)], ids=lambda key: key.name)
def test_each_element_of_a_refusal_names_one_of_the_request(key: ApiKey) -> None:
    """In every version. Clients look for what they asked about; Java's have words of their own if it is not there."""
    for version in range(key.versions.first, key.versions.last + 1):
        request = filled(key.request_class, count(1))
        there = decode_exactly(key.request_class, version, encode(request, version))
        refusal = encode(refuse(there, key.response_class, CODE), version)
        elements = list(structs_of(decode_exactly(key.response_class, version, refusal)))
        assert any(errors_of(element) for element in elements), version
        names = [
            {getattr(each, name) for name in NAMES & type(each).SCHEMA.keys()} - {"", 0, ZERO_UUID}
            for each in elements[1:]
        ]
        assert set().union(*names) <= set(values_of(there))
        if key is ApiKey.DESCRIBE_LOG_DIRS:
            continue  # of directories, which requests do not name; the answer has the error itself from version 3 on
        for each, found in zip(elements[1:], names, strict=True):
            assert found or NAMES.isdisjoint(type(each).SCHEMA), (version, each)


def test_what_is_said_of_partitions_is_not_said_of_an_election_of_many() -> None:
    """Java's ElectLeadersResult has the partitions then, and fails as a whole otherwise."""
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[1, 2])])
    response = ApiKey.ELECT_LEADERS.response_class
    one = refuse_as_brokers_do(request, response, ErrorCode.ELECTION_NOT_NEEDED)
    assert errors_of(one) == [ErrorCode.ELECTION_NOT_NEEDED] * 2
    whole = refuse_as_brokers_do(request, response, ErrorCode.NOT_CONTROLLER)
    assert errors_of(whole) == [ErrorCode.NOT_CONTROLLER] * 3
    none_named = refuse_as_brokers_do(ElectLeadersRequest(), response, ErrorCode.ELECTION_NOT_NEEDED)
    assert errors_of(none_named) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_all_users_whose_passwords_change_are_named() -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="a")], upsertions=[ScramCredentialUpsertion(name="b")]
    )
    refusal = refuse(request, ApiKey.ALTER_USER_SCRAM_CREDENTIALS.response_class, CODE)
    assert [each.user for each in refusal.results] == ["a", "b"]  # type: ignore[attr-defined]


def filled(cls: MessageType, numbers: Iterator[int]) -> Message:
    """With a value of its own in each field, and two elements in each array."""
    message = cls()
    for name, field in cls.SCHEMA.items():
        values = [_value(field.type, numbers) for _ in range(2 if field.array else 1)]
        setattr(message, name, values if field.array else values[0])
    return message


def _value(kind: str | MessageType, numbers: Iterator[int]) -> Any:
    if not isinstance(kind, str):
        return filled(kind, numbers)
    number = next(numbers)
    values = {"string": f"s{number}", "bytes": b"%d" % number, "records": b"", "uuid": UUID(int=number)}
    return values.get(kind, number != 0 if kind == "bool" else number)


def structs_of(message: Message) -> Iterator[Message]:
    """Itself, and all that is in its arrays."""
    yield message
    for name, field in type(message).SCHEMA.items():
        if field.array and not isinstance(field.type, str):
            for each in getattr(message, name) or ():
                yield from structs_of(each)


def values_of(request: Message) -> Iterator[Any]:
    """All that it names."""
    for each in structs_of(request):
        for name, field in type(each).SCHEMA.items():
            if isinstance(field.type, str) and field.type != "records":
                value = getattr(each, name)
                yield from value if field.array and value else [value] if not field.array else ()


def test_clients_have_their_own_words_for_a_refusal() -> None:
    """Java's show an empty message as it is."""
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
    (topic,) = refuse(request, ApiKey.CREATE_TOPICS.response_class, CODE).topics  # type: ignore[attr-defined]
    assert topic.error_message is None
    assert refuse(DescribeAclsRequest(), ApiKey.DESCRIBE_ACLS.response_class, CODE).error_message is None  # type: ignore[attr-defined]


def shown(message: Message) -> Any:
    """Its arrays, and what tells their elements apart."""
    fields = {
        name: [shown(element) for element in value] if isinstance(value, list) else value
        for name in type(message).SCHEMA
        if (value := getattr(message, name)) and name not in ("error_message", "topic_id")
    }
    return {name: int(value) if isinstance(value, int) else value for name, value in fields.items()}


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (
            ProduceRequest(
                acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3)])]
            ),
            {
                "responses": [
                    {
                        "name": "t",
                        "partition_responses": [
                            {
                                "index": 3,
                                "error_code": 7,
                                "base_offset": -1,
                                "log_append_time_ms": -1,
                                "log_start_offset": -1,
                            }
                        ],
                    }
                ]
            },
        ),
        (
            OffsetCommitRequest(
                topics=[
                    OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=n)])
                    for n in (1, 2)
                ]
            ),
            {"topics": [{"name": "t", "partitions": [{"partition_index": n, "error_code": 7}]} for n in (1, 2)]},
        ),
        (
            AddPartitionsToTxnRequest(v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[5])]),
            {
                "results_by_topic_v3_and_below": [
                    {"name": "t", "results_by_partition": [{"partition_index": 5, "partition_error_code": 7}]}
                ],
            },
        ),
        (DeleteTopicsRequest(topic_names=["a", "b"]), {"responses": [{"name": n, "error_code": 7} for n in "ab"]}),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), {"responses": [{"name": "a", "error_code": 7}]}),
        (DeleteGroupsRequest(groups_names=["g"]), {"results": [{"group_id": "g", "error_code": 7}]}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_what_was_asked_about_is_named(request_: Message, answer: dict[str, Any]) -> None:
    key = next(key for key in ApiKey if key.request_class is type(request_))
    version = 1 if isinstance(request_, DeleteTopicsRequest) and request_.topic_names else min(6, key.versions.last)
    version = 3 if key is ApiKey.ADD_PARTITIONS_TO_TXN else version
    refusal = encode(refuse(request_, key.response_class, CODE), version)
    assert shown(decode_exactly(key.response_class, version, refusal)) == answer


def test_topics_that_were_to_be_created_are_named() -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    refusal = refuse(request, ApiKey.CREATE_TOPICS.response_class, CODE)
    (topic,) = refusal.topics  # type: ignore[attr-defined]
    assert (topic.name, topic.error_code) == ("t", CODE)


def test_an_answer_with_records_loses_them_to_the_error() -> None:
    data = PartitionData(partition_index=1, high_watermark=9, records=b"records")
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
    say_error(response, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (data.error_code, data.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
    assert response.error_code == ErrorCode.NONE, "Java looks at no partition of a fetch that has an error itself"


def test_what_is_said_of_partitions_is_not_said_of_their_group() -> None:
    (group,) = groups = [OffsetFetchResponseGroup(topics=[OffsetFetchResponseTopics(name="t")])]
    group.topics[0].partitions = [OffsetFetchResponsePartitions(partition_index=1)]
    say_error(OffsetFetchResponse(groups=groups), ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert list(errors_of(group)) == [ErrorCode.UNSTABLE_OFFSET_COMMIT]
    assert group.error_code == ErrorCode.NONE
    say_error(OffsetFetchResponse(groups=groups), ErrorCode.NOT_COORDINATOR)
    assert group.error_code == ErrorCode.NOT_COORDINATOR


def test_topics_of_metadata_say_what_is_wrong_with_them() -> None:
    response = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition()])])
    say_error(response, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert response.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert response.error_code == ErrorCode.NONE


def test_an_answer_without_partitions_says_it_itself() -> None:
    response = FetchResponse()
    say_error(response, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
