"""Requests about offsets: one request to one leader, or one round of all leaders.

Every function raises KafkaError when the whole request fails; a partition's answer may have an error of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.connections import Connections
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import (
    NO_EPOCH,
    NO_NODE,
    NO_OFFSET,
    UNDEFINED_OFFSET_AND_EPOCH,
    Isolation,
    OffsetAndEpoch,
    TopicPartition,
)
from minikafka.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from minikafka.wire.messages.list_offsets import ListOffsetsResponse
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from minikafka.wire.offset_questions import (
    Answer,
    EpochQuestion,
    TimeQuestion,
    epoch_answers,
    epoch_request,
    offset_answers,
    offsets_request,
)

Question = TypeVar("Question")

CONSUMER_REPLICA_ID: Final = -1
ANSWER_TIMEOUT_S: Final = 5.0


NO_ANSWER: Final = Answer(ErrorCode.UNKNOWN_SERVER_ERROR, UNDEFINED_OFFSET_AND_EPOCH)


def indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition indexes by topic, as in most requests."""
    grouped: dict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        grouped[tp.topic].append(tp.partition)
    return grouped


async def list_offsets(
    leader: BrokerConnection,
    questions: Mapping[TopicPartition, TimeQuestion],
    isolation: Isolation,
    *,
    timeout_s: float,
) -> dict[TopicPartition, Answer]:
    """Offsets by time, from the leader of all these partitions."""
    request = offsets_request(CONSUMER_REPLICA_ID, questions)
    request.isolation_level, request.timeout_ms = isolation, int(timeout_s * 1000)
    return dict(offset_answers(await leader.call(request, ListOffsetsResponse, timeout_s=timeout_s)))


async def epoch_ends(
    leader: BrokerConnection, questions: Mapping[TopicPartition, EpochQuestion], *, timeout_s: float
) -> dict[TopicPartition, Answer]:
    """End offsets of leader epochs, from the leader of all these partitions (rows E2, E3)."""
    request = epoch_request(CONSUMER_REPLICA_ID, questions)
    return dict(epoch_answers(await leader.call(request, OffsetForLeaderEpochResponse, timeout_s=timeout_s)))


async def delete_records(
    leader: BrokerConnection, offsets: Mapping[TopicPartition, int], *, timeout_s: float
) -> dict[TopicPartition, Answer]:
    """Low watermarks after the deletion, from the leader of all these partitions, which waits for its followers."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=offsets[TopicPartition(topic, index)])
                    for index in indexes
                ],
            )
            for topic, indexes in indexes_by_topic(offsets).items()
        ],
        timeout_ms=int(timeout_s * 1000),
    )
    response = await leader.call(request, DeleteRecordsResponse, timeout_s=timeout_s + ANSWER_TIMEOUT_S)
    return {
        TopicPartition(topic.name, partition.partition_index): Answer(
            ErrorCode.of(partition.error_code), OffsetAndEpoch(partition.low_watermark, NO_EPOCH)
        )
        for topic in response.topics
        for partition in topic.partitions
    }


async def ask_leaders(
    connections: Connections,
    questions: Mapping[TopicPartition, Question],
    ask: Callable[[BrokerConnection, Mapping[TopicPartition, Question]], Awaitable[Mapping[TopicPartition, Answer]]],
    found: dict[TopicPartition, OffsetAndEpoch],
    doing: str,
) -> None:
    """Ask the leaders of partitions that are not in ``found`` yet, and add their answers to it.

    Raises KafkaError when some answers are still missing; repeat the call while the error is retriable.
    """
    missing = [tp for tp in questions if tp not in found]
    cluster = connections.cluster
    if any(cluster.leader_of(tp) == NO_NODE for tp in missing):
        cluster = await connections.refresh(sorted({tp.topic for tp in missing}))
    by_leader: dict[int, dict[TopicPartition, Question]] = defaultdict(dict)
    for tp in missing:
        by_leader[cluster.leader_of(tp)][tp] = questions[tp]
    failure: KafkaError | None = None
    for tp in by_leader.pop(NO_NODE, ()):
        failure = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp} does not exist, or has no leader now")
    for leader, led in by_leader.items():
        try:
            answers = await ask(await connections.to_node(leader), led)
        except KafkaError as error:
            failure = error
            continue
        for tp in led:
            error_code, answer = answers.get(tp, NO_ANSWER)
            if error_code is ErrorCode.NONE:
                found[tp] = answer
            else:
                failure = KafkaError(error_code, f"{doing} of {tp} failed")
    if failure is not None:
        await connections.refresh(sorted({tp.topic for tp in missing}))
        raise failure


def commit_topics(offsets: Mapping[TopicPartition, OffsetAndEpoch]) -> list[OffsetCommitRequestTopic]:
    """The body of an OffsetCommit."""
    return [
        OffsetCommitRequestTopic(
            name=topic, partitions=[_commit(index, offsets[TopicPartition(topic, index)]) for index in indexes]
        )
        for topic, indexes in indexes_by_topic(offsets).items()
    ]


def _commit(index: int, offset: OffsetAndEpoch) -> OffsetCommitRequestPartition:
    assert offset.offset > NO_OFFSET
    return OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset.offset, committed_leader_epoch=offset.epoch
    )
