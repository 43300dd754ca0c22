"""OffsetFetch (key 9), versions 1-10: what groups committed. A group that is not known has no offsets, and no error.

Who requires stable offsets (version 7, KIP-447) gets UNSTABLE_OFFSET_COMMIT for a partition with a commit under way, or
in an open transaction. From version 10 on topics are named by their ids, in the request and in the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import MANY_ELEMENTS_MAX, RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.groups import GROUP_ROWS, why_not_here
from minikafka.broker.long_answers import ROWS_AT_ONCE, LongAnswers
from minikafka.errors import ErrorCode
from minikafka.groups import offset_fetch
from minikafka.metadata.image import MetadataImage
from minikafka.model import NO_OFFSET
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

AUTHORIZATION: Final = (
    ByHandler(
        "DESCRIBE on each group and on each topic",
        ((AclOperation.DESCRIBE, ResourceType.GROUP), (AclOperation.DESCRIBE, ResourceType.TOPIC)),
    ),
)

ELEMENTS_MAX: Final = MANY_ELEMENTS_MAX
FIRST_VERSION_WITH_IDS: Final = 10


async def handle(
    request: OffsetFetchRequest,
    context: RequestContext,
    groups: Groups,
    metadata: Metadata,
    long_answers: LongAnswers,
    authorizer: Authorizer,
) -> OffsetFetchResponse | None:
    """Ask each group's coordinator, in portions; others have their turn in between."""
    wanted = {group.group_id: group for group in offset_fetch.requested_groups(request, context.version)}
    by_id = context.version >= FIRST_VERSION_WITH_IDS
    found: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for group in wanted.values():
            fetched = OffsetFetchResponseGroup(group_id=group.group_id)
            if not authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
                fetched.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            topics: dict[tuple[str, UUID], OffsetFetchResponseTopics] = {}
            for portion in () if fetched.error_code else _portions(group):
                denied = _take_denied(portion, context, metadata.image, authorizer)
                if by_id:
                    some = _fetch_by_id(portion, groups, metadata.image, request.require_stable)
                else:
                    some = _fetch(portion, groups, request.require_stable)
                if some.error_code:
                    fetched, topics = some, {}
                    break
                if group.topics is None and authorizer.is_enabled:
                    some.topics = [
                        topic
                        for topic in some.topics
                        if authorizer.sees(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
                    ]
                rows = 0
                for topic in (*some.topics, *denied):
                    rows += len(topic.partitions)
                    if (known := topics.setdefault((topic.name, topic.topic_id), topic)) is not topic:
                        known.partitions += topic.partitions
                await answer.add(rows)
            fetched.topics += topics.values()
            if context.version < offset_fetch.GROUPS_FROM_VERSION:
                await answer.add(GROUP_ROWS)
                return offset_fetch.response_of_one(request, fetched, context.version)
            found.append(await answer.encoded(fetched, GROUP_ROWS))
        context.send_around(OffsetFetchResponse(), "groups", found)
    return None


def _portions(group: OffsetFetchRequestGroup) -> Iterator[OffsetFetchRequestGroup]:
    """What is asked of a group, in requests of about a thousand partitions; one that asks for all is left as it is."""
    if group.topics is None:
        yield group
        return
    portion, rows = _portion_of(group), 0
    for topic in group.topics:
        for start in range(0, max(1, len(topic.partition_indexes)), ROWS_AT_ONCE):
            if rows >= ROWS_AT_ONCE:
                yield portion
                portion, rows = _portion_of(group), 0
            indexes = topic.partition_indexes[start : start + ROWS_AT_ONCE]
            some = OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=indexes)
            assert portion.topics is not None
            portion.topics.append(some)
            rows += 1 + len(indexes)
    yield portion


def _portion_of(group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=[]
    )


def _fetch(group: OffsetFetchRequestGroup, groups: Groups, require_stable: bool) -> OffsetFetchResponseGroup:
    shard = groups.shard_of(group.group_id)
    if shard is None:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=why_not_here(group.group_id))
    return shard.coordinator.fetch_offsets(group, require_stable=require_stable)


def _fetch_by_id(
    group: OffsetFetchRequestGroup, groups: Groups, image: MetadataImage, require_stable: bool
) -> OffsetFetchResponseGroup:
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        known = []
        for topic in group.topics:
            named = image.topic_by_id(topic.topic_id)
            if named is None:
                unknown.append(_failed(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                topic.name = named.name
                known.append(topic)
        group.topics = known
    answer = _fetch(group, groups, require_stable)
    for found in answer.topics:
        if (named := image.topic(found.name)) is not None:
            found.topic_id = named.topic_id
    if not answer.error_code:
        answer.topics += unknown
    return answer


def _take_denied(
    group: OffsetFetchRequestGroup, context: RequestContext, image: MetadataImage, authorizer: Authorizer
) -> list[OffsetFetchResponseTopics]:
    """Take the topics out of the request that whoever asks may not describe; their refusals."""
    denied, allowed = [], []
    for topic in group.topics or ():
        found = None if topic.name else image.topic_by_id(topic.topic_id)
        name = topic.name if found is None else found.name
        if not name or authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            allowed.append(topic)
        else:
            denied.append(_failed(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    if denied:
        group.topics = allowed
    return denied


def _failed(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=error)
            for index in topic.partition_indexes
        ],
    )
