"""Brokers that are killed while Spark writes, and a cluster that is gone."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from librdkafka import create_topic, end_offsets, read_by_librdkafka
from live_cluster import StartCluster, eventually, leader_of
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.spark.pipelines.running import explain

ROWS = 60_000


def write(df: DataFrame, cluster: LocalCluster, topic: str, **settings: str) -> None:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic} | named
    df.write.format("minikafka").mode("append").options(**options).save()


def kill_a_leader(cluster: LocalCluster, topic: str) -> int:
    """As soon as something was written: SIGKILL for a leader, which is started again when it has a successor.

    Answers how many rows there were before.
    """
    rows = eventually(lambda: sum(end_offsets(cluster, topic)), "rows to arrive")
    killed = leader_of(cluster, topic)
    cluster.kill(killed)
    eventually(lambda: leader_of(cluster, topic) != killed, "another leader")
    cluster.start_node(killed)
    return rows


@pytest.mark.long
def test_a_leader_killed_in_between_loses_and_doubles_nothing(
    spark: SparkSession, start_cluster: StartCluster, topic: str
) -> None:
    """No task has to be repeated: the producer finds the new leader, which knows what the old one had stored."""
    cluster = start_cluster()
    create_topic(cluster, topic)
    df = spark.range(0, ROWS, 1, 12).selectExpr("CAST(id AS STRING) AS key", "concat(id, repeat('x', 200)) AS value")
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill_a_leader, cluster, topic)
        write(df, cluster, topic, batch_size="16384")
        assert killing.result(timeout=60) < ROWS, "it was killed too late to matter"
    counts = Counter(int(message.key()) for message in read_by_librdkafka(cluster, topic, ROWS))
    assert len(counts) == ROWS


def test_a_cluster_that_is_gone_is_reported_in_a_line(
    spark: SparkSession, start_cluster: StartCluster, topic: str
) -> None:
    cluster = start_cluster(1)
    write(spark.range(1).selectExpr("'a' AS value"), cluster, topic)  # the cluster makes the topic by itself
    cluster.kill_all()
    soon = {"delivery_timeout_ms": "3000", "max_block_ms": "2000", "request_timeout_ms": "1000"}
    with pytest.raises(PySparkException) as failed:
        write(spark.range(1).selectExpr("'a' AS value"), cluster, topic, **soon)
    message = explain(failed.value)
    assert "\n" not in message
    assert cluster.bootstrap_servers in message
