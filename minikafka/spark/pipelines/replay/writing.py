"""The output of tasks: rows with headers, marks and timestamps, by an idempotent producer, source by source.

It is a write-only data source, :class:`ReplayedTopic`. Unlike the sink it keeps timestamps, and no task is repeated.

The mark of a record is the header ``minikafka.replay`` with the text ``REPLAY/POSITION/SOURCE``. REPLAY is the id of
the replay, SOURCE a partition (``orders-3@ID`` with the topic's id) or a file, POSITION the offset or row in it. A
record that was replayed before keeps its older marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from minikafka.errors import KafkaError
from minikafka.model import Compression
from minikafka.spark.brokers import Brokers
from minikafka.spark.options import SinkOptions
from minikafka.spark.sink.writing import write_rows

FORMAT: Final = "minikafka-replayed-topic"
MARK: Final = "minikafka.replay"
REQUEST_BYTES_MAX: Final = 64 * 1024 * 1024  # of waiting rows; the topic bounds the size of a record


class ReplayedTopic(DataSource):
    """``df.write.format(FORMAT)`` with the options of :class:`Brokers`, ``topic`` and ``compression``."""

    @classmethod
    def name(cls) -> str:
        """The name for Spark."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> ReplayWriter:
        """Called on the driver."""
        brokers = Brokers.of_options(self.options)
        client = brokers.settings(client_id="minikafka-replay", max_request_bytes=REQUEST_BYTES_MAX)
        compression = Compression[self.options["compression"].upper()]
        advice = "give it as many, or say --by-key"
        return ReplayWriter(
            SinkOptions(
                client,
                self.options["topic"],
                compression=compression,
                keeps_timestamps=True,
                partition_advice=advice,
            )
        )


@dataclass
class Failed(WriterCommitMessage):
    """The reason why a task has not written all rows."""

    why: str


@dataclass
class ReplayWriter(DataSourceArrowWriter):
    """Made on the driver, and sent to the tasks."""

    options: SinkOptions

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task. Returns once every in-sync replica has them, or with the reason of a failure: after
        an exception Spark would repeat the task, and write its rows twice."""
        task = TaskContext.get()
        if task is not None and task.attemptNumber() > 0:
            raise RuntimeError("the replay lost a task; run the same command again to resume")
        try:
            return write_rows(iterator, self.options, origin=None)
        except KafkaError as error:
            return Failed(str(error))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every task has ended. Raises RuntimeError if one has not written all of its rows."""
        for message in messages:
            if isinstance(message, Failed):
                raise RuntimeError(message.why)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task was lost. Written records stay, and have their marks."""


def replay_id(*parts: str) -> str:
    """The id of a replay: the same each time for the same sources."""
    return sha256("\0".join(parts).encode()).hexdigest()[:12]


def with_marks(rows: DataFrame, replay: str) -> DataFrame:
    """Rows to write, with their mark behind the headers that they have."""
    text = fn.concat_ws("/", fn.lit(replay), "position", "source")
    mark = fn.struct(fn.lit(MARK).alias("key"), text.cast("binary").alias("value"))
    return rows.withColumn("headers", fn.array_append(fn.coalesce("headers", fn.array()), mark)).drop(
        "source", "position"
    )


def marked(records: DataFrame, replay: str) -> DataFrame:
    """``(source, position)`` of a replay's records in a DataFrame with headers."""

    of_replay = fn.concat(fn.lit(replay), fn.lit("/"))
    marks = records.select(fn.explode("headers").alias("header")).filter(fn.col("header.key") == MARK)
    texts = marks.select(fn.col("header.value").cast("string").alias("mark")).filter(
        fn.col("mark").startswith(of_replay)
    )
    parts = fn.split("mark", "/", 3)
    return texts.select(parts[2].alias("source"), parts[1].cast("bigint").alias("position")).distinct()
