"""What followers and clients ask a leader about its log: ListOffsets and OffsetForLeaderEpoch, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from minikafka.errors import ErrorCode
from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from minikafka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


class EpochQuestion(NamedTuple):
    """Where does ``epoch`` end in the log of the leader of ``current_leader_epoch``?"""

    epoch: int
    current_leader_epoch: int


class TimeQuestion(NamedTuple):
    """Which is the first offset at or after ``timestamp`` (ms; -1 latest, -2 earliest)?"""

    timestamp: int
    current_leader_epoch: int = NO_EPOCH


class Answer(NamedTuple):
    """What a leader says of one partition; offset and epoch are -1 when there is none.

    ``found`` is where the largest epoch up to the one asked for ends, or the record at or after the time.
    """

    error: ErrorCode
    found: OffsetAndEpoch


def epoch_request(replica_id: int, questions: Mapping[TopicPartition, EpochQuestion]) -> OffsetForLeaderEpochRequest:
    """All questions in one request."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for tp, (epoch, leader_epoch) in questions.items():
        topic = topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic))
        topic.partitions.append(
            OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=leader_epoch, leader_epoch=epoch)
        )
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=list(topics.values()))


def epoch_answers(response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, Answer]]:
    """Every partition's answer."""
    for topic in response.topics:
        for data in topic.partitions:
            found = OffsetAndEpoch(data.end_offset, data.leader_epoch)
            yield TopicPartition(topic.topic, data.partition), Answer(ErrorCode.of(data.error_code), found)


def offsets_request(replica_id: int, questions: Mapping[TopicPartition, TimeQuestion]) -> ListOffsetsRequest:
    """All questions in one request."""
    topics: dict[str, ListOffsetsTopic] = {}
    for tp, (timestamp, leader_epoch) in questions.items():
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=leader_epoch, timestamp=timestamp)
        )
    return ListOffsetsRequest(replica_id=replica_id, topics=list(topics.values()))


def offset_answers(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, Answer]]:
    """Every partition's answer."""
    for topic in response.topics:
        for data in topic.partitions:
            found = OffsetAndEpoch(data.offset, data.leader_epoch)
            yield TopicPartition(topic.name, data.partition_index), Answer(ErrorCode.of(data.error_code), found)
