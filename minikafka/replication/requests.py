"""A fetcher's other requests, OffsetForLeaderEpoch (version 3 or later) and ListOffsets, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from minikafka.errors import ErrorCode
from minikafka.model import OffsetAndEpoch, TopicPartition
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

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2


class EpochQuestion(NamedTuple):
    """Where does ``asked_epoch`` end in the log of the leader of ``leader_epoch``?"""

    topic_partition: TopicPartition
    leader_epoch: int
    asked_epoch: int


class EpochAnswer(NamedTuple):
    """The largest epoch <= the asked one and its end, or an error."""

    topic_partition: TopicPartition
    error: ErrorCode
    end: OffsetAndEpoch


class OffsetAnswer(NamedTuple):
    """One end of the leader's log, or an error."""

    topic_partition: TopicPartition
    error: ErrorCode
    offset: int


def epoch_request(replica_id: int, questions: Iterable[EpochQuestion]) -> OffsetForLeaderEpochRequest:
    """All questions in one request."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for tp, leader_epoch, asked_epoch in questions:
        topic = topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=leader_epoch, leader_epoch=asked_epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=list(topics.values()))


def epoch_answers(response: OffsetForLeaderEpochResponse) -> Iterator[EpochAnswer]:
    """Every partition's answer."""
    for topic in response.topics:
        for data in topic.partitions:
            yield EpochAnswer(
                TopicPartition(topic.topic, data.partition),
                ErrorCode.of(data.error_code),
                OffsetAndEpoch(data.end_offset, data.leader_epoch),
            )


def list_offsets_request(
    replica_id: int, timestamp: int, partitions: Iterable[tuple[TopicPartition, int]]
) -> ListOffsetsRequest:
    """One end (by its special timestamp) of each (partition, current leader epoch)."""
    topics: dict[str, ListOffsetsTopic] = {}
    for tp, leader_epoch in partitions:
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=leader_epoch, timestamp=timestamp)
        )
    return ListOffsetsRequest(replica_id=replica_id, topics=list(topics.values()))


def offset_answers(response: ListOffsetsResponse) -> Iterator[OffsetAnswer]:
    """Every partition's answer."""
    for topic in response.topics:
        for data in topic.partitions:
            tp = TopicPartition(topic.name, data.partition_index)
            yield OffsetAnswer(tp, ErrorCode.of(data.error_code), data.offset)
