"""OffsetFetch in its two shapes: versions 1-7 ask for one group, from 8 for several (KIP-709).

Inside there is one shape, the newer: :func:`requested_groups` makes it of a request of any version, and
:func:`response` puts the groups' answers back into what the version can carry.
"""

from __future__ import annotations

from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

GROUPS_FROM_VERSION = 8
TOP_LEVEL_ERROR_FROM_VERSION = 2


def requested_groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The groups asked for, with null topics for all of a group's offsets."""
    if version >= GROUPS_FROM_VERSION:
        return request.groups
    topics = request.topics
    if topics is not None:
        renamed = [OffsetFetchRequestTopics(name=at.name, partition_indexes=at.partition_indexes) for at in topics]
        return [OffsetFetchRequestGroup(group_id=request.group_id, topics=renamed)]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=None)]


def response(request: OffsetFetchRequest, groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    """The response with the answers for :func:`requested_groups`."""
    if version >= GROUPS_FROM_VERSION:
        return OffsetFetchResponse(groups=groups)
    group = groups[0]
    if group.error_code and version < TOP_LEVEL_ERROR_FROM_VERSION:
        return OffsetFetchResponse(topics=_errors_by_partition(request, group.error_code))
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _errors_by_partition(request: OffsetFetchRequest, error_code: int) -> list[OffsetFetchResponseTopic]:
    """Version 1 has no other place for an error."""
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=error_code)
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]
