"""Rows written by Spark to topics of three copies, ``acks=all``, against Spark's own connector.

The rows come from Parquet, two tasks of them, without keys; neither side compresses. In turns, as in ``spark_source``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.clusters import create_topic, delete_topic, running_cluster
from benchmarks.report import Figure, Run, Target
from benchmarks.spark_jobs import PARTITIONS, SIZES, fill, in_turns, read, session_with_connector
from minikafka.chaos.local_cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUMMARY = "rows written by Spark to topics, against Spark's own connector"
ROUNDS: Final = 10
SHARE: Final = 4  # of the rows that spark_source reads, one in so many


def run(run: Run) -> list[Figure]:
    """Large and small records."""
    figures: list[Figure] = []
    with session_with_connector(run) as (spark, has_connector), running_cluster() as cluster:
        for size, rows in SIZES.items():
            figures += _measure(run, spark, cluster, size, rows // SHARE, has_connector)
    return figures


def _measure(
    run: Run, spark: SparkSession, cluster: LocalCluster, size: int, rows: int, has_connector: bool
) -> list[Figure]:
    topic = f"rows-of-{size}"
    create_topic(cluster, topic, partitions=PARTITIONS, copies=1)
    fill(cluster, topic, size, rows)
    names = (f"written-{size}-{number}" for number in count())  # a topic is deleted in its own time
    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as directory:
        parquet = str(Path(directory) / "rows")
        read(spark, cluster, "minikafka", topic).select("value").write.parquet(parquet)
        df = spark.read.parquet(parquet)
        jobs = {
            sink: partial(_seconds_to_topic, cluster, df, sink, names)
            for sink in ("minikafka", "kafka")[: 1 + has_connector]
        }
        seconds = in_turns(run, run.times(ROUNDS), jobs)
    figures = [Figure(f"{size} B, our sink", rows / seconds["minikafka"] / 1000, "k rows/s")]
    if has_connector:
        ratio = seconds["kafka"] / seconds["minikafka"]
        figures.append(Figure(f"{size} B, our sink to Spark's connector", ratio, "", Target(">=", 0.7)))
    return figures


def _seconds_to_topic(cluster: LocalCluster, df: DataFrame, sink: str, names: Iterator[str]) -> float:
    topic = next(names)
    create_topic(cluster, topic, partitions=PARTITIONS)
    began = time.monotonic()
    writer = df.write.format(sink).option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer.option("topic", topic).mode("append").save()
    seconds = time.monotonic() - began
    delete_topic(cluster, topic)
    return seconds
