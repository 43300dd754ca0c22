"""The driver's questions to a cluster before Spark's work begins: topics, their offsets, some records.

All of them see committed records only, as a read_committed consumer, unless told otherwise: what a transaction that is
open has written comes later, and what one that was aborted has written never.

The functions block. They may be called in a thread with a running event loop, as in a notebook. They raise KafkaError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from minikafka.model import EARLIEST, LATEST, NO_EPOCH, Isolation, OffsetAndEpoch, TopicPartition
from minikafka.spark.brokers import Brokers
from minikafka.spark.cluster import cluster_of
from minikafka.spark.options import AssignedPartitions, Edge, SourceOptions
from minikafka.spark.source.ranges import OffsetRange
from minikafka.spark.source.reading import read_range

_EDGES: Final = (1, 100, 10_000)  # the last offset of a transaction is its marker's


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


def look_at(brokers: Brokers, *names: str, isolation: Isolation = Isolation.READ_COMMITTED) -> Topics:
    """Look topics up; the ends are before the first open transaction.

    Raises UNKNOWN_TOPIC_OR_PARTITION for a missing one, with the command that creates it.
    """
    cluster = cluster_of(brokers.settings(isolation_level=isolation))
    ids, partitions = cluster.topic_ids(names), cluster.partitions(names)  # with ids from before, a change is noticed
    first, end = cluster.offsets(partitions, EARLIEST), cluster.offsets(partitions, LATEST)
    return Topics(
        cluster.cluster_id(),
        ids,
        {tp: Extent(first[tp].offset, end[tp].offset) for tp in partitions},
        {tp: end[tp].epoch for tp in partitions},
    )


def read_few(brokers: Brokers, ranges: Mapping[TopicPartition, Extent]) -> list[pa.RecordBatch]:
    """The records in some small ranges of offsets, with the columns of the source, as far as they are still there."""
    client = brokers.settings(isolation_level=Isolation.READ_COMMITTED)
    batches: list[pa.RecordBatch] = []
    for tp, (start, end) in ranges.items():
        options = SourceOptions(client, AssignedPartitions((tp,)), Edge.EARLIEST, fail_on_data_loss=False)
        if start < end:
            batches += read_range(
                OffsetRange(tp, OffsetAndEpoch(start, NO_EPOCH), OffsetAndEpoch(end, NO_EPOCH)), options
            )
    return batches


def at_edges(brokers: Brokers, found: Topics) -> list[pa.RecordBatch]:
    """Records at the beginning and at the end of each partition: the first and the last, and some more where there are
    gaps. An end of more than 10,000 offsets without a record has none."""
    batches: list[pa.RecordBatch] = []
    for tp, extent in found.extent.items():
        for at_end in (False, True):
            edges = (_edge(extent, width, at_end=at_end) for width in _EDGES)
            batches += next(filter(None, (read_few(brokers, {tp: edge}) for edge in edges)), ())
    return batches


def _edge(extent: Extent, width: int, *, at_end: bool) -> Extent:
    start, end = extent
    return Extent(max(start, end - width), end) if at_end else Extent(start, min(start + width, end))


def newest(found: Topics, count: int) -> dict[TopicPartition, Extent]:
    """The ranges of the newest offsets, about ``count`` in all, evenly from partitions with records."""
    filled = {tp: extent for tp, extent in found.extent.items() if extent.start < extent.end}
    each = -(-count // max(len(filled), 1))
    return {tp: Extent(max(start, end - each), end) for tp, (start, end) in filled.items()}
