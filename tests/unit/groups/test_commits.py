"""Commits and deletions of offsets beyond the golden scenarios."""

from __future__ import annotations

import pytest
from groups_driver import Driver

from minikafka.errors import ErrorCode
from minikafka.wire.consumer_protocol import encode_subscription
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

METADATA = encode_subscription(ConsumerProtocolSubscription(topics=["t"]))


def test_metadata_has_a_limit_by_partition_in_bytes(driver: Driver) -> None:
    refused = driver.commit({("t", 0): 1}, metadata="é" * 2_049)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert driver.commit({("t", 0): 1}, metadata="é" * 2_048).topics[0].partitions[0].error_code == 0
    assert driver.commit({("t", 1): 1}, metadata=None).topics[0].partitions[0].error_code == 0


def test_what_was_refused_keeps_its_error_when_the_rest_cannot_be_written() -> None:
    driver = Driver(auto_commit=False)
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_metadata=metadata)
        for index, metadata in enumerate(["x" * 5_000, "fine"])
    ]
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)])
    token = driver.ask(lambda token: driver.coordinator.offset_commit(request, 7, token, 0))
    driver.failed(ErrorCode.MESSAGE_TOO_LARGE)
    assert [partition.error_code for partition in driver.answers[token].topics[0].partitions] == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ]


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_failed_appends_as_committers_know_them(error: ErrorCode, answer: ErrorCode) -> None:
    driver = Driver(auto_commit=False)
    token = driver.commit({("t", 0): 1})
    driver.failed(error)
    assert driver.answers[token].topics[0].partitions[0].error_code == answer


def test_a_commit_is_a_sign_of_life(driver: Driver) -> None:
    (member,) = driver.stable("a")
    for _ in range(3):
        driver.advance(9_000)
        assert driver.commit({("t", 0): 1}, member, 1).topics[0].partitions[0].error_code == 0


def test_an_id_without_a_generation_is_no_simple_consumer(driver: Driver) -> None:
    (member,) = driver.stable("a")
    assert driver.commit({("t", 0): 1}, member, -1).topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", [8, 9])
def test_a_generation_of_a_group_nobody_knows(driver: Driver, version: int) -> None:
    answer = driver.commit({("t", 0): 1}, "m", 3, version=version)
    known = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert answer.topics[0].partitions[0].error_code == known


def test_offsets_of_topics_in_use_are_not_deleted(driver: Driver) -> None:
    driver.commit({("t", 0): 1, ("u", 0): 2})
    driver.stable("a", protocols={"range": METADATA})
    answer = driver.delete_offsets(("t", 0), ("u", 0))
    errors = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert errors == {"t": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "u": ErrorCode.NONE}
    assert driver.fetch() == {("t", 0): 1}


def test_offsets_of_other_kinds_of_groups_are_not_deleted(driver: Driver) -> None:
    driver.stable("a", protocol_type="connect")
    assert driver.delete_offsets(("t", 0)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert driver.delete_offsets(("t", 0), group="unknown").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deletion_that_cannot_be_written_says_so() -> None:
    driver = Driver()
    driver.commit({("t", 0): 1})
    driver.auto_commit = False
    token = driver.delete_offsets(("t", 0))
    driver.failed(ErrorCode.MESSAGE_TOO_LARGE)
    assert driver.answers[token].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.fetch() == {("t", 0): 1}


def test_an_offset_may_be_kept_for_ever(driver: Driver) -> None:
    """The sum of now and the longest retention is no timestamp: the write was never made, and never ended."""
    answer = driver.commit({("t", 0): 1}, retention_ms=(1 << 63) - 1, version=2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert driver.fetch(("t", 0)) == {("t", 0): 1}
    assert not driver.coordinator.shard.writes
