"""The driver's questions to a cluster before Spark's work begins: topics, their offsets, some records.

All of them see committed records only, as a read_committed consumer, unless told otherwise: what a transaction that is
open has written comes later, and what one that was aborted has written never.

The functions block. They may be called in a thread with a running event loop, as in a notebook. They raise KafkaError.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from minikafka.client import Admin, Consumer, ConsumerRecord
from minikafka.client.cluster import TopicView
from minikafka.errors import KafkaError
from minikafka.model import Isolation, TopicPartition
from minikafka.spark.cluster import EARLIEST, LATEST, ClientSettings, cluster_of
from minikafka.spark.loop import LoopThread

_TIMEOUT_S: Final = 60.0
_READ_S: Final = 10.0
_POLL_MS: Final = 200
_EDGES: Final = (1, 100, 10_000)  # the last offset of a transaction is its marker's

T = TypeVar("T")


class Extent(NamedTuple):
    """Offsets from ``start`` up to, not including, ``end``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics at the time of the look-up, with the first and the end offset of each partition."""

    cluster_id: str
    ids: dict[str, str]
    extent: dict[TopicPartition, Extent]
    epochs: dict[TopicPartition, int]
    """Of the ends: a log that is truncated while it is read is noticed by them."""

    @property
    def offsets(self) -> int:
        """Number of offsets: records and gaps."""
        return sum(end - start for start, end in self.extent.values())

    def partition_count(self, topic: str) -> int:
        """Number of a topic's partitions."""
        return sum(tp.topic == topic for tp in self.extent)


def look_at(bootstrap_servers: str, *names: str, isolation: Isolation = Isolation.READ_COMMITTED) -> Topics:
    """Look topics up; the ends are before the first open transaction.

    Raises UNKNOWN_TOPIC_OR_PARTITION for a missing one, with the command that creates it.
    """
    cluster_id, views = _on_loop(_described(bootstrap_servers, names), "looking at the topics")
    partitions = [TopicPartition(view.name, partition) for view in views for partition in sorted(view.partitions)]
    cluster = cluster_of(ClientSettings(bootstrap_servers, isolation_level=isolation))
    first, end = cluster.offsets(partitions, EARLIEST), cluster.offsets(partitions, LATEST)
    return Topics(
        cluster_id,
        {view.name: str(view.topic_id) for view in views},
        {tp: Extent(first[tp].offset, end[tp].offset) for tp in partitions},
        {tp: end[tp].epoch for tp in partitions},
    )


def read_few(bootstrap_servers: str, ranges: Mapping[TopicPartition, Extent]) -> list[ConsumerRecord]:
    """The records in some small ranges of offsets, as far as they arrive within 10 s."""
    return _on_loop(_read(bootstrap_servers, ranges), "reading a few records")


def at_edges(bootstrap_servers: str, found: Topics) -> list[ConsumerRecord]:
    """Records at the beginning and at the end of each partition: the first and the last, and some more where there are
    gaps. An end of more than 10,000 offsets without a record has none."""
    records: list[ConsumerRecord] = []
    for at_end in (False, True):
        missing = {tp: extent for tp, extent in found.extent.items() if extent.start < extent.end}
        for width in _EDGES:
            if missing:
                ranges = {tp: _edge(extent, width, at_end=at_end) for tp, extent in missing.items()}
                records += (few := read_few(bootstrap_servers, ranges))
                for record in few:
                    missing.pop(TopicPartition(record.topic, record.partition), None)
    return records


def _edge(extent: Extent, width: int, *, at_end: bool) -> Extent:
    start, end = extent
    return Extent(max(start, end - width), end) if at_end else Extent(start, min(start + width, end))


def newest(found: Topics, count: int) -> dict[TopicPartition, Extent]:
    """The ranges of the newest offsets, about ``count`` in all, evenly from partitions with records."""
    filled = {tp: extent for tp, extent in found.extent.items() if extent.start < extent.end}
    each = -(-count // max(len(filled), 1))
    return {tp: Extent(max(start, end - each), end) for tp, (start, end) in filled.items()}


async def _described(bootstrap_servers: str, names: Sequence[str]) -> tuple[str, list[TopicView]]:
    async with Admin(bootstrap_servers) as admin:
        views = await admin.describe_topics(names)
        for view in views:
            if view.error:
                hint = f"create it with: minikafka topic create {view.name}"
                raise KafkaError(view.error, f"topic {view.name!r} not found; {hint}")
        return (await admin.describe_cluster()).cluster_id or "", views


async def _read(bootstrap_servers: str, ranges: Mapping[TopicPartition, Extent]) -> list[ConsumerRecord]:
    waiting = {tp: end for tp, (start, end) in ranges.items() if start < end}
    records: list[ConsumerRecord] = []
    if not waiting:
        return records
    isolation = Isolation.READ_COMMITTED
    async with Consumer(bootstrap_servers, auto_offset_reset="earliest", isolation_level=isolation) as consumer:
        consumer.assign(waiting)
        for tp in waiting:
            consumer.seek(tp, ranges[tp].start)
        deadline = time.monotonic() + _READ_S
        while waiting and time.monotonic() < deadline:
            for record in await consumer.poll(_POLL_MS):
                tp = TopicPartition(record.topic, record.partition)
                if record.offset < ranges[tp].end:
                    records.append(record)
            for tp in [tp for tp, end in waiting.items() if await consumer.position(tp) >= end]:
                del waiting[tp]
                consumer.pause(tp)
    return records


def _on_loop(coroutine: Coroutine[Any, Any, T], doing: str) -> T:
    with closing(LoopThread("topics")) as loop:
        return loop.call(coroutine, timeout_s=_TIMEOUT_S, doing=doing)
