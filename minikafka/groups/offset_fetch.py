"""OffsetFetch in its two shapes: versions 1-7 ask for one group, from 8 for several (KIP-709).

Internally only the newer shape exists: :func:`requested_groups` converts a request of any version to it, and
:func:`response_of_one` converts an answer back to an old version.
"""

from __future__ import annotations

from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

GROUPS_FROM_VERSION = 8
TOP_LEVEL_ERROR_FROM_VERSION = 2


def requested_groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The requested groups; null topics mean all offsets of a group."""
    if version >= GROUPS_FROM_VERSION:
        return request.groups
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics)]


def response_of_one(request: OffsetFetchRequest, group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    """The response of versions 1-7 with the answer for its group."""
    if group.error_code and version < TOP_LEVEL_ERROR_FROM_VERSION:
        return OffsetFetchResponse(topics=_errors_by_partition(request, group.error_code))
    return OffsetFetchResponse(topics=group.topics, error_code=group.error_code)


def _errors_by_partition(request: OffsetFetchRequest, error_code: int) -> list[OffsetFetchResponseTopics]:
    """Version 1 has errors per partition only."""
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=error_code)
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]
