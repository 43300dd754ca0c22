"""The source in streaming: restarts, limits, triggers, partitions and topics that come and go."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from librdkafka import create_topic
from live_cluster import eventually, leader_of, wait_until_known
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.model import TopicPartition as KafkaPartition
from minikafka.spark.lag import LagListener, lag
from minikafka.spark.pipelines.running import explain

Seen = list[tuple[int, str, int, int, bytes]]


class Batches:
    """What a query read: of each batch its rows as (batch, topic, partition, offset, value), by batch id."""

    def __init__(self) -> None:
        self.by_id: dict[int, Seen] = {}

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        self.by_id[batch_id] = [
            (batch_id, row.topic, row.partition, row.offset, bytes(row.value)) for row in df.collect()
        ]

    @property
    def rows(self) -> Seen:
        return [row for _, rows in sorted(self.by_id.items()) for row in rows]

    @property
    def values(self) -> list[int]:
        return sorted(int(row[4]) for row in self.rows)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@contextmanager
def streaming(
    spark: SparkSession, cluster: LocalCluster, checkpoint: str, trigger: dict[str, Any] | None = None, **options: str
) -> Iterator[tuple[StreamingQuery, Batches]]:
    """A query that runs as long as the block; it starts at the earliest offset unless told otherwise."""
    batches = Batches()
    chosen = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "startingOffsets": "earliest"} | options
    df = spark.readStream.format("minikafka").options(**chosen).load()
    writer = df.writeStream.option("checkpointLocation", checkpoint).foreachBatch(batches)
    query = writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()
    try:
        yield query, batches
    finally:
        query.stop()


def read_available(spark: SparkSession, cluster: LocalCluster, checkpoint: str, **options: str) -> Batches:
    with streaming(spark, cluster, checkpoint, {"availableNow": True}, **options) as (query, batches):
        assert query.awaitTermination(120)
        return batches


def write(cluster: LocalCluster, topic: str, numbers: range, partitions: int = 3) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(60) == 0


def is_committed(checkpoint: str) -> bool:
    """Whether the newest batch has ended: what it was handed would come again otherwise, as is its right."""
    begun, ended = (os.listdir(Path(checkpoint, folder)) for folder in ("offsets", "commits"))
    return {name for name in begun if name.isdigit()} <= set(ended)


def last_offsets(checkpoint: str) -> tuple[int, dict[str, Any]]:
    """The newest batch in the write-ahead log, and the offsets it holds."""
    newest = max(int(path.name) for path in Path(checkpoint, "offsets").iterdir() if path.name.isdigit())
    return newest, json.loads(Path(checkpoint, "offsets", str(newest)).read_text().splitlines()[-1])


def test_a_restart_goes_on_where_the_checkpoint_is(
    spark: SparkSession, cluster: LocalCluster, created: str, checkpoint: str
) -> None:
    write(cluster, created, range(30))
    assert read_available(spark, cluster, checkpoint, subscribe=created).values == list(range(30))
    _, offsets = last_offsets(checkpoint)
    assert offsets[created] == {"0": 10, "1": 10, "2": 10}, "as Spark's own connector writes it"
    assert offsets["@from"][created] == {"0": 0, "1": 0, "2": 0}
    write(cluster, created, range(30, 60))
    assert read_available(spark, cluster, checkpoint, subscribe=created).values == list(range(30, 60))
    assert read_available(spark, cluster, checkpoint, subscribe=created).values == []


@pytest.mark.long
def test_latest_is_where_the_query_began_even_if_it_was_killed_in_its_first_batch(
    spark: SparkSession, cluster: LocalCluster, created: str, checkpoint: str
) -> None:
    """The beginning is in the write-ahead log before anything is read; what comes while nobody runs is not skipped."""
    write(cluster, created, range(30))
    assert read_available(spark, cluster, checkpoint, subscribe=created, startingOffsets="latest").values == []
    for path in Path(checkpoint, "commits").iterdir():
        path.unlink()  # what a kill in batch 0 leaves
    write(cluster, created, range(30, 60))
    assert read_available(spark, cluster, checkpoint, subscribe=created, startingOffsets="latest").values == list(
        range(30, 60)
    )


@pytest.mark.long
def test_a_batch_is_no_larger_than_wanted_and_shared_in_proportion(
    spark: SparkSession, cluster: LocalCluster, topic: str, checkpoint: str
) -> None:
    create_topic(cluster, topic)
    write(cluster, topic, range(200), partitions=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(200, 220):
        producer.produce(topic, str(number), partition=2)
    assert producer.flush(60) == 0
    batches = read_available(spark, cluster, checkpoint, subscribe=topic, maxOffsetsPerTrigger="110")
    assert batches.values == list(range(220))
    assert [len(rows) for _, rows in sorted(batches.by_id.items())] == [110, 110]
    assert Counter(row[2] for row in batches.by_id[0]) == {0: 50, 1: 50, 2: 10}


def test_a_query_reads_what_comes_and_says_how_far_it_is_behind(
    spark: SparkSession, cluster: LocalCluster, created: str, checkpoint: str
) -> None:
    lines: list[str] = []
    listener = LagListener(lines.append)
    spark.streams.addListener(listener)
    limits = {"minPartitions": "6", "maxOffsetsPerTrigger": "30"}
    try:
        write(cluster, created, range(60))
        with streaming(spark, cluster, checkpoint, subscribe=created, **limits) as (query, batches):
            eventually(lambda: len(batches.rows) == 60, "60 rows")
            write(cluster, created, range(60, 90))
            eventually(lambda: len(batches.rows) == 90, "90 rows")
            none_behind = {KafkaPartition(created, number): 0 for number in range(3)}
            eventually(lambda: lag(query.lastProgress or {"sources": ()}) == none_behind, "a batch without lag")
            # Spark tells a listener later, in its own time.
            eventually(lambda: any(f"batch 0, 30 offsets behind, {created}-" in line for line in lines), "its line")
            eventually(lambda: any("batch 2, 0 offsets behind" in line for line in lines), "the last one's line")
    finally:
        spark.streams.removeListener(listener)
    assert batches.values == list(range(90))


@pytest.mark.long
def test_few_records_are_held_back_until_they_are_enough(
    spark: SparkSession, cluster: LocalCluster, created: str, checkpoint: str
) -> None:
    limits = {"minOffsetsPerTrigger": "20", "maxTriggerDelay": "1h"}
    with streaming(spark, cluster, checkpoint, subscribe=created, **limits) as (query, batches):
        eventually(lambda: 0 in batches.by_id, "the first batch, which does not wait")
        write(cluster, created, range(10))
        time.sleep(1)
        assert batches.rows == []
        write(cluster, created, range(10, 20))
        eventually(lambda: len(batches.rows) == 20, "both halves")
        assert query.isActive
    assert [len(rows) for rows in batches.by_id.values() if rows] == [20]


def test_partitions_and_topics_that_appear_are_read_from_their_start(
    spark: SparkSession, cluster: LocalCluster, topic: str, checkpoint: str
) -> None:
    create_topic(cluster, topic)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    pattern, second = f"{topic}.*", f"{topic}-2"
    options = {"subscribePattern": pattern, "startingOffsets": "latest"}
    with streaming(spark, cluster, checkpoint, **options) as (_, batches):
        eventually(lambda: 0 in batches.by_id, "the first batch")
        admin.create_partitions([NewPartitions(topic, 5)])[topic].result()
        admin.create_topics([NewTopic(second, 1, 3)])[second].result()
        wait_until_known(cluster, topic, 5)
        write(cluster, topic, range(50), partitions=5)
        write(cluster, second, range(50, 60), partitions=1)
        eventually(lambda: len(batches.rows) >= 60, "60 rows")
    assert batches.values == list(range(60))


def make_anew(cluster: LocalCluster, topic: str) -> None:
    """Delete a topic and create it again; every node knows it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([topic])[topic].result()
    wait_until_known(cluster, topic, 0)
    create_topic(cluster, topic)
    wait_until_known(cluster, topic, 3)


