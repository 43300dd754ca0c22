"""Whether a group has committed all of a topic that nobody writes to any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.records import PARTITIONS
from minikafka.client import Admin
from minikafka.errors import KafkaError
from minikafka.model import LATEST, TopicPartition

_INTERVAL_S: Final = 0.2


async def left_uncommitted(cluster: Reached, topic: str, group: str, within_s: float) -> list[str]:
    """A sentence for each partition whose end the group does not commit in time, or the error of who asked."""
    deadline = time.monotonic() + within_s
    at_ends = {TopicPartition(topic, n): LATEST for n in range(PARTITIONS)}
    while True:
        try:
            async with Admin(cluster.servers, security=cluster.security) as admin:
                ends = {tp: end.offset for tp, end in (await admin.list_offsets(at_ends)).items()}
                committed = {tp: at.offset for tp, at in (await admin.group_offsets(group)).items()}
        except KafkaError as error:
            behind = [error.message]
        else:
            behind = behind_ends(ends, committed)
        if not behind or time.monotonic() > deadline:
            return behind
        await asyncio.sleep(_INTERVAL_S)


def behind_ends(ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]) -> list[str]:
    """A sentence for each partition whose end the group has not committed."""
    at = {tp: committed.get(tp, 0) for tp in ends}
    return [f"{tp} is committed up to {at[tp]:,} of {end:,}" for tp, end in sorted(ends.items()) if at[tp] < end]
