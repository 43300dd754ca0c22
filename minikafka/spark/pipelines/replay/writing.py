"""The output of tasks: rows with headers, marks and timestamps, by an idempotent producer, source by source.

It is a write-only data source, :class:`ReplayedTopic`. Unlike the sink it keeps timestamps.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from minikafka.errors import KafkaError
from minikafka.model import Compression
from minikafka.spark.cluster import ClientSettings, cluster_of
from minikafka.spark.columns.schema import HEADERS_TYPE
from minikafka.spark.pipelines.replay.marks import add_marks
from minikafka.spark.sink.columns import RowsOfTopics
from minikafka.spark.sink.placing import Placing
from minikafka.spark.sink.sizes import Sizes
from minikafka.spark.sink.writing import placed

FORMAT: Final = "minikafka-replayed-topic"
BATCH_BYTES: Final = 256 * 1024
REQUEST_BYTES_MAX: Final = 64 * 1024 * 1024  # of waiting rows; the topic bounds the size of a record
_ADVICE: Final = "give it as many, or say --by-key"


class ReplayedTopic(DataSource):
    """``df.write.format(FORMAT)`` with the options ``servers``, ``topic``, ``replay`` and ``compression``."""

    @classmethod
    def name(cls) -> str:
        """The name for Spark."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> ReplayWriter:
        """Called on the driver."""
        settings = ClientSettings(
            bootstrap_servers=self.options["servers"],
            client_id="minikafka-replay",
            max_request_bytes=REQUEST_BYTES_MAX,
        )
        compression = Compression[self.options["compression"].upper()]
        return ReplayWriter(settings, self.options["topic"], self.options["replay"], compression)


@dataclass
class Failed(WriterCommitMessage):
    """The reason why a task has not written all rows."""

    why: str


@dataclass
class ReplayWriter(DataSourceArrowWriter):
    """Made on the driver, and sent to the tasks."""

    settings: ClientSettings
    topic: str
    replay: str
    compression: Compression

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task. Returns once every in-sync replica has them, or with the reason of a failure: after
        an
        exception Spark would repeat the task, and write its rows twice."""
        task = TaskContext.get()
        if task is not None and task.attemptNumber() > 0:
            raise RuntimeError("the replay lost a task; run the same command again to resume")
        try:
            self._write(iterator)
        except KafkaError as error:
            return Failed(str(error))
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every task has ended. Raises RuntimeError if one has not written all of its rows."""
        for message in messages:
            if isinstance(message, Failed):
                raise RuntimeError(message.why)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task was lost. Written records stay, and have their marks."""

    def _write(self, iterator: Iterator[pa.RecordBatch]) -> None:
        cluster = cluster_of(self.settings)
        placing = Placing(self.topic, len(cluster.partitions([self.topic])), random.Random(), _ADVICE)
        sizes = Sizes.of(cluster, self.topic, BATCH_BYTES)
        with cluster.writer() as writer:
            for batch in iterator:
                if not batch.num_rows:
                    continue
                bytes_per_row = max(batch.nbytes / batch.num_rows, 1)
                times_ms = _milliseconds(batch["timestamp"], int(time.time() * 1000))
                encoded_rows = placed(self._rows(batch), times_ms, placing, sizes, bytes_per_row, self.compression)
                for partition, encoded in encoded_rows:
                    writer.send(self.topic, partition, encoded)
            writer.flush()

    def _rows(self, batch: pa.RecordBatch) -> RowsOfTopics:
        headers = batch["headers"].cast(HEADERS_TYPE)
        if self.replay:
            headers = add_marks(headers, self.replay, batch["source"], batch["position"])
        return RowsOfTopics(batch["value"], batch["key"], headers, batch["partition"])


def _milliseconds(timestamps: Any, now_ms: int) -> Any:
    """The present time for rows without a timestamp."""
    microseconds = timestamps.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(now_ms * 1000)
    return np.floor_divide(microseconds.to_numpy(zero_copy_only=False), 1000)
