"""Refusals of any API: the answer names what the request named, with the error, and can be sent."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.errors import ErrorCode
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.error_codes import errors_of
from minikafka.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.wire.messages.describe_acls import DescribeAclsRequest
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
from minikafka.wire.refusals import has_error, refuse, say_error
from minikafka.wire.schema import Message

CODE = ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("key", [key for key in ApiKey if has_error(key.response_class)], ids=lambda key: key.name)
def test_every_api_is_refused_in_every_version(key: ApiKey) -> None:
    for version in range(key.versions.first, key.versions.last + 1):
        refusal = refuse(key.request_class(), key.response_class, CODE)
        there = decode_exactly(key.response_class, version, encode(refusal, version))
        assert set(errors_of(there)) <= {CODE}


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
