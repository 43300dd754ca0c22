"""The work of tasks: read a range of offsets, and write files, one per partition and day.

A task reads like the source's tasks, and writes in the same process: rows stay in Arrow, and do not pass through Java.
Nobody sees its files before a commit names them. A repeated task writes files of other names.

Memory is bounded: rows wait until they fill a row group, :data:`PENDING_BYTES_MAX` in all, and at most
:data:`OPEN_FILES_MAX` files are open, for any dates.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs, parquet

from minikafka.model import TopicPartition
from minikafka.spark.columns.schema import HEADERS_TYPE
from minikafka.spark.options import AssignedPartitions, ClientSettings, Edge, SourceOptions
from minikafka.spark.pipelines.archive.places import is_local
from minikafka.spark.pipelines.archive.planning import TARGET_BYTES, Part
from minikafka.spark.source.ranges import OffsetRange
from minikafka.spark.source.reading import read_range

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
"""Of a data file. The topic and the date (the UTC day of the timestamp) are in its path and in the table's log."""

ROW_GROUP_BYTES: Final = 16 << 20
PENDING_BYTES_MAX: Final = 64 << 20
OPEN_FILES_MAX: Final = 64
UNSEEN: Final = "does not see the lake"
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = date(1970, 1, 1)
DAYS_MIN: Final = (date.min - _EPOCH).days
DAYS_MAX: Final = (date.max - _EPOCH).days
_STATISTICS: Final = ["key", "partition", "offset", "timestamp", "timestampType"]  # no use for values


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of records, of one partition and one day, in the order of their offsets. ``path`` is below the lake."""

    path: str
    topic: str
    date: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int
    size_bytes: int

    def statistics(self) -> dict[str, Any]:
        """For readers, who skip files by them."""
        first = {"partition": self.partition, "offset": self.first_offset}
        last = {"partition": self.partition, "offset": self.last_offset}
        return {"numRecords": self.rows, "minValues": first, "maxValues": last, "nullCount": dict.fromkeys(first, 0)}


class Written(NamedTuple):
    """The result of a task, for the driver: its files, and what it saw of its range, if anything."""

    files: list[DataFile]
    parts: list[Part]


def archive_range(range_: OffsetRange, client: ClientSettings, lake: str) -> Written:
    """Write the records of a range. Raises DataLossError if some are gone, FileNotFoundError where no lake is seen."""
    topics = AssignedPartitions((range_.tp,))
    options = SourceOptions(client, topics, Edge.EARLIEST, fail_on_data_loss=True, include_headers=True)
    writer = FilesWriter(lake, range_.tp)
    for batch in read_range(range_, options):
        writer.write(batch)
    return writer.close()


def files_of(lake: str) -> fs.FileSystem:
    """The file system of a lake's files. Raises FileNotFoundError for a directory that this machine does not have."""
    if not is_local(lake):
        return fs.PyFileSystem(DeltaStorageHandler(lake))
    if not os.path.isdir(os.path.join(lake, "_delta_log")):
        raise FileNotFoundError(
            f"{socket.gethostname()} {UNSEEN} {lake}: it must be mounted there, too, or in an object store"
        )
    return fs.SubTreeFileSystem(lake, fs.LocalFileSystem())


@dataclass(slots=True)
class _OpenFile:
    path: str
    sink: Any
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

    def close(self, tp: TopicPartition, day: str) -> DataFile:
        """Complete the file."""
        self.flush()
        self.writer.close()
        size_bytes = self.sink.tell()
        self.sink.close()
        first, last = self.first_offset, self.last_offset
        return DataFile(self.path, tp.topic, day, tp.partition, first, last, self.rows, size_bytes)


class FilesWriter:
    """Writes batches of a partition into the files of their days. Offsets must ascend."""

    def __init__(self, lake: str, tp: TopicPartition, *, target_bytes: int = TARGET_BYTES) -> None:
        self._lake = lake
        self._tp = tp
        self._files = files_of(lake)
        self._target_bytes = target_bytes
        self._open: dict[int, _OpenFile] = {}  # by day; the most recently written one is last
        self._done: list[DataFile] = []
        self._parts: list[Part] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Rows with the columns of the source."""
        self._see(batch["offset"].to_numpy())
        for day, rows in _by_day(batch):
            self._add(day, rows)

    def close(self) -> Written:
        """Complete all files."""
        for day in list(self._open):
            self._finish(day)
        return Written(self._done, self._parts)

    def _see(self, offsets: npt.NDArray[np.int64]) -> None:
        seen = Part(self._tp, int(offsets[0]), int(offsets[-1]))
        assert (np.diff(offsets) > 0).all(), f"{self._tp}: offsets behind {offsets[0]} do not ascend"
        if self._parts:
            (before,) = self._parts
            assert before.last_offset < offsets[0], f"{self._tp}: offset {offsets[0]} came after {before.last_offset}"
            seen = seen._replace(first_offset=before.first_offset)
        self._parts = [seen]

    def _add(self, day: int, batch: pa.RecordBatch) -> None:
        rows = pa.RecordBatch.from_arrays([batch[name] for name in SCHEMA.names], names=SCHEMA.names).cast(SCHEMA)
        file = self._open.pop(day, None) or self._opened(day, rows["offset"][0].as_py())
        self._open[day] = file
        file.add(rows)
        if file.pending_bytes >= ROW_GROUP_BYTES:
            file.flush()
            if file.sink.tell() >= self._target_bytes:
                self._finish(day)
        elif sum(each.pending_bytes for each in self._open.values()) > PENDING_BYTES_MAX:
            max(self._open.values(), key=lambda each: each.pending_bytes).flush()

    def _opened(self, day: int, first_offset: int) -> _OpenFile:
        while len(self._open) >= OPEN_FILES_MAX:
            self._finish(next(iter(self._open)))
        directory = f"topic={self._tp.topic}/date={date_of(day)}"
        self._files.create_dir(directory)
        path = f"{directory}/{self._tp.partition:05d}-{first_offset:020d}-{uuid4().hex}.parquet"
        sink = self._files.open_output_stream(path)
        writer = parquet.ParquetWriter(
            sink, SCHEMA, compression="zstd", use_dictionary=["key"], write_statistics=_STATISTICS
        )
        return _OpenFile(path, sink, writer, first_offset, first_offset)

    def _finish(self, day: int) -> None:
        done = self._open.pop(day).close(self._tp, date_of(day))
        self._done.append(done)
        if is_local(self._lake):
            parents = [os.path.dirname(done.path), f"topic={done.topic}", ""]
            sync(*(os.path.join(self._lake, path) for path in (done.path, *parents)))


def sync(*paths: str) -> None:
    """Make these files or directories survive a loss of power."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def date_of(days: int) -> str:
    """The date so many days after 1970-01-01, in ISO 8601. Timestamps have any value: days before the year 1 or after
    9999 count as the first or last one."""
    return (_EPOCH + timedelta(days=min(max(days, DAYS_MIN), DAYS_MAX))).isoformat()


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
