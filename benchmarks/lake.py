"""A lake: how long commits take in a large one, how fast it is read and written.

Reading is compared with plain Parquet of the same files, in one session and in turns; the best round of each counts.
Reads of two lengths tell what a read costs at its start from what each row costs. What opens the lake, or finds the
schema of the files, is part of the read.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from benchmarks.clusters import create_topic, running_cluster
from benchmarks.machine import cpu_seconds_of_all
from benchmarks.report import Figure, Run, Target, percentile
from benchmarks.spark_jobs import PARTITIONS, fill, in_turns, seconds_to_noop
from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive import Lake, archive, read_lake
from minikafka.spark.pipelines.archive.lake import create
from minikafka.spark.pipelines.archive.writing import SCHEMA, DataFile, FilesWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUMMARY = "a lake: commits beside 10,000 files, reading against plain Parquet, archiving"
TOPIC: Final = "orders"
FILES: Final = 10_000
COMMITS: Final = 150
ROWS: Final = 300_000
ROWS_TO_READ: Final = (300_000, 1_500_000)  # half a second, and several
SIZE: Final = 1024
ROUNDS: Final = 10
LAKE_TO_PARQUET: Final = Target(">=", 0.95)
_HERE: Final = TopicPartition(TOPIC, 0)
_ROWS_AT_ONCE: Final = 10_000


def run(run: Run) -> list[Figure]:
    """The three, one after the other."""
    from minikafka.spark import start_session

    with tempfile.TemporaryDirectory(prefix="minikafka-lake-") as directory:
        seconds = _commits(run, f"{directory}/large")
        figures = [
            Figure(f"commits beside {FILES:,} files, median", percentile(seconds, 0.5) * 1000, "ms", Target("<", 100)),
            Figure("the same, 99 %: with a checkpoint of the table", percentile(seconds, 0.99) * 1000, "ms"),
        ]
        spark = start_session("benchmark")
        try:
            for rows in ROWS_TO_READ:
                with tempfile.TemporaryDirectory(dir=directory) as lake:
                    figures += _reading(run, spark, lake, rows // 4 if run.quick else rows)
            figures += _archiving(run, spark, Path(directory))
        finally:
            spark.stop()
    return figures


def _commits(run: Run, lake: str) -> list[float]:
    """Each has one small file."""
    names = (f"topic={TOPIC}/date=1970-01-01/{number:05d}.parquet" for number in range(FILES))
    files = [DataFile(name, TOPIC, "1970-01-01", 0, number, number, 1, 1000) for number, name in enumerate(names)]
    create(lake, "cluster", {TOPIC: "id"}, {_HERE: OffsetAndEpoch(FILES, NO_EPOCH)}, files)
    table, seconds = Lake.open(lake), []
    for offset in range(FILES, FILES + run.times(COMMITS)):
        writer = FilesWriter(lake, _HERE)
        writer.write(_rows(0, offset, 1))
        written = writer.close().files
        began = time.monotonic()
        table.append({_HERE: OffsetAndEpoch(offset + 1, NO_EPOCH)}, written)
        seconds.append(time.monotonic() - began)
    return seconds


def _reading(run: Run, spark: SparkSession, directory: str, rows: int) -> list[Figure]:
    """Values of random bytes, so that no format finds them easy."""
    lake = f"{directory}/lake"
    table = Lake.opened(lake, "cluster", {TOPIC: "id"})
    for partition in range(PARTITIONS):
        tp = TopicPartition(TOPIC, partition)
        writer = FilesWriter(lake, tp)
        for offset in range(0, rows // PARTITIONS, _ROWS_AT_ONCE):
            writer.write(_rows(partition, offset, _ROWS_AT_ONCE))
        end = OffsetAndEpoch(rows // PARTITIONS, NO_EPOCH)
        table.append({tp: end}, writer.close().files)
    frames = {"lake": lambda: read_lake(spark, lake, [TOPIC]), "parquet": lambda: spark.read.parquet(lake)}
    cpu_s: dict[str, list[float]] = {name: [] for name in frames}

    def job(name: str) -> float:
        began, used = time.monotonic(), cpu_seconds_of_all()
        seconds_to_noop(frames[name]())
        cpu_s[name].append(cpu_seconds_of_all() - used)
        return time.monotonic() - began

    seconds = in_turns(run, run.times(ROUNDS), {name: partial(job, name) for name in frames})
    cpu = {name: percentile(each, 0.5) for name, each in cpu_s.items()}
    what = f"{rows:,} rows of a lake"
    return [
        Figure(
            f"{what}, read, to plain Parquet of its files", seconds["parquet"] / seconds["lake"], "", LAKE_TO_PARQUET
        ),
        Figure("the same in CPU time, by the median", cpu["parquet"] / cpu["lake"], "", LAKE_TO_PARQUET),
        Figure(f"{what}, read", rows / seconds["lake"] / 1000, "k rows/s"),
    ]


def _archiving(run: Run, spark: SparkSession, directory: Path) -> list[Figure]:
    rows = ROWS // 4 if run.quick else ROWS
    with running_cluster() as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS, copies=1)
        fill(cluster, TOPIC, SIZE, rows)

        def job(where: SparkSession | None) -> float:
            with tempfile.TemporaryDirectory(dir=directory) as lake:
                began = time.monotonic()
                done = archive(where, topics=[TOPIC], to=f"{lake}/lake", bootstrap_servers=cluster.bootstrap_servers)
                assert done.new_records == rows
                return time.monotonic() - began

        seconds = in_turns(run, run.times(ROUNDS // 2), {"processes": partial(job, None), "spark": partial(job, spark)})
    return [
        Figure("archived by two processes, which start, too", rows / seconds["processes"] / 1000, "k rows/s"),
        Figure("archived by Spark", rows / seconds["spark"] / 1000, "k rows/s"),
    ]


def _rows(partition: int, first: int, count: int) -> pa.RecordBatch:
    values = np.random.default_rng(first).bytes(count * SIZE)
    offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * SIZE)
    columns = {
        "key": pa.nulls(count, pa.binary()),
        "value": pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(values)]),
        "topic": pa.repeat(pa.scalar(TOPIC), count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestamp": pa.array(range(first, first + count), pa.timestamp("us", "UTC")),
        "timestampType": pa.repeat(pa.scalar(0, pa.int32()), count),
        "headers": pa.nulls(count, SCHEMA.field("headers").type),
    }
    return pa.RecordBatch.from_pydict(columns)
