"""The work of a task: place the rows of its Arrow batches, encode them by partition, and wait until all are stored.

Memory is bounded: one Arrow batch at a time, and the writer waits for acknowledgements when its buffer is full.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from minikafka.model import Compression
from minikafka.spark.cluster import cluster_of
from minikafka.spark.columns.encode import EncodedBatch, encode
from minikafka.spark.sink.columns import RowsOfTopics, rows_of
from minikafka.spark.sink.origin import Origin
from minikafka.spark.sink.placing import Placing, grouped, taken
from minikafka.spark.sink.sizes import Sizes

if TYPE_CHECKING:
    from minikafka.spark.cluster import BatchWriter, Cluster
    from minikafka.spark.options import SinkOptions


@dataclass
class Written(WriterCommitMessage):
    """The result of a task, for the driver."""

    rows: int
    bytes: int


def write_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions, origin: Origin | None) -> Written:
    """Write all rows and return once every in-sync replica has them.

    Raises KafkaError if a row cannot be written. Others may be written, and are written again when the task is
    repeated.
    """
    cluster = cluster_of(options.client)
    with cluster.writer() as writer:
        task = _Task(options, origin, cluster, writer)
        for batch in batches:
            task.write(batch)
        writer.flush()
    return Written(task.rows, task.bytes)


@dataclass(slots=True)
class _Task:
    options: SinkOptions
    origin: Origin | None
    cluster: Cluster
    writer: BatchWriter
    rows: int = 0
    bytes: int = 0
    topics: dict[str, tuple[Placing, Sizes]] = field(default_factory=dict)
    rng: random.Random = field(default_factory=random.Random)

    def write(self, batch: pa.RecordBatch) -> None:
        """Send the rows of one Arrow batch, without waiting for acknowledgements."""
        if not batch.num_rows:
            return
        rows = rows_of(batch, self.options.topic, keeps_timestamps=self.options.keeps_timestamps)
        if self.origin is not None:
            rows = rows._replace(headers=self.origin.add_to(rows.headers, self.rows, batch.num_rows))
        bytes_per_row = max(batch.nbytes / batch.num_rows, 1)
        now_ms = int(time.time() * 1000)
        for topic, part in _by_topic(rows, self.options.topic):
            self._write_to(topic, part, bytes_per_row, now_ms)
        self.rows += batch.num_rows

    def _write_to(self, topic: str, rows: RowsOfTopics, bytes_per_row: float, now_ms: int) -> None:
        placing, sizes = self._topic(topic)
        times_ms = now_ms if rows.timestamp is None else _milliseconds(rows.timestamp, now_ms)
        encoded_rows = placed(rows, times_ms, placing, sizes, bytes_per_row, self.options.compression)
        for partition, encoded in encoded_rows:
            self.bytes += len(encoded.data)
            self.writer.send(topic, partition, encoded)

    def _topic(self, topic: str) -> tuple[Placing, Sizes]:
        if topic not in self.topics:
            placing = Placing(topic, self.writer.partition_count(topic), self.rng, self.options.partition_advice)
            self.topics[topic] = placing, Sizes.of(self.cluster, topic, self.options.batch_bytes)
        return self.topics[topic]


def placed(
    rows: RowsOfTopics,
    timestamps_ms: int | npt.NDArray[np.int64],
    placing: Placing,
    sizes: Sizes,
    bytes_per_row: float,
    compression: Compression,
) -> Iterator[tuple[int, EncodedBatch]]:
    """Rows for one topic as batches, each with its partition. Raises KafkaError for a row that cannot be written."""
    rows_per_turn = max(int(sizes.wanted / bytes_per_row), 1)
    for partition, chosen in placing.place(rows.key, rows.partition, len(rows.value), rows_per_turn):
        key, value, headers = (taken(column, chosen) for column in (rows.key, rows.value, rows.headers))
        times = timestamps_ms if isinstance(timestamps_ms, int) or chosen is None else timestamps_ms[chosen]
        for encoded in encode(key, value, headers, times, max_batch_bytes=sizes.wanted, compression=compression):
            sizes.check(encoded)
            yield partition, encoded


def _milliseconds(timestamps: Any, now_ms: int) -> npt.NDArray[np.int64]:
    """The present time for rows without a timestamp."""
    microseconds = timestamps.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(now_ms * 1000)
    times_ms: npt.NDArray[np.int64] = np.floor_divide(microseconds.to_numpy(zero_copy_only=False), 1000)
    return times_ms


def _by_topic(rows: RowsOfTopics, topic: str | None) -> Iterator[tuple[str, RowsOfTopics]]:
    """The rows of each topic, in their order."""
    if topic is not None:
        yield topic, rows
        return
    named = pc.dictionary_encode(rows.topic)
    for code, chosen in grouped(named.indices.to_numpy().astype("int64")):
        part: list[Any] = [taken(column, chosen) for column in (rows.value, rows.key, rows.headers, rows.partition)]
        yield named.dictionary[code].as_py(), RowsOfTopics(*part)
