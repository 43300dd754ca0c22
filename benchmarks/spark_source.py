"""Topics read by Spark to noop, against uncompressed Parquet of the same rows and against Spark's own connector.

What a source in Python can reach at all is told by one that does nothing, in the same turns. All rows and all columns,
``local[2]``, two partitions; the brokers share the machine. The jobs take turns in one session, and the best round of
each counts, so that what else the machine does meanwhile disturbs the ratios little.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.clusters import create_topic, running_cluster
from benchmarks.report import Figure, Run, Target
from benchmarks.spark_jobs import PARTITIONS, SIZES, fill, in_turns, read, seconds_to_noop, session_with_connector
from benchmarks.spark_ready import ready_rows
from minikafka.chaos.local_cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUMMARY = "topics read by Spark, against Parquet and Spark's own connector"
ROUNDS: Final = 10


def run(run: Run) -> list[Figure]:
    """Large and small records."""
    figures: list[Figure] = []
    with session_with_connector(run) as (spark, has_connector), running_cluster() as cluster:
        for size, rows in SIZES.items():
            figures += _measure(run, spark, cluster, size, rows // 4 if run.quick else rows, has_connector)
    return figures


def _measure(
    run: Run, spark: SparkSession, cluster: LocalCluster, size: int, rows: int, has_connector: bool
) -> list[Figure]:
    topic = f"of-{size}"
    create_topic(cluster, topic, partitions=PARTITIONS, copies=1)
    fill(cluster, topic, size, rows)
    topics = {source: read(spark, cluster, source, topic) for source in ("minikafka", "kafka")[: 1 + has_connector]}
    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as directory:
        parquet = str(Path(directory) / "rows")
        topics["minikafka"].write.option("compression", "none").parquet(parquet)
        found = spark.read.parquet(parquet)
        assert found.count() == rows
        frames = topics | {"parquet": found, "ready": ready_rows(spark, size, rows)}
        jobs = {name: partial(seconds_to_noop, df) for name, df in frames.items()}
        seconds = in_turns(run, run.times(ROUNDS), jobs)
    return [
        Figure(f"{size} B, our source", rows / seconds["minikafka"] / 1000, "k rows/s"),
        *_ratio(f"{size} B, our source to uncompressed Parquet", seconds, "parquet", Target(">=", 0.5)),
        *_ratio(f"{size} B, our source to Spark's connector", seconds, "kafka", Target(">=", 1.0)),
        Figure(f"{size} B, a Python source that does nothing to Parquet", seconds["parquet"] / seconds["ready"]),
    ]


def _ratio(name: str, seconds: dict[str, float], other: str, target: Target) -> list[Figure]:
    if other not in seconds:
        return []
    return [Figure(name, seconds[other] / seconds["minikafka"], "", target)]