@pytest.mark.long
def test_a_topic_that_was_made_anew_between_two_runs_is_a_loss(
    spark: SparkSession, cluster: LocalCluster, created: str, checkpoint: str
) -> None:
    """Though the new one has the same leader epoch and goes further: it has another id."""
    write(cluster, created, range(30))
    read_available(spark, cluster, checkpoint, subscribe=created)
    make_anew(cluster, created)
    write(cluster, created, range(100, 160))
    with pytest.raises(StreamingQueryException) as raised:
        read_available(spark, cluster, checkpoint, subscribe=created)
    line = explain(raised.value)
    assert f"topic '{created}', read up to offsets 10, 10, 10, was deleted and created again" in line
    assert "set 'failOnDataLoss' to false to go on with what is left" in line
    assert "\n" not in line
    left = read_available(spark, cluster, checkpoint, subscribe=created, failOnDataLoss="false")
    assert left.values == list(range(100, 160)), "from its beginning"
    write(cluster, created, range(160, 166))
    assert read_available(spark, cluster, checkpoint, subscribe=created).values == list(range(160, 166))


def test_a_topic_that_is_made_anew_while_a_query_runs_is_read_from_its_beginning(
    spark: SparkSession, cluster: LocalCluster, created: str, checkpoint: str
) -> None:
    """Or ends the query, with failOnDataLoss. A checkpoint that knows no ids is continued."""
    write(cluster, created, range(30))
    with streaming(spark, cluster, checkpoint, subscribe=created, failOnDataLoss="false") as (query, batches):
        eventually(lambda: len(batches.rows) == 30, "the first topic's rows")
        make_anew(cluster, created)
        write(cluster, created, range(100, 160))
        eventually(lambda: len(batches.rows) >= 90 and is_committed(checkpoint), "the second topic's rows")
    assert batches.values == [*range(30), *range(100, 160)]
    newest, offsets = last_offsets(checkpoint)
    assert offsets["@ids"].keys() == {created}
    path = Path(checkpoint, "offsets", str(newest))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], json.dumps({created: offsets[created]})]))  # as Spark's own writes it
    with streaming(spark, cluster, checkpoint, subscribe=created) as (query, batches):
        write(cluster, created, range(160, 190))
        eventually(lambda: len(batches.rows) >= 30, "the rows after the restart")
        make_anew(cluster, created)
        eventually(lambda: not query.isActive, "the query to fail")
        assert "was deleted" in explain(query.exception())  # type: ignore[arg-type]
    assert batches.values == list(range(160, 190))


