"""Files of CSV or JSON lines as rows to write, in the order of the files: the input of tasks.

It is a data source whose partitions are files: the position of a row is its number, which only a reader of the whole
file knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from minikafka.spark.columns.schema import HEADERS_TYPE
from minikafka.spark.pipelines.replay.parsing import Record, read_records

FORMAT: Final = "minikafka-replayed-files"
RECORDS: Final = "records"
KINDS: Final = ("csv", "json", RECORDS)
SCHEMA: Final = (
    "source STRING, position BIGINT, key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "timestamp TIMESTAMP, partition INT"
)
_ARROW: Final = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("partition", pa.int32()),
    ]
)
ROWS_PER_BATCH: Final = 10_000


@dataclass
class FilePart(InputPartition):
    """One file, with its name as a source."""

    path: str
    source: str


class ReplayedFiles(DataSource):
    """``spark.read.format(FORMAT)`` with the options ``files`` (JSON: names as sources -> paths), ``kind``, ``key`` and
    ``value``."""

    @classmethod
    def name(cls) -> str:
        """The name for Spark."""
        return FORMAT

    def schema(self) -> str:
        """Schema of the rows."""
        return SCHEMA

    def reader(self, schema: StructType) -> FilesReader:
        """Called on the driver."""
        return FilesReader(dict(self.options))


class FilesReader(DataSourceReader):
    """Made on the driver, and sent to the tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._files: dict[str, str] = json.loads(options["files"])
        self._kind = options["kind"]
        self._key = options.get("key")
        self._value = options.get("value")

    def partitions(self) -> list[InputPartition]:
        """A task for each file."""
        return [FilePart(path, source) for source, path in self._files.items()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a file. Raises ValueError, naming the line, for a malformed one."""
        assert isinstance(partition, FilePart)
        records = read_records(partition.path, self._kind, self._key, self._value)
        first = 0
        while batch := list(islice(records, ROWS_PER_BATCH)):
            yield _as_arrow(batch, partition.source, first)
            first += len(batch)


def _as_arrow(records: list[Record], source: str, first: int) -> pa.RecordBatch:
    timestamps = [None if record.timestamp_ms is None else record.timestamp_ms * 1000 for record in records]
    columns = [
        pa.repeat(pa.scalar(source), len(records)),
        pa.array(range(first, first + len(records)), pa.int64()),
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array([_headers(record) for record in records], HEADERS_TYPE),
        pa.array(timestamps, pa.timestamp("us", "UTC")),
        pa.array([record.partition for record in records], pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def _headers(record: Record) -> list[dict[str, Any]] | None:
    return None if record.headers is None else [{"key": name, "value": value} for name, value in record.headers]
