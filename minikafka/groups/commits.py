"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete.

Two kinds of clients may commit:

- A member of the current generation. Between joining and syncing the answer is REBALANCE_IN_PROGRESS, and the member
  commits again in the new generation.
- Any client without a generation (-1, no member id), while the group has no members: simple consumers and tools.

An offset can be fetched once its record is committed. Who asks for stable offsets (KIP-447) is told to wait while a
commit of the partition is under way, or in an open transaction (:mod:`minikafka.groups.transactional_offsets`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeGuard
from uuid import UUID

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode
from minikafka.groups.answers import commit_answer, commit_error, group_write_error
from minikafka.groups.consumer import offsets as consumer_offsets
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.group import Group, GroupState
from minikafka.groups.membership import member_error
from minikafka.groups.memory import GROUP_BYTES
from minikafka.groups.offsets import Room
from minikafka.groups.records import OffsetCommitKey, OffsetCommitRecord, OffsetCommitValue
from minikafka.groups.shard import Shard
from minikafka.groups.subscriptions import subscribed_topics
from minikafka.model import NO_OFFSET, NO_TIMESTAMP, ZERO_TOPIC_ID, TopicPartition
from minikafka.wire.consumer_protocol import PROTOCOL_TYPE
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from minikafka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

GROUP_ID_NOT_FOUND_FROM_VERSION = 9

LATEST_TIMESTAMP: Final = (1 << 63) - 1
DEFAULT_RETENTION: Final = -1

NO_ROOM: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""Clients try again, and keep their coordinator meanwhile. For COORDINATOR_NOT_AVAILABLE they look for another one, and
librdkafka sends no heartbeat then: its consumers were turned out of their groups."""

CommitRequest = OffsetCommitRequest | TxnOffsetCommitRequest
CommitResponse = OffsetCommitResponse | TxnOffsetCommitResponse
RequestTopic = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
ResponseTopic = OffsetCommitResponseTopic | TxnOffsetCommitResponseTopic
RequestPartition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
ResponsePartition = OffsetCommitResponsePartition | TxnOffsetCommitResponsePartition


def offset_commit(shard: Shard, request: OffsetCommitRequest, version: int, token: Token) -> None:
    """Write the offsets; the response waits until they are committed. The caller has checked that the topics exist."""
    error = _refusal(shard, request, version)
    if error is not ErrorCode.NONE:
        shard.respond(token, commit_answer(request, error))
        return
    group = shard.group_or_new(request.group_id)
    if request.member_id in group.members:
        member = group.members[request.member_id]
        shard.extend_session(group, member, member.session_timeout_ms)
    response = commit_answer(request, ErrorCode.NONE)
    stale = stale_partitions(group, request.member_id, request.generation_id_or_member_epoch)
    records = commit_records(shard, group, request, response, stale, request.retention_time_ms)
    if records:
        shard.write(group, records, partial(offsets_written, shard, token, response))
    else:
        shard.respond(token, response)
    shard.maybe_forget(group)


def _refusal(shard: Shard, request: OffsetCommitRequest, version: int) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    group = shard.groups.get(request.group_id)
    if group is None:
        if generation_id < 0:
            return ErrorCode.NONE
        known = version >= GROUP_ID_NOT_FOUND_FROM_VERSION
        return ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
    if group.consumer is not None and group.is_consumer:
        return consumer_offsets.commit_error(group.consumer, request.member_id, generation_id, version)
    if generation_id < 0 and group.is_in(GroupState.EMPTY):
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID  # only members commit
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if _knew(group.former, request.member_id):
        return consumer_offsets.commit_error(group.former, request.member_id, generation_id, version)
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(GroupState.COMPLETING_REBALANCE) else ErrorCode.NONE


class Stale(NamedTuple):
    """Of a commit, the partitions that its sender may not commit, and their error."""

    includes: Callable[[UUID, int], bool]
    error: ErrorCode


def stale_partitions(group: Group, member_id: str, epoch: int) -> Stale | None:
    """What a member of a consumer group has got after that epoch; None for any other client."""
    consumer = group.consumer if group.is_consumer else group.former
    if not _knew(consumer, member_id):
        return None
    is_stale = partial(consumer_offsets.is_stale, consumer, member_id, epoch)
    return Stale(is_stale, consumer_offsets.stale_error(consumer, member_id, epoch))


def _knew(consumer: ConsumerGroup | None, member_id: str) -> TypeGuard[ConsumerGroup]:
    return consumer is not None and member_id in consumer.subscriptions


def commit_records(
    shard: Shard,
    group: Group,
    request: CommitRequest,
    response: CommitResponse,
    stale: Stale | None,
    retention_ms: int = DEFAULT_RETENTION,
) -> list[OffsetCommitRecord]:
    """The records to write. An offset that cannot be written gets its error in `response`."""
    timestamp = shard.wall_clock_ms()
    expires = min(timestamp + retention_ms, LATEST_TIMESTAMP) if retention_ms >= 0 else NO_TIMESTAMP
    records = []
    is_transactional = isinstance(request, TxnOffsetCommitRequest)
    of_group = 0 if group.held_offsets_bytes else GROUP_BYTES + len(group.group_id)
    room = Room(shard.offsets_memory, group.offsets, is_transactional, of_group)
    topics: Iterable[RequestTopic] = request.topics
    answers: Iterable[ResponseTopic] = response.topics
    for topic, answered in zip(topics, answers, strict=True):
        topic_id = shard.topic_id_of(topic.name) or ZERO_TOPIC_ID
        partitions: Iterable[RequestPartition] = topic.partitions
        results: Iterable[ResponsePartition] = answered.partitions
        for partition, result in zip(partitions, results, strict=True):
            if len((partition.committed_metadata or "").encode()) > shard.settings.offset_metadata_max_bytes:
                result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            if stale is not None and stale.includes(topic_id, partition.partition_index):
                result.error_code = ErrorCode.ILLEGAL_GENERATION if is_transactional else stale.error
                continue
            key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=partition.partition_index)
            value = _commit_value(partition, topic_id, timestamp, expires)
            if room.has_place_for(TopicPartition(topic.name, partition.partition_index), value):
                records.append(OffsetCommitRecord(key, value))
            else:
                result.error_code = NO_ROOM
    return records


def _commit_value(
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    topic_id: UUID,
    timestamp: int,
    expires: int,
) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=timestamp,
        expire_timestamp=expires,
        topic_id=topic_id if expires == NO_TIMESTAMP else ZERO_TOPIC_ID,  # no version of the record has both
    )


def offsets_written(shard: Shard, token: Token, response: CommitResponse, error: ErrorCode) -> None:
    """The records of a commit are committed, or were not written: answer."""
    if error is not ErrorCode.NONE:
        for topic in response.topics:
            for partition in topic.partitions:
                if not partition.error_code:
                    partition.error_code = commit_error(error)
    shard.respond(token, response)


# fetching


def fetch_offsets(
    shard: Shard, request: OffsetFetchRequestGroup, *, require_stable: bool = False
) -> OffsetFetchResponseGroup:
    """The requested committed offsets, or all for null topics. An absent one is -1 without an error.

    Offsets of a deleted topic are left out, even before their tombstones are written. ``require_stable``: of a
    partition whose offset may be about to change, UNSTABLE_OFFSET_COMMIT is told instead.
    """
    group = shard.groups.get(request.group_id)
    if group is not None and group.consumer is not None and group.is_consumer:
        error = consumer_offsets.fetch_error(group.consumer, request)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
    if request.topics is None:
        topics = _all_offsets(shard, group, require_stable=require_stable)
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)
    return OffsetFetchResponseGroup(
        group_id=request.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _fetched(shard, group, TopicPartition(topic.name, partition), require_stable=require_stable)
                    for partition in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ],
    )


def _all_offsets(shard: Shard, group: Group | None, *, require_stable: bool) -> list[OffsetFetchResponseTopics]:
    if group is None:
        return []
    topics: dict[str, OffsetFetchResponseTopics] = {}
    unstable = [*group.pending.partitions, *group.offsets_in_flight] if require_stable else ()
    for at in dict.fromkeys([*group.offsets, *unstable]):
        found = _fetched(shard, group, at, require_stable=require_stable)
        if found.error_code or found.committed_offset != NO_OFFSET:
            topics.setdefault(at.topic, OffsetFetchResponseTopics(name=at.topic)).partitions.append(found)
    return list(topics.values())


def _fetched(
    shard: Shard, group: Group | None, at: TopicPartition, *, require_stable: bool
) -> OffsetFetchResponsePartitions:
    found = OffsetFetchResponsePartitions(partition_index=at.partition, committed_offset=NO_OFFSET)
    if group is None:
        return found
    committed = group.offsets.get(at)
    if require_stable and group.is_unstable(at):
        found.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    elif committed is not None and not shard.is_of_deleted_topic(at.topic, committed.value):
        found.committed_offset = committed.value.offset
        found.committed_leader_epoch = committed.value.leader_epoch
        found.metadata = committed.value.metadata
    return found


# deleting


def offset_delete(shard: Shard, request: OffsetDeleteRequest, token: Token) -> None:
    """Delete offsets; an offset of a topic that a member subscribes to is refused."""
    group = shard.groups.get(request.group_id)
    if group is None:
        shard.respond(token, OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
        return
    if group.members and group.protocol_type != PROTOCOL_TYPE:
        shard.respond(token, OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP))
        return
    response, doomed = _split_by_subscription(group, request)
    if doomed:
        shard.write(group, tombstones(group, doomed), partial(_offsets_deleted, shard, token, response))
    else:
        shard.respond(token, response)


def _split_by_subscription(
    group: Group, request: OffsetDeleteRequest
) -> tuple[OffsetDeleteResponse, list[TopicPartition]]:
    subscribed = subscribed_topics(group)
    response, doomed = OffsetDeleteResponse(), []
    for topic in request.topics:
        in_use = subscribed is None or topic.name in subscribed
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
        partitions = [partition.partition_index for partition in topic.partitions]
        answers = [OffsetDeleteResponsePartition(partition_index=index, error_code=error) for index in partitions]
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        doomed += [] if in_use else [TopicPartition(topic.name, index) for index in partitions]
    return response, doomed


def _offsets_deleted(shard: Shard, token: Token, response: OffsetDeleteResponse, error: ErrorCode) -> None:
    failed = OffsetDeleteResponse(error_code=group_write_error(error))
    shard.respond(token, response if error is ErrorCode.NONE else failed)


def tombstones(group: Group, partitions: Iterable[TopicPartition]) -> list[OffsetCommitRecord]:
    """The tombstones of these offsets of `group`."""
    return [
        OffsetCommitRecord(OffsetCommitKey(group=group.group_id, topic=topic, partition=partition), None)
        for topic, partition in partitions
    ]
