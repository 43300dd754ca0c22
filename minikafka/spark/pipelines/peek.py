"""What the driver asks a cluster before Spark's work begins: is the topic there, how long is it, what is in it?

The functions block, and may be called where an event loop runs (as in a notebook). They raise KafkaError.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from minikafka.client import Admin, Consumer, ConsumerRecord
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition

_READ_S: Final = 10.0
_POLL_MS: Final = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicPeek:
    """A topic when it was looked at: its cluster, and of each partition the first offset and the one past the last."""

    cluster_id: str
    topic: str
    ends: dict[TopicPartition, tuple[int, int]]

    @property
    def offsets(self) -> int:
        """How many offsets there are: records, and gaps where some were compacted away."""
        return sum(end - first for first, end in self.ends.values())


def peek(bootstrap_servers: str, topic: str) -> TopicPeek:
    """The topic's extent. UNKNOWN_TOPIC_OR_PARTITION, in words that say how to create it, when there is none."""
    return _run(_peek(bootstrap_servers, topic))


def read_few(bootstrap_servers: str, ranges: Mapping[TopicPartition, tuple[int, int]]) -> list[ConsumerRecord]:
    """The records in some ranges of offsets [first, end), which must be small, as far as they come within 10 s."""
    return _run(_read(bootstrap_servers, ranges))


def newest(found: TopicPeek, count: int) -> dict[TopicPartition, tuple[int, int]]:
    """The ranges of the newest offsets, about ``count`` in all, evenly from the partitions that have any."""
    filled = {tp: ends for tp, ends in found.ends.items() if ends[0] < ends[1]}
    each = -(-count // max(len(filled), 1))
    return {tp: (max(first, end - each), end) for tp, (first, end) in filled.items()}


async def _peek(bootstrap_servers: str, topic: str) -> TopicPeek:
    async with Admin(bootstrap_servers) as admin:
        (view,) = await admin.describe_topics([topic])
        if view.error:
            hint = f"create it with: minikafka topic create {topic}"
            raise KafkaError(view.error, f"topic {topic!r} not found; {hint}")
        cluster_id = (await admin.describe_cluster()).cluster_id or ""
    partitions = [TopicPartition(topic, partition) for partition in sorted(view.partitions)]
    async with Consumer(bootstrap_servers) as consumer:
        first = await consumer.beginning_offsets(partitions)
        end = await consumer.end_offsets(partitions)
    return TopicPeek(cluster_id, topic, {tp: (first[tp], end[tp]) for tp in partitions})


async def _read(bootstrap_servers: str, ranges: Mapping[TopicPartition, tuple[int, int]]) -> list[ConsumerRecord]:
    waiting = {tp: end for tp, (first, end) in ranges.items() if first < end}
    records: list[ConsumerRecord] = []
    if not waiting:
        return records
    async with Consumer(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(waiting)
        for tp in waiting:
            consumer.seek(tp, ranges[tp][0])
        deadline = time.monotonic() + _READ_S
        while waiting and time.monotonic() < deadline:
            for record in await consumer.poll(_POLL_MS):
                tp = TopicPartition(record.topic, record.partition)
                if record.offset < ranges[tp][1]:
                    records.append(record)
            for tp in [tp for tp, end in waiting.items() if await consumer.position(tp) >= end]:
                del waiting[tp]
                consumer.pause(tp)
    return records


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, in a thread of its own: the caller may be in an event loop."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(asyncio.run(coroutine))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="peek", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
