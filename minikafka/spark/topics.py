"""Questions to an admin client about topics: their partitions, their ids, changes of ids. Runs on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Final, TypeVar

from minikafka.client import Admin
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ZERO_TOPIC_ID, OffsetAndEpoch, TopicPartition

Question = TypeVar("Question")

BELIEVED_AFTER_S: Final = 1.0  # brokers learn of a new topic one after the other
LOOK_INTERVAL_S: Final = 0.1
UNANSWERED_S: Final = 1.0  # without an answer for so long: do the partitions still exist?


class TopicReplacedError(KafkaError):
    """A topic was deleted, and perhaps created again: ``found_id`` is the id of the new topic, or empty."""

    def __init__(self, topic: str, wanted_id: str, found_id: str) -> None:
        how = f"deleted and created again (its id was {wanted_id} and is {found_id})" if found_id else "deleted"
        super().__init__(ErrorCode.INCONSISTENT_TOPIC_ID, f"topic {topic!r} was {how}")


async def partitions_of(admin: Admin, topics: Collection[str]) -> list[TopicPartition]:
    """The partitions of these topics, in order. Raises UNKNOWN_TOPIC_OR_PARTITION for a missing topic."""
    views = await admin.describe_topics(topics)
    for topic in views:
        if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            near = get_close_matches(topic.name, [each.name for each in await admin.list_topics()], 1)
            create = f"create it first, with: minikafka topic create {topic.name}"
            hint = f"did you mean {near[0]}?" if near else create
            raise KafkaError(topic.error, f"topic {topic.name!r} not found; {hint}")
        if topic.error is not ErrorCode.NONE:
            raise KafkaError(topic.error, f"the cluster does not describe the topic {topic.name!r}")
    return [TopicPartition(topic.name, index) for topic in views for index in sorted(topic.partitions)]


async def topic_ids_of(admin: Admin, topics: Collection[str]) -> dict[str, str]:
    """The ids of these topics, without the missing ones. An unknown id is empty."""
    views = await admin.describe_topics(topics)
    there = (topic for topic in views if topic.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return {topic.name: "" if topic.topic_id == ZERO_TOPIC_ID else str(topic.topic_id) for topic in there}


async def find_replaced(admin: Admin, topic_ids: Mapping[str, str]) -> dict[str, str]:
    """The topics whose id changed, with their new ids; an empty id for a deleted topic.

    Brokers learn of a change one after the other. Only a change that persists for a second counts.
    """
    clock_s = asyncio.get_running_loop().time
    believed_s = clock_s() + BELIEVED_AFTER_S
    while True:
        found = await topic_ids_of(admin, sorted(topic_ids))
        others = dict.fromkeys(topic_ids.keys() - found.keys(), "")
        others |= {topic: now for topic, now in found.items() if now not in ("", topic_ids[topic])}
        if not others or clock_s() >= believed_s:
            return others
        await asyncio.sleep(LOOK_INTERVAL_S)


async def unless_deleted(
    admin: Admin,
    questions: Mapping[TopicPartition, Question],
    ask: Callable[[Mapping[TopicPartition, Question]], Awaitable[dict[TopicPartition, OffsetAndEpoch]]],
) -> dict[TopicPartition, OffsetAndEpoch]:
    """Ask the leaders. Without an answer for a second, raises UNKNOWN_TOPIC_OR_PARTITION for a deleted partition."""
    try:
        async with asyncio.timeout(UNANSWERED_S) as limit:
            return await ask(questions)
    except TimeoutError:
        if not limit.expired():
            raise
    found = await partitions_of(admin, sorted({tp.topic for tp in questions}))
    for tp in sorted(questions.keys() - set(found)):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {tp} not found")
    return await ask(questions)
