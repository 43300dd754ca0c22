"""Topics to a lake and back: every part of every record, each offset once, whatever is killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from live_cluster import eventually, wait_until_known
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import KafkaError
from minikafka.spark.pipelines.archive import archive, read_lake
from minikafka.spark.pipelines.replay import replay
from minikafka.spark.pipelines.replay.marks import MARK
from minikafka.spark.pipelines.running import PipelineError, Progress

DAY_MS = 86_400_000
JAVA_STARTS_S = 240.0  # on a machine that is busy
FAST_JAVA = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def create(cluster: LocalCluster, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result()


def write(cluster: LocalCluster, topic: str, count: int, partitions: int, *, first: int = 0) -> None:
    """Null keys, tombstones, headers, and timestamps of several days, in no order."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(first, first + count):
        producer.produce(
            topic,
            None if number % 11 == 0 else f"value {number}",
            None if number % 7 == 0 else f"key {number % 50}",
            partition=number % partitions,
            timestamp=1 + (number % 3) * DAY_MS + number,
            headers=[("n", str(number).encode()), ("null", None)] if number % 2 else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def stored(cluster: LocalCluster, topic: str, partitions: int) -> list[tuple[Any, ...]]:
    """What librdkafka reads: ``(partition, offset, key, value, timestamp in ms, headers without marks)``."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "x", "enable.auto.commit": False})
    rows = []
    for partition in range(partitions):
        tp = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(tp, 30)
        consumer.assign([tp])
        for _ in range(end):
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            headers = [each for each in message.headers() or [] if each[0] != MARK]
            rows.append((partition, message.offset(), message.key(), message.value(), message.timestamp()[1], headers))
    consumer.close()
    return rows


def in_lake(df: DataFrame) -> list[tuple[Any, ...]]:
    """The same of a lake."""
    columns = df.selectExpr("partition", "offset", "key", "value", "unix_millis(timestamp)", "headers")
    as_bytes = lambda data: None if data is None else bytes(data)  # noqa: E731
    return [
        (row[0], row[1], as_bytes(row[2]), as_bytes(row[3]), row[4], [(h[0], as_bytes(h[1])) for h in row[5] or []])
        for row in columns.orderBy("partition", "offset").collect()
    ]


def test_to_a_lake_and_back(spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    lake, servers = tmp_path / "lake", cluster.bootstrap_servers
    create(cluster, topic, 2)
    write(cluster, topic, 300, 2)
    done = archive(spark, topics=[topic], to=lake, bootstrap_servers=servers, offsets_per_commit=120, compact_at=2)
    assert (done.new_records, done.commits) == (300, 3)
    assert done.compacted_files > 0
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    eventually(lambda: len(admin.list_topics(topic).topics[topic].partitions) == 3, "a third partition")
    write(cluster, topic, 90, 3, first=300)
    again = archive(spark, to=lake, bootstrap_servers=servers, compact_at=0)
    assert (again.new_records, again.topics[0].records, again.topics[0].partitions) == (90, 390, 3)
    assert archive(spark, to=lake, bootstrap_servers=servers).new_records == 0

    expected = stored(cluster, topic, 3)
    assert in_lake(read_lake(spark, lake)) == expected
    plain = spark.read.parquet(str(lake))
    assert in_lake(plain) == expected
    dates = {str(row[0]) for row in plain.select("date").distinct().collect()}
    assert dates == {"1970-01-01", "1970-01-02", "1970-01-03"}

    create(cluster, f"{topic}-kept", 3)
    first = replay(spark, lake, to=f"{topic}-kept", bootstrap_servers=servers)
    assert (first.new_records, first.keeps_partitions) == (390, True)
    assert stored(cluster, f"{topic}-kept", 3) == expected
    assert replay(spark, lake, to=f"{topic}-kept", bootstrap_servers=servers).new_records == 0

    create(cluster, f"{topic}-narrow", 2)
    assert not replay(spark, lake, to=f"{topic}-narrow", bootstrap_servers=servers).keeps_partitions
    narrow = stored(cluster, f"{topic}-narrow", 2)
    assert sorted(map(repr, (row[2:] for row in narrow))) == sorted(map(repr, (row[2:] for row in expected)))
    partition_of = {(row[2], row[0]) for row in narrow if row[2] is not None}
    assert len(partition_of) == len({key for key, _ in partition_of}), "a key went to two partitions"

    both = [topic, f"{topic}-narrow"]
    assert archive(spark, topics=both, to=lake, bootstrap_servers=servers, add=True).new_records == 390
    once_more = replay(spark, lake, to=f"{topic}-kept", bootstrap_servers=servers, topics=[topic])
    assert once_more.new_records == 0, "what else a lake holds makes no other replay"


def test_files_to_a_topic(spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    create(cluster, topic, 1)
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.csv").write_text("id,name\n" + "".join(f"{n},name {n}\n" for n in range(100)))
    servers = cluster.bootstrap_servers
    assert replay(spark, files, to=topic, bootstrap_servers=servers, key="id", value="name").new_records == 100
    (files / "a.csv").write_text("id,name\n" + "".join(f"{n},name {n}\n" for n in range(130)))
    assert replay(spark, files, to=topic, bootstrap_servers=servers, key="id", value="name").new_records == 30
    assert [row[2:4] for row in stored(cluster, topic, 1)] == [(b"%d" % n, b"name %d" % n) for n in range(130)]
    (tmp_path / "x.jsonl").write_text(json.dumps({"value": "v", "headers": [["h", "1"]], "timestamp": 5}) + "\n{}\n")
    with pytest.raises(PipelineError, match=r"x.jsonl, line 2: field 'value' not found"):
        replay(spark, tmp_path / "x.jsonl", to=topic, bootstrap_servers=servers, kind="records")
    (tmp_path / "large.jsonl").write_text(json.dumps({"value": "v" * 2_000_000}) + "\n")
    with pytest.raises(PipelineError, match=r"^MESSAGE_TOO_LARGE: a row for .* takes 2000\d+ bytes"):
        replay(spark, tmp_path / "large.jsonl", to=topic, bootstrap_servers=servers)
    (tmp_path / "far.jsonl").write_text(json.dumps({"value": "v", "partition": 7}) + "\n")
    with pytest.raises(PipelineError, match=r"has partitions 0 to 0, not 7; give it as many, or say --by-key"):
        replay(spark, tmp_path / "far.jsonl", to=topic, bootstrap_servers=servers, kind="records")
    near = replay(spark, tmp_path / "far.jsonl", to=topic, bootstrap_servers=servers, kind="records", by_key=True)
    assert near.new_records == 1
    with pytest.raises(PipelineError, match=r"--compression must be none, gzip, .* not zip"):
        replay(spark, files, to=topic, bootstrap_servers=servers, compression="zip")


def test_a_topic_that_is_made_anew_meanwhile(
    spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """The new one has the offsets that come next, too; they are not those that were meant."""
    lake = tmp_path / "lake [of] {patterns}*"  # to Spark, if it is not told otherwise
    create(cluster, topic, 1)
    write(cluster, topic, 60, 1)
    expected = stored(cluster, topic, 1)[:30]

    def make_anew(progress: Progress) -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.delete_topics([topic])[topic].result()
        wait_until_known(cluster, topic, 0)
        create(cluster, topic, 1)
        wait_until_known(cluster, topic, 1)
        write(cluster, topic, 90, 1, first=1000)

    with pytest.raises(PipelineError, match=f"{topic} was deleted and created again since it was archived"):
        archive(
            spark,
            topics=[topic],
            to=lake,
            bootstrap_servers=cluster.bootstrap_servers,
            offsets_per_commit=30,
            compact_at=0,
            show=make_anew,
        )
    assert in_lake(read_lake(spark, lake)) == expected


def test_bad_input_is_told_in_a_line(spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    servers = cluster.bootstrap_servers
    with pytest.raises(KafkaError, match=f"topic '{topic}' not found.*minikafka topic create {topic}"):
        archive(spark, topics=[topic], to=tmp_path / "lake", bootstrap_servers=servers)
    with pytest.raises(PipelineError, match="is not a lake; create one with"):
        archive(spark, to=tmp_path / "none", bootstrap_servers=servers)
    create(cluster, topic, 1)
    with pytest.raises(PipelineError, match=r"none not found"):
        replay(spark, tmp_path / "none", to=topic, bootstrap_servers=servers)
    with pytest.raises(PipelineError, match=r"is no lake and holds no .csv or .json"):
        replay(spark, tmp_path, to=topic, bootstrap_servers=servers)


@contextmanager
def verb(cluster: LocalCluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver of its own, with a Java of its own, killed at the end."""
    command = [sys.executable, "-m", "minikafka", "pipeline", *arguments]
    command += ["-b", cluster.bootstrap_servers, "--conf", FAST_JAVA]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def newest_commit(lake: Path) -> int:
    names = (path.name for path in lake.glob("_minikafka/commits/[0-9]*"))
    return max((int(name.partition(".")[0]) for name in names), default=0)


def test_drivers_are_killed(spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    """One while it archives and one while it replays; each offset is in the lake, and in the copy, exactly once."""
    lake, servers, count = tmp_path / "lake", cluster.bootstrap_servers, 20_000
    create(cluster, topic, 3)
    create(cluster, f"{topic}-copy", 3)
    write(cluster, topic, count, 3)
    with verb(cluster, "archive", topic, "--to", str(lake), "--per-commit", "300", "--compact-at", "3") as driver:
        eventually(lambda: newest_commit(lake) >= 2, "two commits", JAVA_STARTS_S)
        time.sleep(random.random())
        assert driver.poll() is None, "it ended before it could be killed"
    before = sum(file.rows for file in _files(lake))
    assert 0 < before < count
    assert archive(spark, to=lake, bootstrap_servers=servers).new_records == count - before
    seen = [row for path in lake.glob("*/*/*.parquet") for row in _places(path)]
    assert sorted(seen) == [(partition, offset) for partition, offset, *_ in stored(cluster, topic, 3)]

    with verb(cluster, "replay", str(lake), "--to", f"{topic}-copy"):
        eventually(lambda: stored(cluster, f"{topic}-copy", 3), "some records", JAVA_STARTS_S)
    replay(spark, lake, to=f"{topic}-copy", bootstrap_servers=servers)
    assert stored(cluster, f"{topic}-copy", 3) == stored(cluster, topic, 3)


def _files(lake: Path) -> list[Any]:
    from minikafka.spark.pipelines.archive.lake import read_manifest

    return list(read_manifest(lake).files.values())


def _places(path: Path) -> list[tuple[int, int]]:
    table = parquet.ParquetFile(path).read(["partition", "offset"])
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
