"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete.

Two kinds of clients may commit:

- A member of the current generation. Between joining and syncing the answer is REBALANCE_IN_PROGRESS, and the member
  commits again in the new generation.
- Any client without a generation (-1, no member id), while the group has no members: simple consumers and tools.

An offset can be fetched once its record is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final
from uuid import UUID

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode
from minikafka.groups.answers import commit_answer, commit_error, group_write_error
from minikafka.groups.group import Group, GroupState
from minikafka.groups.membership import member_error
from minikafka.groups.records import OffsetCommitKey, OffsetCommitRecord, OffsetCommitValue
from minikafka.groups.shard import Shard
from minikafka.groups.subscriptions import subscribed_topics
from minikafka.model import NO_OFFSET, NO_TIMESTAMP, ZERO_TOPIC_ID, TopicPartition
from minikafka.wire.consumer_protocol import PROTOCOL_TYPE
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
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

GROUP_ID_NOT_FOUND_FROM_VERSION = 9

LATEST_TIMESTAMP: Final = (1 << 63) - 1


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
    records = _commit_records(shard, request, response)
    if records:
        shard.write(group, records, partial(_offsets_written, shard, token, response))
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
    if generation_id < 0 and group.is_in(GroupState.EMPTY):
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID  # only members commit
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(GroupState.COMPLETING_REBALANCE) else ErrorCode.NONE


def _commit_records(
    shard: Shard, request: OffsetCommitRequest, response: OffsetCommitResponse
) -> list[OffsetCommitRecord]:
    """The records to write. An offset that cannot be written gets its error in `response`."""
    timestamp = shard.wall_clock_ms()
    retention_ms = request.retention_time_ms
    expires = min(timestamp + retention_ms, LATEST_TIMESTAMP) if retention_ms >= 0 else NO_TIMESTAMP
    records = []
    for topic, answered in zip(request.topics, response.topics, strict=True):
        topic_id = shard.topic_id_of(topic.name) or ZERO_TOPIC_ID
        for partition, answer in zip(topic.partitions, answered.partitions, strict=True):
            if len((partition.committed_metadata or "").encode()) > shard.settings.offset_metadata_max_bytes:
                answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=partition.partition_index)
            records.append(OffsetCommitRecord(key, _commit_value(partition, topic_id, timestamp, expires)))
    return records


def _commit_value(
    partition: OffsetCommitRequestPartition, topic_id: UUID, timestamp: int, expires: int
) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=timestamp,
        expire_timestamp=expires,
        topic_id=topic_id if expires == NO_TIMESTAMP else ZERO_TOPIC_ID,  # no version of the record has both
    )


def _offsets_written(shard: Shard, token: Token, response: OffsetCommitResponse, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        for topic in response.topics:
            for partition in topic.partitions:
                if not partition.error_code:
                    partition.error_code = commit_error(error)
    shard.respond(token, response)


# fetching


def fetch_offsets(shard: Shard, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """The requested committed offsets, or all for null topics. An absent one is -1 without an error.

    Offsets of a deleted topic are left out, even before their tombstones are written.
    """
    group = shard.groups.get(request.group_id)
    if request.topics is None:
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=_all_offsets(shard, group))
    return OffsetFetchResponseGroup(
        group_id=request.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[_fetched(shard, group, topic.name, partition) for partition in topic.partition_indexes],
            )
            for topic in request.topics
        ],
    )


def _all_offsets(shard: Shard, group: Group | None) -> list[OffsetFetchResponseTopics]:
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for (name, partition), committed in group.offsets.items() if group is not None else ():
        if not shard.is_of_deleted_topic(name, committed.value):
            topic = topics.setdefault(name, OffsetFetchResponseTopics(name=name))
            topic.partitions.append(_fetched(shard, group, name, partition))
    return list(topics.values())


def _fetched(shard: Shard, group: Group | None, topic: str, partition: int) -> OffsetFetchResponsePartitions:
    committed = group.offsets.get(TopicPartition(topic, partition)) if group is not None else None
    if committed is None or shard.is_of_deleted_topic(topic, committed.value):
        return OffsetFetchResponsePartitions(partition_index=partition, committed_offset=NO_OFFSET)
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.value.offset,
        committed_leader_epoch=committed.value.leader_epoch,
        metadata=committed.value.metadata,
    )


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
