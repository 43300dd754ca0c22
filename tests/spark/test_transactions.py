"""Topics with transactions: committed, aborted, and open while they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from librdkafka import PARTITIONS, Transactions, create_topic
from live_cluster import eventually
from pyspark.sql import DataFrame, SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.spark.pipelines.archive import archive, read_lake
from minikafka.spark.pipelines.replay import replay
from minikafka.spark.pipelines.report import make_report

COMMITTED = {"kafka.isolation.level": "read_committed"}
STABLE = 30  # the last stable offset of each partition, before which so many records are committed:
READABLE = 15
ALL = 24  # records, and so many in the first partition behind the last stable offset:
BEHIND = 5

Place = tuple[int, int]


class Written(NamedTuple):
    """A topic whose first partition has an open transaction."""

    topic: str
    producer: Transactions


def plain(cluster: LocalCluster, topic: str, values: list[str], *partitions: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in values:
        for partition in partitions:
            producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0


@pytest.fixture
def written(cluster: LocalCluster, topic: str) -> Written:
    """By offset: 0 to 4 committed, 6 to 9 aborted, 11 to 15 without a transaction, 16 to 20 committed, and then aborted
    ones of two records and one of one. Behind, in the first partition, three of an open transaction and two of none.
    """
    create_topic(cluster, topic)
    producer = Transactions(cluster, topic)
    producer.begin([f"a{number}" for number in range(5)])
    producer.commit()
    producer.begin(["never"] * 4)
    producer.abort()
    plain(cluster, topic, [f"b{number}" for number in range(5)], *range(PARTITIONS))
    producer.begin([f"c{number}" for number in range(5)])
    producer.commit()
    for count in (2, 2, 1):
        producer.begin(["never"] * count)
        producer.abort()
    producer.begin(["d0", "d1", "d2"], [0])
    plain(cluster, topic, ["e0", "e1"], 0)
    return Written(topic, producer)


def committed(cluster: LocalCluster, topic: str) -> list[Place]:
    """What a read_committed consumer of librdkafka gets now."""
    settings = {"group.id": "none", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers} | settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found, ended = [], 0
    while ended < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            found.append((message.partition(), message.offset()))
        else:
            ended += 1
    consumer.close()
    return sorted(found)


def places(df: DataFrame) -> list[Place]:
    return sorted((row.partition, row.offset) for row in df.select("partition", "offset").collect())


def test_batches_and_streams_end_where_the_first_open_transaction_begins(
    spark: SparkSession, cluster: LocalCluster, written: Written, tmp_path: Path
) -> None:
    """Batches of ten offsets in each partition; the last has markers and aborted records only."""
    topic, producer = written
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    read = spark.read.format("minikafka").options(**options)
    expected = committed(cluster, topic)
    assert len(expected) == READABLE * PARTITIONS
    assert places(read.options(**COMMITTED, minPartitions="8").load()) == expected
    assert len(places(read.options(**COMMITTED | {"kafka.isolation.level": "read_uncommitted"}).load())) == (
        ALL * PARTITIONS + BEHIND
    )

    seen: list[Place] = []
    stream = spark.readStream.format("minikafka").options(**options, **COMMITTED, maxOffsetsPerTrigger="30").load()
    writer = stream.writeStream.foreachBatch(lambda df, _: seen.extend(places(df)))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sorted(seen) == expected
    told = [progress["sources"][0] for progress in query.recentProgress]
    assert [source["numInputRows"] for source in told] == [15, 27, 3]
    stable = {str(partition): STABLE for partition in range(PARTITIONS)}
    assert [json.loads(told[-1][name])[topic] for name in ("endOffset", "latestOffset")] == [stable, stable]

    query = writer.trigger(processingTime="0 seconds").start()
    try:
        plain(cluster, topic, ["f"], 1)  # is seen, so it was looked at the first partition, too
        eventually(lambda: (1, STABLE) in seen, "a record of another partition")
        assert len(seen) == READABLE * PARTITIONS + 1
        producer.commit()
        eventually(lambda: len(seen) == READABLE * PARTITIONS + 1 + BEHIND, "what was behind the transaction")
    finally:
        query.stop()
    assert sorted(seen) == committed(cluster, topic)


@pytest.mark.long
def test_a_lake_has_what_is_committed(
    spark: SparkSession, cluster: LocalCluster, written: Written, tmp_path: Path
) -> None:
    topic, producer = written
    lake, servers = tmp_path / "lake", cluster.bootstrap_servers
    first = archive(topics=[topic], to=lake, bootstrap_servers=servers, compact_at=0, offsets_per_commit=45)
    assert (first.new_records, first.commits) == (READABLE * PARTITIONS, 2)
    assert archive(to=lake, bootstrap_servers=servers).new_records == 0
    report = make_report(spark, topic, bootstrap_servers=servers)
    assert [(one.end_offset, one.gaps) for one in report.partitions] == [(STABLE, STABLE - READABLE)] * PARTITIONS
    assert (report.earlier, report.later) == (0, 0), "the last record is found before the markers"

    producer.commit()
    assert archive(to=lake, bootstrap_servers=servers).new_records == BEHIND
    assert places(read_lake(spark, lake)) == committed(cluster, topic)

    other = create_topic(cluster, f"{topic}-again")
    open_ = Transactions(cluster, other)
    open_.begin(["is open"])
    done = [replay(spark, lake, to=other, bootstrap_servers=servers).new_records for _ in range(2)]
    assert done == [READABLE * PARTITIONS + BEHIND, 0], "its own records count behind another's open transaction"
    open_.abort()
    assert len(committed(cluster, other)) == READABLE * PARTITIONS + BEHIND
