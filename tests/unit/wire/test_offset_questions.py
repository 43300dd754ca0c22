from __future__ import annotations

from minikafka.errors import ErrorCode
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from minikafka.wire.offset_questions import (
    EpochQuestion,
    TimeQuestion,
    epoch_answers,
    epoch_request,
    offset_answers,
    offsets_request,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_epoch_questions_share_their_topic():
    request = epoch_request(3, {A0: EpochQuestion(4, 5), B0: EpochQuestion(6, 6), A1: EpochQuestion(2, 7)})
    request = decode_exactly(OffsetForLeaderEpochRequest, 4, encode(request, 4))
    assert request.replica_id == 3
    asked = {
        (topic.topic, each.partition): (each.current_leader_epoch, each.leader_epoch)
        for topic in request.topics
        for each in topic.partitions
    }
    assert [topic.topic for topic in request.topics] == ["a", "b"]
    assert asked == {("a", 0): (5, 4), ("b", 0): (6, 6), ("a", 1): (7, 2)}


def test_epoch_answers():
    partitions = [EpochEndOffset(partition=1, leader_epoch=4, end_offset=9), EpochEndOffset(error_code=74)]
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="a", partitions=partitions)])
    assert list(epoch_answers(response)) == [
        (A1, (ErrorCode.NONE, OffsetAndEpoch(9, 4))),
        (A0, (ErrorCode.FENCED_LEADER_EPOCH, OffsetAndEpoch(-1, -1))),
    ]


def test_offsets_by_special_timestamp():
    request = offsets_request(3, {A0: TimeQuestion(-2, 5), B0: TimeQuestion(-2), A1: TimeQuestion(-2, 5)})
    request = decode_exactly(ListOffsetsRequest, 6, encode(request, 6))
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in request.topics] == [
        ("a", [0, 1]),
        ("b", [0]),
    ]
    assert {each.timestamp for topic in request.topics for each in topic.partitions} == {-2}


def test_offset_answers():
    partitions = [ListOffsetsPartitionResponse(partition_index=1, offset=7, leader_epoch=3)]
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=partitions)])
    assert list(offset_answers(response)) == [(A1, (ErrorCode.NONE, OffsetAndEpoch(7, 3)))]