@pytest.mark.long
def test_a_topic_that_is_deleted_while_a_query_runs_is_missed_or_left_out(
    spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """The others are read on. One that matches a pattern is read from its start whenever it is created."""
    first, second = f"{topic}-1", f"{topic}-2"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    options = {"subscribePattern": f"{topic}-.*"}
    with (
        streaming(spark, cluster, str(tmp_path / "a"), **options) as (strict, strict_batches),
        streaming(spark, cluster, str(tmp_path / "b"), **options, failOnDataLoss="false") as (going_on, batches),
    ):
        eventually(lambda: 0 in batches.by_id, "a batch of no topic")
        for name, numbers in ((first, range(30)), (second, range(30, 60))):
            create_topic(cluster, name)
            wait_until_known(cluster, name, 3)
            write(cluster, name, numbers)
        eventually(lambda: len(batches.rows) == len(strict_batches.rows) == 60, "the rows of both")
        admin.delete_topics([first])[first].result()
        write(cluster, second, range(60, 90))
        eventually(lambda: len(batches.rows) == 90, "what came after one was deleted")
        eventually(lambda: not strict.isActive, "the other query to fail")
        line = explain(strict.exception())  # type: ignore[arg-type]
        assert f"{first}-0, read up to offset 10, was deleted" in line or f"topic '{first}' was deleted" in line
        assert "set 'failOnDataLoss' to false" in line
        assert going_on.isActive
    assert batches.values == list(range(90))


@pytest.mark.long
def test_records_that_expired_before_they_were_read_are_a_loss(
    spark: SparkSession, start_cluster: Any, topic: str, checkpoint: str
) -> None:
    """The records between the checkpoint and the log's new beginning."""
    cluster = start_cluster(1, log_retention_check_interval_ms="50")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    settings = {"segment.bytes": "1024", "retention.bytes": "4096"}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

    def write_padded(numbers: range) -> None:
        for number in numbers:
            producer.produce(topic, str(number).zfill(400), partition=0)
            assert producer.flush(60) == 0

    write_padded(range(2))
    assert read_available(spark, cluster, checkpoint, subscribe=topic).values == [0, 1]
    write_padded(range(2, 40))
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    eventually(lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0))[0] > 2, "records to expire")
    with pytest.raises(StreamingQueryException) as raised:
        read_available(spark, cluster, checkpoint, subscribe=topic)
    assert "the log does not have all of them any more" in explain(raised.value)
    left = read_available(spark, cluster, checkpoint, subscribe=topic, failOnDataLoss="false").values
    consumer.close()
    assert left == list(range(40))[-len(left) :]
    assert 0 < len(left) < 38


