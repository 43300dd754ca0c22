"""Spark's own Kafka connector against the cluster: batches and streams, source and sink.

Its rows are what ours must be equal to; here they are compared with what confluent-kafka reads and wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from librdkafka import Transactions, read_by_librdkafka, write_by_librdkafka
from pyspark.sql import DataFrame, SparkSession

from minikafka.chaos.local_cluster import LocalCluster

pytestmark = pytest.mark.usefixtures("connector")
PARTITIONS = 3
Load = Callable[..., DataFrame]


@pytest.fixture
def options(cluster: LocalCluster) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers}


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    kept = df.orderBy("partition", "offset").collect()
    as_bytes = lambda data: None if data is None else bytes(data)  # noqa: E731
    return [(as_bytes(row.key), as_bytes(row.value), row.topic, row.partition, row.offset) for row in kept]


@pytest.mark.long
def test_batch_source(spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str]) -> None:
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        write_by_librdkafka(cluster, created, 20, compression_type=compression)
    df = spark.read.format("kafka").options(**options, subscribe=created, includeHeaders="true").load().cache()
    expected = read_by_librdkafka(cluster, created, 100)
    assert rows_of(df) == [(m.key(), m.value(), created, m.partition(), m.offset()) for m in expected]
    headers = [row.headers and [(h.key, h.value and bytes(h.value)) for h in row.headers] for row in df.collect()]
    assert sum(each == [("n", each[0][1]), ("null", None)] for each in headers if each) == 50
    df.unpersist()


@pytest.mark.long
def test_batch_source_from_and_to(
    spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str]
) -> None:
    write_by_librdkafka(cluster, created, 90)
    spec = {
        "startingOffsets": json.dumps({created: {"0": 5, "1": -2, "2": 29}}),
        "endingOffsets": json.dumps({created: {"0": 7, "1": -1, "2": -1}}),
        "minPartitions": "8",
    }
    df = spark.read.format("kafka").options(**options, **spec, subscribe=created).load()
    counts = {row.partition: row["count"] for row in df.groupBy("partition").count().collect()}
    assert counts == {0: 2, 1: 30, 2: 1}
    timed = spark.read.format("kafka").options(**options, subscribePattern=f"{created}.*", startingTimestamp="1")
    assert timed.load().count() == 90


def test_our_rows_are_the_connectors(
    spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str]
) -> None:
    """What is read by the same options, after the format name was changed."""
    write_by_librdkafka(cluster, created, 90, compression_type="zstd")
    by_offsets = json.dumps({created: {"0": 5, "1": -2, "2": 29}})
    to_offsets = json.dumps({created: {"0": 7, "1": -1, "2": -1}})
    by_times = json.dumps({created: {"0": 1, "1": 2, "2": 3}})
    cases: list[tuple[int, dict[str, str]]] = [
        (90, {"subscribe": created, "includeHeaders": "true"}),
        (33, {"subscribe": created, "startingOffsets": by_offsets, "endingOffsets": to_offsets, "minPartitions": "8"}),
        (60, {"assign": json.dumps({created: [0, 2]}), "startingTimestamp": "1"}),
        (90, {"subscribePattern": f"{created[1:]}$", "startingOffsetsByTimestamp": by_times}),
        (0, {"subscribe": created, "endingTimestamp": "1"}),
    ]
    for count, case in cases:
        reader = spark.read.options(**options | case)
        theirs, ours = (reader.format(name).load() for name in ("kafka", "minikafka"))
        assert ours.dtypes == theirs.dtypes
        found = [sorted(map(repr, df.collect())) for df in (theirs, ours)]
        assert len(found[0]) == count, case
        assert found[0] == found[1], case


@pytest.mark.long
def test_our_committed_rows_are_the_connectors(
    spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str]
) -> None:
    """Between aborted ones, and before an open transaction; in a batch, and in a stream with small batches."""
    producer = Transactions(cluster, created)
    for number in range(6):
        producer.begin([f"{number}-{value}" for value in range(5)])
        (producer.abort if number % 2 else producer.commit)()
    producer.begin(["open"], [0])
    write_by_librdkafka(cluster, created, 9)
    spec = {"subscribe": created, "kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
    reader, streamer = (each.options(**options | spec) for each in (spark.read, spark.readStream))
    theirs, ours = (sorted(map(repr, reader.format(name).load().collect())) for name in ("kafka", "minikafka"))
    assert len(theirs) == 3 * 15 + 6
    assert ours == theirs
    told = []
    for name in ("kafka", "minikafka"):
        stream = streamer.option("maxOffsetsPerTrigger", "21").format(name).load().writeStream.format("memory")
        query = stream.queryName(f"committed_{name}").trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(120)
            assert sorted(map(repr, spark.table(f"committed_{name}").collect())) == theirs
            last = query.recentProgress[-1]["sources"][0]
            told.append([json.loads(last[which])[created] for which in ("endOffset", "latestOffset")])
        finally:
            query.stop()
            spark.catalog.dropTempView(f"committed_{name}")
    assert told[0] == told[1]
    producer.abort()


def test_batch_sink(spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str]) -> None:
    df = spark.range(300).selectExpr(
        "CASE WHEN id % 10 > 0 THEN concat('k', id) END AS key",
        "CASE WHEN id % 9 > 0 THEN concat('v', id) END AS value",
        "array(struct('n' AS key, CAST(CAST(id AS STRING) AS BINARY) AS value)) AS headers",
        "CASE WHEN id % 2 > 0 THEN CAST(id % 3 AS INT) END AS partition",
        f"'{created}' AS topic",
    )
    df.write.format("kafka").options(**options | {"kafka.compression.type": "zstd"}).save()
    found = {int(m.headers()[0][1]): m for m in read_by_librdkafka(cluster, created, 300)}
    assert sorted(found) == list(range(300))
    for number, message in found.items():
        assert message.key() == (f"k{number}".encode() if number % 10 else None)
        assert message.value() == (f"v{number}".encode() if number % 9 else None)
        assert number % 2 == 0 or message.partition() == number % 3


@pytest.mark.long
def test_streaming_sink(
    spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str], tmp_path: Path
) -> None:
    spark.range(200).selectExpr("CAST(id AS STRING) AS value").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("value STRING").parquet(str(tmp_path / "in")).writeStream.format("kafka")
    query = stream.options(**options, topic=created, checkpointLocation=str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination(120)
    found = read_by_librdkafka(cluster, created, 200)
    assert sorted(int(message.value()) for message in found) == list(range(200))


@pytest.mark.long
def test_streaming_source(spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str]) -> None:
    """And the rows that ours streams, after the format name was changed."""
    write_by_librdkafka(cluster, created, 100)
    expected = [
        (m.key(), m.value(), created, m.partition(), m.offset()) for m in read_by_librdkafka(cluster, created, 100)
    ]
    spec = {"subscribe": created, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40", "includeHeaders": "true"}
    streamed = {}
    for name in ("kafka", "minikafka"):
        stream = spark.readStream.format(name).options(**options, **spec).load().writeStream.format("memory")
        query = stream.queryName(f"seen_{name}").trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
            df = spark.table(f"seen_{name}")
            assert rows_of(df) == expected
            assert len(query.recentProgress) >= 3
            streamed[name] = sorted(map(repr, df.collect()))
        finally:
            query.stop()
            spark.catalog.dropTempView(f"seen_{name}")
    assert streamed["minikafka"] == streamed["kafka"]
