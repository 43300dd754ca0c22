"""The work of tasks: read a range of offsets, and write files, one per day, below a staging directory.

A task reads like the source's tasks, and writes in the same process: rows stay in Arrow, and do not pass through Java.
A repeated task writes files of other names; the files that the driver hears of count.

Memory is bounded: rows wait until they fill a row group, :data:`PENDING_BYTES_MAX` in all, and at most
:data:`OPEN_FILES_MAX` files are open, for any dates.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from minikafka.model import TopicPartition
from minikafka.spark.columns.schema import HEADERS_TYPE
from minikafka.spark.options import AssignedPartitions, ClientSettings, Edge, SourceOptions
from minikafka.spark.pipelines.archive.layout import DAYS_MAX, DAYS_MIN, DataFile, date_of
from minikafka.spark.pipelines.archive.manifest import Staged
from minikafka.spark.pipelines.archive.planning import TARGET_BYTES, Part
from minikafka.spark.source.ranges import OffsetRange
from minikafka.spark.source.reading import read_range

FOOTER: Final = b"minikafka"

SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""Of a data file. The topic and the date are in its path, as Hive's readers know them."""

ROW_GROUP_BYTES: Final = 16 << 20
PENDING_BYTES_MAX: Final = 64 << 20
OPEN_FILES_MAX: Final = 64
_ROWS_PER_BATCH: Final = 10_000
_NO_LIMIT: Final = 1 << 62
_DAY_US: Final = 86_400_000_000
_STATISTICS: Final = ["key", "partition", "offset", "timestamp", "timestampType"]  # no use for values


class Written(NamedTuple):
    """The result of a task, for the driver."""

    files: list[Staged]
    parts: list[Part]


def archive_range(range_: OffsetRange, client: ClientSettings, directory: Path) -> Written:
    """Write the records of a range. Raises DataLossError if some are gone."""
    topics = AssignedPartitions((range_.tp,))
    options = SourceOptions(client, topics, Edge.EARLIEST, fail_on_data_loss=True, include_headers=True)
    writer = FilesWriter(directory)
    for batch in read_range(range_, options):
        writer.write(batch)
    return writer.close()


@dataclass(slots=True)
class _OpenFile:
    path: Path
    writer: Any
    first_offset: int
    last_offset: int
    rows: int = 0
    pending: list[pa.RecordBatch] = field(default_factory=list)
    pending_bytes: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.last_offset = batch["offset"][-1].as_py()
        self.rows += batch.num_rows
        self.pending.append(batch)
        self.pending_bytes += batch.nbytes

    def flush(self) -> None:
        """One row group."""
        if self.pending:
            self.writer.write_table(pa.Table.from_batches(self.pending), row_group_size=self.rows)
            self.pending, self.pending_bytes = [], 0

    def close(self, topic: str, partition: int, date: str) -> DataFile:
        """Complete the file with its footer, and make it survive a loss of power."""
        self.flush()
        about = DataFile(topic, date, partition, self.first_offset, self.last_offset, self.rows, 0)
        self.writer.add_key_value_metadata({FOOTER: json.dumps(about._asdict()).encode()})
        self.writer.close()
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
            return about._replace(size_bytes=os.fstat(file.fileno()).st_size)


class FilesWriter:
    """Writes batches into the files of their rows. Offsets of a partition must ascend."""

    def __init__(self, directory: Path, *, target_bytes: int = TARGET_BYTES) -> None:
        self._directory = directory
        self._target_bytes = target_bytes
        self._open: dict[tuple[str, int, int], _OpenFile] = {}  # the most recently written one is last
        self._done: list[Staged] = []
        self._seen: dict[TopicPartition, tuple[int, int]] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Rows with the columns of the source."""
        for topic, rows in split(batch, "topic"):
            for partition, of_partition in split(rows, "partition"):
                self._see(TopicPartition(topic, partition), of_partition["offset"])
                for day, of_day in _by_day(of_partition):
                    self._add((topic, partition, day), of_day)

    def close(self) -> Written:
        """Complete all files."""
        for key in list(self._open):
            self._finish(key)
        return Written(self._done, [Part(tp, first, last) for tp, (first, last) in self._seen.items()])

    def _see(self, tp: TopicPartition, offsets: Any) -> None:
        numbers = offsets.to_numpy()
        first, before = self._seen.get(tp, (int(numbers[0]), -1))
        assert before < numbers[0], f"{tp}: offset {numbers[0]} came after {before}"
        assert (np.diff(numbers) > 0).all(), f"{tp}: offsets behind {numbers[0]} do not ascend"
        self._seen[tp] = first, int(numbers[-1])

    def _add(self, key: tuple[str, int, int], batch: pa.RecordBatch) -> None:
        rows = pa.RecordBatch.from_arrays([batch[name] for name in SCHEMA.names], names=SCHEMA.names).cast(SCHEMA)
        file = self._open.pop(key, None) or self._opened(rows["offset"][0].as_py())
        self._open[key] = file
        file.add(rows)
        if file.pending_bytes >= ROW_GROUP_BYTES:
            file.flush()
            if file.path.stat().st_size >= self._target_bytes:
                self._finish(key)
        elif sum(each.pending_bytes for each in self._open.values()) > PENDING_BYTES_MAX:
            max(self._open.values(), key=lambda each: each.pending_bytes).flush()

    def _opened(self, first_offset: int) -> _OpenFile:
        while len(self._open) >= OPEN_FILES_MAX:
            self._finish(next(iter(self._open)))
        path = self._directory / f"{uuid4().hex}.part"
        writer = parquet.ParquetWriter(
            path, SCHEMA, compression="zstd", use_dictionary=["key"], write_statistics=_STATISTICS
        )
        return _OpenFile(path, writer, first_offset, first_offset)

    def _finish(self, key: tuple[str, int, int]) -> None:
        topic, partition, day = key
        file = self._open.pop(key)
        done = file.close(topic, partition, date_of(day))
        self._done.append(Staged(done, f"{self._directory.name}/{file.path.name}"))


def split(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """The rows of each value of a column, in their order; as a rule there is one."""
    values = pc.unique(batch[column])
    for value in values:
        yield value.as_py(), batch if len(values) == 1 else batch.filter(pc.equal(batch[column], value))


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each UTC day, in their order, by the number of days since 1970."""
    days = np.floor_divide(batch["timestamp"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy(), _DAY_US)
    days = np.clip(days, DAYS_MIN, DAYS_MAX)
    if len(days) and (days == days[0]).all():
        yield int(days[0]), batch
        return
    order = np.argsort(days, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(days[order])) + 1):
        yield int(days[rows[0]]), batch.take(pa.array(rows))


def merge(lake: Path, paths: Sequence[str], topic: str, directory: Path) -> Staged:
    """Put files of one partition and day together, in the order of their offsets.

    Row groups are read one by one: in a batch across them there would be no bound to what large values take.
    """
    writer = FilesWriter(directory, target_bytes=_NO_LIMIT)
    for path in paths:
        with parquet.ParquetFile(lake / path) as file:
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(_ROWS_PER_BATCH, row_groups=[group]):
                    writer.write(batch.append_column("topic", pa.repeat(pa.scalar(topic), batch.num_rows)))
    (staged,) = writer.close().files
    return staged