@pytest.mark.long
def test_a_bad_option_ends_the_query_with_one_line(
    spark: SparkSession, cluster: LocalCluster, created: str, checkpoint: str
) -> None:
    for option, value, says in (
        ("endingOffsets", "latest", "'endingOffsets' is one of batch queries (read): a stream has no end; remove it"),
        ("maxOffsetsPerTrigger", "0", "option 'maxOffsetsPerTrigger' is '0'; it must be a whole number of 1 or more"),
    ):
        with pytest.raises(Exception, match=option) as raised:
            read_available(spark, cluster, checkpoint, subscribe=created, **{option: value})
        assert says in explain(raised.value)


@pytest.mark.long
def test_a_query_goes_on_when_leaders_are_killed(
    spark: SparkSession, start_cluster: Any, topic: str, checkpoint: str
) -> None:
    """kill -9 of a leader, twice, while it reads and others write: nothing missing, nothing doubled, in order."""
    cluster = start_cluster(min_insync_replicas="2")
    create_topic(cluster, topic)
    stop, written = threading.Event(), [0]

    def keep_writing() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
        while not stop.is_set():
            producer.produce(topic, str(written[0]), partition=written[0] % 3)
            written[0] += 1
            if written[0] % 200 == 0:
                producer.flush(60)
                time.sleep(0.02)
        assert producer.flush(60) == 0

    writer = threading.Thread(target=keep_writing)
    with streaming(spark, cluster, checkpoint, subscribe=topic) as (query, batches):
        writer.start()
        try:
            eventually(lambda: len(batches.rows) > 500, "the first rows")
            for partition in (0, 1):
                victim = leader_of(cluster, topic, partition)
                cluster.kill(victim)
                before = len(batches.rows)
                eventually(lambda before=before: len(batches.rows) > before + 2_000, "rows after the kill")  # type: ignore[misc]
                cluster.start_node(victim)
                cluster.wait_in_sync()
        finally:
            stop.set()
            writer.join()
        eventually(lambda: len(batches.rows) >= written[0], "all rows")
        assert query.exception() is None
    assert batches.values == list(range(written[0]))
    for partition in range(3):
        offsets = [row[3] for row in sorted(batches.rows, key=lambda row: (row[0], row[3])) if row[2] == partition]
        assert offsets == list(range(len(offsets)))
