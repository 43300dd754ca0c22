"""The source in batch: every option, read against what librdkafka wrote."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from librdkafka import create_topic, read_by_librdkafka, write_by_librdkafka
from pyspark.sql import DataFrame, SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.spark.pipelines.running import explain

COUNT = 300


@pytest.fixture(scope="module")
def filled(cluster: LocalCluster) -> str:
    """A topic with 100 records in each of three partitions, at 1,000,000 ms and then one each second."""
    topic = create_topic(cluster, "source-batch")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "compression.type": "zstd"})
    for number in range(COUNT):
        at_ms = 1_000_000 + number // 3 * 1000
        producer.produce(topic, f"v{number}", f"k{number}", partition=number % 3, timestamp=at_ms)
        if number % 30 == 29:
            assert producer.flush(60) == 0
    return topic


@pytest.fixture
def servers(cluster: LocalCluster) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers}


def load(spark: SparkSession, options: dict[str, str], **more: str) -> DataFrame:
    return spark.read.format("minikafka").options(**options, **more).load()


def offsets_of(df: DataFrame) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in df.select("partition", "offset").collect():
        found.setdefault(row.partition, []).append(row.offset)
    return {partition: sorted(offsets) for partition, offsets in sorted(found.items())}


def test_every_column_is_what_was_written(
    spark: SparkSession, cluster: LocalCluster, created: str, servers: dict[str, str]
) -> None:
    write_by_librdkafka(cluster, created, COUNT, compression_type="lz4")
    df = load(spark, servers, subscribe=created, includeHeaders="true")
    rows = df.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("partition", "offset").collect()
    messages = read_by_librdkafka(cluster, created, COUNT)
    for row, message in zip(rows, messages, strict=True):
        assert (row.topic, row.partition, row.offset) == (created, message.partition(), message.offset())
        assert (row.key, row.value) == (message.key(), message.value())
        assert (row.timestampType, row.ms) == (0, message.timestamp()[1])
        headers = row.headers and [(header.key, header.value) for header in row.headers]
        assert headers == message.headers()


def test_subscribe_assign_and_pattern_read_the_same(spark: SparkSession, filled: str, servers: dict[str, str]) -> None:
    everything = {partition: list(range(100)) for partition in range(3)}
    assert offsets_of(load(spark, servers, subscribe=filled)) == everything
    assert offsets_of(load(spark, servers, subscribePattern="source-b.*")) == everything
    assert offsets_of(load(spark, servers, assign=json.dumps({filled: [2, 0]}))).keys() == {0, 2}
    assert load(spark, servers, subscribePattern="nothing-is-called-so").collect() == []


def test_offsets_bound_a_batch(spark: SparkSession, filled: str, servers: dict[str, str]) -> None:
    start = json.dumps({filled: {"0": 10, "1": -2, "2": 100}})
    end = json.dumps({filled: {"0": 15, "1": 3, "2": -1}})
    found = offsets_of(load(spark, servers, subscribe=filled, startingOffsets=start, endingOffsets=end))
    assert found == {0: list(range(10, 15)), 1: [0, 1, 2]}


def test_times_bound_a_batch(spark: SparkSession, filled: str, servers: dict[str, str]) -> None:
    found = offsets_of(load(spark, servers, subscribe=filled, startingTimestamp="1010001", endingTimestamp="1015000"))
    assert found == {partition: [11, 12, 13, 14] for partition in range(3)}
    by_partition = json.dumps({filled: {"0": 1_098_000, "1": 1_099_000, "2": 1_200_000}})
    options = servers | {"subscribe": filled, "startingOffsetsByTimestamp": by_partition}
    found = offsets_of(load(spark, options, startingOffsetsByTimestampStrategy="latest"))
    assert found == {0: [98, 99], 1: [99]}
    with pytest.raises(Exception, match="source-batch-2 has no record of 1200000") as raised:
        load(spark, options).collect()
    assert "startingOffsetsByTimestampStrategy" in explain(raised.value)


@pytest.mark.parametrize(
    ("option", "value", "tasks"),
    [
        ("minPartitions", "7", 7),
        pytest.param("maxRecordsPerPartition", "30", 12, marks=pytest.mark.long),
        pytest.param("minPartitions", "1", 3, marks=pytest.mark.long),
    ],
)
def test_partitions_are_split_into_tasks(
    spark: SparkSession, filled: str, servers: dict[str, str], option: str, value: str, tasks: int
) -> None:
    df = load(spark, servers, subscribe=filled, **{option: value})
    assert abs(df.rdd.getNumPartitions() - tasks) <= 1
    assert offsets_of(df) == {partition: list(range(100)) for partition in range(3)}


@pytest.mark.parametrize(
    ("where", "tasks", "rows"),
    [
        ("partition = 1 AND offset >= 90", 1, 10),
        pytest.param("topic = 'source-batch' AND partition IN (0, 2)", 2, 200, marks=pytest.mark.long),
        ("timestamp > timestamp_millis(1098000)", 3, 3),
        # Spark starts a task for nothing.
        pytest.param("timestamp > timestamp_millis(9000000)", 1, 0, marks=pytest.mark.long),
    ],
)
def test_a_filter_saves_reading(
    spark: SparkSession, filled: str, servers: dict[str, str], where: str, tasks: int, rows: int
) -> None:
    df = load(spark, servers, subscribe=filled).where(where)
    assert df.rdd.getNumPartitions() == tasks
    assert df.count() == rows


def test_many_rows_come_in_large_batches(
    spark: SparkSession, cluster: LocalCluster, created: str, servers: dict[str, str]
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "queue.buffering.max.messages": 200_000})
    for number in range(60_000):
        producer.produce(created, b"x" * 20, partition=0)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    df = load(spark, servers, subscribe=created)
    row = df.selectExpr("count(*) AS rows", "sum(offset) AS total", "count(DISTINCT offset) AS offsets").first()
    assert row is not None
    assert (row.rows, row.offsets, row.total) == (60_000, 60_000, 60_000 * 59_999 // 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"subscribe": "x", "startingOfsets": "earliest"},
            "option 'startingofsets' not found; did you mean 'startingOffsets'?",
        ),
        ({"subscribe": "not-there"}, "topic 'not-there' not found; create it first"),
        *(
            pytest.param(*case, marks=pytest.mark.long)  # tests/unit/spark/options has them, too
            for case in (
                ({}, "no option says what to read; set exactly one of 'subscribe', 'assign' or 'subscribePattern'"),
                (
                    {"subscribe": "x", "kafka.auto.offset.reset": "earliest"},
                    "where to begin is said by 'startingOffsets'",
                ),
                ({"subscribe": "x", "startingOffsets": "latest"}, "a batch that begins there reads nothing"),
            )
        ),
        (
            {"subscribe": "source-batch", "startingOffsets": '{"source-batch":{"0":0}}'},
            "says nothing of source-batch-1",
        ),
        (
            {"subscribe": "source-batch", "startingOffsets": '{"source-batch":{"0":101,"1":0,"2":0}}'},
            "starting offset 101 of source-batch-0 is outside its log, which has offsets 0 to 100",
        ),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    spark: SparkSession, filled: str, servers: dict[str, str], options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match=r"option|topic|offset") as raised:
        load(spark, servers | options).collect()
    line = explain(raised.value)
    assert says in line
    assert "\n" not in line


@pytest.mark.long
def test_every_session_in_every_thread_knows_the_format(
    spark: SparkSession, filled: str, servers: dict[str, str], tmp_path: Path
) -> None:
    """A new session, where nothing was registered, and the one in which a micro-batch is handled."""
    counts: list[int] = []

    def read(session: SparkSession) -> None:
        counts.append(load(session, servers, subscribe=filled).count())

    thread = threading.Thread(target=read, args=(spark.newSession(),))
    thread.start()
    thread.join()
    stream = spark.readStream.format("minikafka").options(**servers, subscribe=filled).load().writeStream
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = stream.foreachBatch(lambda df, _: read(df.sparkSession)).start()
    assert query.awaitTermination(60)
    assert counts == [COUNT, COUNT]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"SUBSCRIBE": " source-batch ,source-batch", "startingoffsets": "Earliest"}, COUNT),
        pytest.param(
            {"startingTimestamp": "1200000", "startingOffsetsByTimestampStrategy": "LATEST"}, 0, marks=pytest.mark.long
        ),
        ({"endingTimestamp": "0"}, 0),
        ({"startingTimestamp": "2000000", "endingTimestamp": "1000000"}, "the options begin source-batch-0 at offset"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (
                    {"endingOffsets": '{"source-batch":{"0":3,"1":0,"2":0}}', "startingTimestamp": "1050000"},
                    "end it at 3",
                ),
                ({"startingTimestamp": "-1"}, "option 'startingTimestamp' is '-1'; it must be milliseconds since 1970"),
                ({"path": "source-batch"}, "say 'subscribe' to read"),
            )
        ),
    ],
)
def test_odd_bounds_are_taken_or_said_to_be_wrong(
    spark: SparkSession, filled: str, servers: dict[str, str], options: dict[str, str], count: int | str
) -> None:
    given = servers | ({} if "SUBSCRIBE" in options else {"subscribe": filled}) | options
    given.setdefault("startingOffsetsByTimestampStrategy", "latest")
    if isinstance(count, int):
        assert load(spark, given).count() == count
        return
    with pytest.raises(Exception, match="option") as raised:
        load(spark, given).count()
    line = explain(raised.value)
    assert count in line
    assert "\n" not in line


def test_columns_cannot_be_chosen_by_a_schema(spark: SparkSession, filled: str, servers: dict[str, str]) -> None:
    reader: Any = spark.read.format("minikafka").options(**servers, subscribe=filled).schema("value STRING")
    with pytest.raises(Exception, match="the columns of a topic are fixed"):
        reader.load().collect()
