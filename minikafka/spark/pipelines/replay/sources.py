"""Sources of a replay, as rows to write: ``source, position, key, value, headers, timestamp, partition``.

Each file is read by one task: the position of a row is its number, which only a reader of the whole file knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from minikafka.spark.columns.schema import HEADERS_TYPE
from minikafka.spark.pipelines.parts import rows_of
from minikafka.spark.pipelines.replay.parsing import Record, read_records
from minikafka.spark.pipelines.replay.writing import replay_id
from minikafka.spark.pipelines.running import PipelineError

LAKE: Final = "lake"
RECORDS: Final = "records"
KINDS: Final = ("csv", "json", RECORDS)
ROWS_PER_BATCH: Final = 10_000
_ROWS: Final = pa.schema(
    [
        ("source", pa.string()),
        ("position", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("partition", pa.int32()),
    ]
)
_KIND_OF_ENDING: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to write. ``name`` is the same each time for the same source. ``partitions``: their original ones."""

    name: str
    kind: str
    rows: DataFrame
    sources: int
    partitions: int | None


def open_source(
    spark: SparkSession,
    path: str | Path,
    *,
    kind: str | None = None,
    topics: Sequence[str] = (),
    key: str | None = None,
    value: str | None = None,
) -> Source:
    """A lake, a file, or a directory of files. Raises PipelineError for any other path."""
    where = Path(path).expanduser().resolve()
    is_lake = "://" in str(path) or any((where / name).is_dir() for name in ("_delta_log", "_minikafka"))
    if kind not in (None, LAKE, *KINDS):
        raise PipelineError(f"--as must be {', '.join((LAKE, *KINDS))}, not {kind}")
    if kind == LAKE or (kind is None and is_lake):
        if key is not None or value is not None:
            raise PipelineError("a lake's records have their keys and values; --key and --value are for CSV and JSON")
        return _of_lake(spark, path, topics)
    if is_lake:
        raise PipelineError(f"{where} is a lake; replay it without --as")
    if topics:
        raise PipelineError(f"{where} is not a lake; --topic needs a lake")
    return _of_files(spark, where, kind, key, value)


def _of_lake(spark: SparkSession, directory: str | Path, topics: Sequence[str]) -> Source:
    from minikafka.spark.pipelines.archive import Lake, read_lake

    lake = Lake.open(directory)
    records = read_lake(spark, directory, topics)
    ends = [where for where in lake.ends if not topics or where.topic in topics]
    ids = fn.create_map(*(fn.lit(word) for topic_and_id in lake.topic_ids.items() for word in topic_and_id))
    rows = records.select(
        fn.concat("topic", fn.lit("-"), "partition", fn.lit("@"), ids[fn.col("topic")]).alias("source"),
        fn.col("offset").alias("position"),
        "key",
        "value",
        "headers",
        "timestamp",
        "partition",
    )
    name = replay_id(LAKE, lake.cluster_id)
    count = max((where.partition for where in ends), default=-1) + 1
    return Source(name, LAKE, rows, len(ends), count)


def _of_files(spark: SparkSession, where: Path, kind: str | None, key: str | None, value: str | None) -> Source:
    files = _files(where, kind)
    kinds = {kind or _kind(path) or "" for path in files}
    if len(kinds) > 1:
        raise PipelineError(f"{where} holds files of several kinds ({', '.join(sorted(kinds))}); choose one with --as")
    (chosen,) = kinds
    if not chosen:
        raise PipelineError(f"unknown format: {where}; choose one with --as csv, json or records")
    if chosen == RECORDS and (key is not None or value is not None):
        raise PipelineError(
            "lines of `minikafka consume --json` have their keys and values; leave out --key and --value"
        )
    base = where if where.is_dir() else where.parent
    named = [(str(path.relative_to(base)), str(path)) for path in files]
    read = partial(read_file, kind=chosen, key=key, value=value)
    rows = rows_of(spark, "minikafka-replayed-files", named, read, from_arrow_schema(_ROWS))
    name = replay_id(chosen, str(where), f"key={key}", f"value={value}")
    return Source(name, chosen, rows, len(files), None)


def read_file(named: tuple[str, str], kind: str, key: str | None, value: str | None) -> Iterator[pa.RecordBatch]:
    """The rows of a file (its name as a source, and its path). Raises ValueError, naming the line, for a malformed
    one."""
    source, path = named
    records, first = read_records(path, kind, key, value), 0
    while batch := list(islice(records, ROWS_PER_BATCH)):
        yield _as_arrow(batch, source, first)
        first += len(batch)


def _as_arrow(records: list[Record], source: str, first: int) -> pa.RecordBatch:
    keys, values, headers, times_ms, partitions = zip(*records, strict=True)
    columns = [
        pa.repeat(pa.scalar(source), len(records)),
        pa.array(range(first, first + len(records))),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(headers, HEADERS_TYPE),
        pa.array(times_ms, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        pa.array(partitions, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ROWS)


def _files(where: Path, kind: str | None) -> list[Path]:
    if where.is_file():
        return [where]
    if not where.is_dir():
        raise PipelineError(f"{where} not found")
    files = [path for path in sorted(where.rglob("*")) if path.is_file() and not _is_hidden(path.relative_to(where))]
    if kind is None:
        files = [path for path in files if _kind(path)]
    if not files:
        raise PipelineError(
            f"{where} is no lake and holds no {' or '.join(_KIND_OF_ENDING)} files; "
            f"name a file, and say --as csv, json or records"
        )
    return files


def _is_hidden(path: Path) -> bool:
    return any(part[0] in "._" for part in path.parts)


def _kind(path: Path) -> str | None:
    """Of files with that ending."""
    return _KIND_OF_ENDING.get(Path(path.name.removesuffix(".gz")).suffix)
