"""DataFrames to topics, read again by librdkafka, by Spark's own connector and by our source."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from librdkafka import PARTITIONS, create_topic, read_by_librdkafka
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.spark.pipelines.running import explain
from minikafka.spark.sink import ORIGIN_HEADER, deduplicated

ROWS = (
    "CASE WHEN id % 10 > 0 THEN concat('k', id) END AS key",
    "CASE WHEN id % 9 > 0 THEN CAST(concat('v', id) AS BINARY) END AS value",
    "CASE WHEN id % 8 > 0 THEN array(struct('n' AS key, CAST(CAST(id AS STRING) AS BINARY) AS value),"
    " struct('null' AS key, CAST(NULL AS BINARY) AS value)) END AS headers",
    "CASE WHEN id % 2 > 0 THEN CAST(id % 3 AS INT) END AS partition",
    "id * 2 AS left_alone",
)


@pytest.fixture
def options(cluster: LocalCluster) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers}


def write(df: DataFrame, options: dict[str, str], **more: str) -> None:
    df.write.format("minikafka").mode("append").options(**options, **more).save()


def message_of(error: BaseException) -> str:
    return explain(error)


def plain(message: Any) -> tuple[Any, ...]:
    return (message.key(), message.value(), message.partition(), message.headers())


@pytest.mark.parametrize("compression", [pytest.param("none", marks=pytest.mark.long), "zstd"])
def test_every_column_arrives(
    spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str], compression: str
) -> None:
    df = spark.range(0, 300, 1, 2).selectExpr(*ROWS)
    write(df, options | {"kafka.compression.type": compression}, topic=created)
    found = read_by_librdkafka(cluster, created, 300)
    expected = [
        (
            f"k{number}".encode() if number % 10 else None,
            f"v{number}".encode() if number % 9 else None,
            [("n", str(number).encode()), ("null", None)] if number % 8 else None,
        )
        for number in range(300)
    ]
    assert sorted(map(repr, expected)) == sorted(repr((m.key(), m.value(), m.headers())) for m in found)
    for number, row in enumerate(expected):
        if number % 2 and number % 8:
            (message,) = (m for m in found if m.headers() == row[2])
            assert message.partition() == number % 3


def test_rows_of_a_task_keep_their_order(
    spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str]
) -> None:
    df = spark.range(0, 30_000, 1, 2).selectExpr(
        "concat('k', id % 100) AS key", "concat(spark_partition_id(), ':', id) AS value"
    )
    write(df, options, topic=created)
    newest: dict[tuple[bytes, bytes], int] = {}
    for message in read_by_librdkafka(cluster, created, 30_000):
        task, number = message.value().split(b":")
        assert newest.get((message.key(), task), -1) < int(number)
        newest[message.key(), task] = int(number)


def test_a_column_names_the_topic_of_each_row(
    spark: SparkSession, cluster: LocalCluster, topic: str, options: dict[str, str]
) -> None:
    names = [create_topic(cluster, f"{topic}-{number}") for number in range(3)]
    df = spark.range(90).selectExpr("CAST(id AS STRING) AS value", f"concat('{topic}-', id % 3) AS topic")
    write(df, options)
    for number, name in enumerate(names):
        found = read_by_librdkafka(cluster, name, 30)
        assert sorted(int(message.value()) for message in found) == list(range(number, 90, 3))
    write(df, options, topic=names[0])  # the option overrides the column
    assert len(read_by_librdkafka(cluster, names[0], 120)) == 120


def test_rows_without_a_key_reach_every_partition(
    spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str]
) -> None:
    df = spark.range(0, 3000, 1, 1).selectExpr("repeat('x', 1000) AS value")
    write(df, options, topic=created)
    found = read_by_librdkafka(cluster, created, 3000)
    assert {message.partition() for message in found} == set(range(PARTITIONS))


def test_batches_are_as_small_as_a_topic_wants_them(
    spark: SparkSession, cluster: LocalCluster, topic: str, options: dict[str, str]
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3, config={"max.message.bytes": "5000"})])[topic].result()
    write(spark.range(100).selectExpr("repeat('x', 1000) AS value"), options, topic=topic)
    assert len(read_by_librdkafka(cluster, topic, 100)) == 100


@pytest.mark.long
@pytest.mark.usefixtures("connector")
def test_the_connectors_partitions_and_rows(
    spark: SparkSession, cluster: LocalCluster, topic: str, options: dict[str, str]
) -> None:
    ours, theirs = (create_topic(cluster, f"{topic}-{who}") for who in ("ours", "theirs"))
    df = spark.range(0, 1000, 1, 1).selectExpr(
        "CAST(repeat(CAST(id AS STRING), CAST(id % 9 AS INT)) AS BINARY) AS key",
        "CAST(id AS STRING) AS value",
        "array(struct('h' AS key, CAST('x' AS BINARY) AS value)) AS headers",
    )
    write(df, options, topic=ours)
    df.write.format("kafka").options(**options, topic=theirs).save()
    assert list(map(plain, read_by_librdkafka(cluster, ours, 1000))) == list(
        map(plain, read_by_librdkafka(cluster, theirs, 1000))
    )
    columns = ("key", "value", "partition", "offset", "timestampType", "headers")
    read = spark.read.options(**options, subscribe=ours, includeHeaders="true")
    by_them, by_us = (read.format(name).load().select(*columns) for name in ("kafka", "minikafka"))
    assert by_them.count() == 1000
    assert by_them.exceptAll(by_us).isEmpty()
    assert by_us.exceptAll(by_them).isEmpty()


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        (["'a' AS key"], {"topic": "t"}, "needs a column 'value'"),
        (["1 AS value"], {"topic": "t"}, "'value' is of type int; it must be string or binary"),
        (["'a' AS value"], {}, "neither the option 'topic' nor a column 'topic'"),
        (["'a' AS value", "1L AS partition"], {"topic": "t"}, "'partition' is of type bigint; it must be int"),
        (["'a' AS value", "map('a', 'b') AS headers"], {"topic": "t"}, "'headers' is of type map"),
        (["'a' AS value"], {"topic": "t", "toppic": "u"}, "toppic"),
        (["'a' AS value"], {"topic": "t", "startingOffsets": "latest"}, "startingOffsets"),
        (["'a' AS value"], {"topic": "t", "kafka.key.serializer": "x"}, "kafka.key.serializer"),
    ],
)
def test_what_cannot_work_is_refused_before_it_begins(
    spark: SparkSession, options: dict[str, str], columns: list[str], more: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        write(spark.range(1).selectExpr(*columns), options, **more)
    assert message in message_of(refused.value)


@pytest.mark.parametrize("mode", ["overwrite", "ignore", "errorifexists"])
def test_a_topic_can_only_be_appended_to(spark: SparkSession, options: dict[str, str], mode: str) -> None:
    with pytest.raises(AnalysisException, match=r"(?i)append"):
        spark.range(1).selectExpr("'a' AS value").write.format("minikafka").mode(mode).options(
            **options, topic="t"
        ).save()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        pytest.param(["CAST(NULL AS STRING) AS topic"], "a row's topic is null", marks=pytest.mark.long),
        pytest.param(["'no/topic' AS topic"], "no/topic", marks=pytest.mark.long),
        (["'{created}' AS topic", "7 AS partition"], "has partitions 0 to 2, not 7"),
        pytest.param(
            [
                "'{created}' AS topic",
                "array(struct(CAST(NULL AS STRING) AS key, CAST('' AS BINARY) AS value)) AS headers",
            ],
            "a header's key is null",
            marks=pytest.mark.long,  # tests/unit/spark/columns has it, too
        ),
        (["'{created}' AS topic", "repeat('x', 2000000) AS value"], "more than the topic's max.message.bytes, 1048588"),
    ],
)
def test_rows_that_cannot_be_written_fail_in_a_line(
    spark: SparkSession, created: str, options: dict[str, str], columns: list[str], message: str
) -> None:
    df = spark.range(1).selectExpr("'a' AS value")
    for column in columns:
        text, name = column.replace("{created}", created).rsplit(" AS ", 1)
        df = df.withColumn(name, expr(text))
    with pytest.raises(PySparkException) as failed:
        write(df, options)
    assert message in message_of(failed.value)


def test_a_stream_and_its_repeated_batch(
    spark: SparkSession, cluster: LocalCluster, created: str, options: dict[str, str], tmp_path: Path
) -> None:
    """A driver that dies before it could note that a batch was written repeats it: rows are doubled, and found out."""
    spark.range(0, 200, 1, 2).selectExpr("CAST(id % 50 AS STRING) AS value", "id").write.parquet(str(tmp_path / "in"))
    more = {"topic": created, "deduplicationHeaders": "true", "checkpointLocation": str(tmp_path / "checkpoint")}

    def run() -> None:
        stream = spark.readStream.schema("value STRING, id LONG").parquet(str(tmp_path / "in"))
        started = stream.writeStream.format("minikafka").options(**options, **more).trigger(availableNow=True).start()
        started.awaitTermination(120)

    run()
    before = read_by_librdkafka(cluster, created, 200)
    assert all([name for name, _ in message.headers()] == [ORIGIN_HEADER] for message in before)
    assert len({message.headers()[0][1] for message in before}) == 200
    shutil.rmtree(tmp_path / "checkpoint" / "commits")
    run()
    assert len(read_by_librdkafka(cluster, created, 400)) == 400

    read = {**options, "subscribe": created, "includeHeaders": "true", "startingOffsets": "earliest"}
    df = spark.read.format("minikafka").options(**read).load()
    counts = {row.value.decode(): row["count"] for row in deduplicated(df).groupBy("value").count().collect()}
    assert counts == {str(number): 4 for number in range(50)}, "rows that are merely equal are kept"
    stream = deduplicated(spark.readStream.format("minikafka").options(**read).load())
    query = stream.writeStream.format("memory").queryName("once").trigger(availableNow=True).start()
    try:
        query.awaitTermination(120)
        assert spark.table("once").count() == 200
    finally:
        query.stop()
        spark.catalog.dropTempView("once")
