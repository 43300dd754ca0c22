"""Logs that are not simply records in a row: compacted ones, and partitions that go away while they are read."""

from __future__ import annotations

from typing import Any

import at_once
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from librdkafka import create_topic, write_by_librdkafka
from live_cluster import wait_until_known
from pyspark.sql import DataFrame, SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.model import LATEST, TopicPartition
from minikafka.spark.cluster import ClientSettings, cluster_of
from minikafka.spark.pipelines.running import explain
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log

FAR_LATER_MS = 1 << 50
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "1024", "delete.retention.ms": "0"}


def load(spark: SparkSession, cluster: LocalCluster, topic: str, **options: str) -> DataFrame:
    chosen = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic} | options
    return spark.read.format("minikafka").options(**chosen).load()


def offsets_of(df: DataFrame) -> list[int]:
    return sorted(row.offset for row in df.select("offset").collect())


def compact(cluster: LocalCluster, topic: str) -> None:
    """Stop the only node and do what its cleaner does every so often: once, and again when tombstones may go.

    The active segment, which is never cleaned, is new and empty, as a node that dies at the right moment leaves it.
    """
    cluster.stop()
    directory = cluster.layout.data_directory(1) / f"{topic}-0"
    config = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)
    log = Log.open(OsDisk(), str(directory), TopicPartition(topic, 0), config, last_stop=LastStop(is_clean=True))
    log.roll()
    log.flush()
    for _ in range(2):
        log.first_dirty_offset = 0
        assert at_once.compact(log, log.log_end_offset, FAR_LATER_MS)
    log.close()
    cluster.start()


def test_a_range_whose_last_records_were_compacted_away_is_read_to_its_end(
    spark: SparkSession, start_cluster: Any, topic: str
) -> None:
    """Nothing comes any more behind the last record that is left, and no task waits for it."""
    cluster = start_cluster(1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=COMPACT)])[topic].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(40):
        producer.produce(topic, str(number).zfill(100), key=f"k{number % 4}")
        assert producer.flush(60) == 0
    for number in range(3):  # not the last key
        producer.produce(topic, None, key=f"k{number}")
    assert producer.flush(60) == 0
    compact(cluster, topic)
    tp = TopicPartition(topic, 0)
    assert cluster_of(ClientSettings(cluster.bootstrap_servers)).offsets([tp], LATEST)[tp].offset == 43
    patience = {"kafkaConsumer.pollTimeoutMs": "20000"}
    assert offsets_of(load(spark, cluster, topic, **patience)) == [39]
    assert offsets_of(load(spark, cluster, topic, endingOffsets=f'{{"{topic}":{{"0":20}}}}', **patience)) == []
    assert offsets_of(load(spark, cluster, topic, minPartitions="5", **patience)) == [39]


def make_anew(cluster: LocalCluster, topic: str) -> None:
    """Delete a topic and create it again; every node knows it."""
    delete(cluster, topic)
    create_topic(cluster, topic)
    wait_until_known(cluster, topic, 3)


def delete(cluster: LocalCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([topic])[topic].result()
    wait_until_known(cluster, topic, 0)


@pytest.mark.parametrize("is_made_anew", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_batch_reads_the_topic_that_it_was_planned_for_or_none(
    spark: SparkSession, cluster: LocalCluster, topic: str, is_made_anew: bool
) -> None:
    """A DataFrame that is used again is not planned again."""
    create_topic(cluster, topic)
    write_by_librdkafka(cluster, topic, 30)
    failing, going_on = (
        load(spark, cluster, topic, failOnDataLoss=fail).select("offset") for fail in ("true", "false")
    )
    planned = [df.rdd for df in (failing, going_on)]
    assert [rdd.count() for rdd in planned] == [30, 30]
    if is_made_anew:
        make_anew(cluster, topic)
        write_by_librdkafka(cluster, topic, 60)
    else:
        delete(cluster, topic)
    with pytest.raises(Exception, match="offsets 0 to 10 of") as raised:
        planned[0].count()
    line = explain(raised.value)
    assert f"to be read, but topic '{topic}' was deleted" in line
    assert "set 'failOnDataLoss' to false" in line
    assert planned[1].count() == 0
    if is_made_anew:
        assert load(spark, cluster, topic).count() == 60
