"""OffsetCommit (key 8), versions 2-10: answered when the offsets are replicated.

Offsets of partitions that do not exist are refused one by one; the rest goes to the coordinator as one write, or as
several where there are thousands. From version 10 on a topic is named by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from copy import copy
from functools import partial
from typing import Final

from minikafka.broker.authorization import Each, Whole
from minikafka.broker.context import MANY_ELEMENTS_MAX, RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.committed_topics import Refused, add_refusals, take_unknown
from minikafka.broker.handlers.groups import Coordinators, why_not_here
from minikafka.groups.answers import commit_answer
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

AUTHORIZATION: Final = (
    Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),
    Each("topics", AclOperation.READ, ResourceType.TOPIC),
)

ELEMENTS_MAX: Final = MANY_ELEMENTS_MAX
FIRST_VERSION_WITH_IDS: Final = 10
PARTITIONS_AT_ONCE: Final = 2_000
"""They take 12 ms."""

Answer = Callable[[OffsetCommitResponse], None]


def handle(
    request: OffsetCommitRequest, context: RequestContext, coordinators: Coordinators, metadata: Metadata
) -> Coroutine[None, None, None] | None:
    """Hand what names existing partitions to the coordinator, and put the rest into its answer."""
    by_id = context.version >= FIRST_VERSION_WITH_IDS
    unknown = [_refusal(each) for each in take_unknown(request, metadata.image, by_id=by_id)]

    def answer(response: OffsetCommitResponse) -> None:
        add_refusals(response.topics, unknown)
        context.send(response)

    begin = partial(_begin, context.version, coordinators)
    if sum(len(topic.partitions) for topic in request.topics) > PARTITIONS_AT_ONCE:
        return _begin_portions(request, context, begin, answer)
    begin(request, answer)
    return None


def _begin(version: int, coordinators: Coordinators, request: OffsetCommitRequest, answer: Answer) -> None:
    shard = coordinators.groups.shard_of(request.group_id)
    if shard is None:
        answer(commit_answer(request, why_not_here(request.group_id)))
        return
    now_ms = coordinators.clock.monotonic_ms()
    shard.step(shard.coordinator.offset_commit(request, version, answer, now_ms))


async def _begin_portions(
    request: OffsetCommitRequest,
    context: RequestContext,
    begin: Callable[[OffsetCommitRequest, Answer], None],
    answer: Answer,
) -> None:
    """Each has a turn of its own. All are answered with the last."""
    portions = list(_portions(request))
    whole, left = OffsetCommitResponse(), len(portions)

    def note(response: OffsetCommitResponse) -> None:
        nonlocal left
        left -= 1
        add_refusals(whole.topics, response.topics)
        if not left:
            answer(whole)

    for portion in portions:
        await context.connection.wait_for_turn()
        begin(portion, note)


def _portions(request: OffsetCommitRequest) -> Iterator[OffsetCommitRequest]:
    portion, left = copy(request), PARTITIONS_AT_ONCE
    portion.topics = []
    for topic in request.topics:
        for start in range(0, len(topic.partitions), PARTITIONS_AT_ONCE):
            if left <= 0:
                yield portion
                portion, left = copy(request), PARTITIONS_AT_ONCE
                portion.topics = []
            some = topic.partitions[start : start + PARTITIONS_AT_ONCE]
            portion.topics.append(OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=some))
            left -= len(some)
    yield portion


def _refusal(refused: Refused) -> OffsetCommitResponseTopic:
    partitions = [
        OffsetCommitResponsePartition(partition_index=index, error_code=refused.error) for index in refused.partitions
    ]
    return OffsetCommitResponseTopic(name=refused.name, topic_id=refused.topic_id, partitions=partitions)
