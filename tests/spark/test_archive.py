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
from deltalake import DeltaTable
from live_cluster import StartCluster, eventually, wait_until_known
from pyspark.sql import DataFrame, SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import KafkaError
from minikafka.spark.pipelines.archive import Lake, archive, read_lake
from minikafka.spark.pipelines.archive.places import AnotherArchiveError
from minikafka.spark.pipelines.replay import replay
from minikafka.spark.pipelines.replay.sources import open_source
from minikafka.spark.pipelines.replay.writing import MARK
from minikafka.spark.pipelines.running import PipelineError, Progress

DAY_MS = 86_400_000
STARTS_S = 240.0  # on a machine that is busy
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
    done = archive(topics=[topic], to=lake, bootstrap_servers=servers, offsets_per_commit=120, compact_at=2)
    assert (done.new_records, done.commits) == (300, 3)
    assert done.compacted_files > 0
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    eventually(lambda: len(admin.list_topics(topic).topics[topic].partitions) == 3, "a third partition")
    write(cluster, topic, 90, 3, first=300)
    again = archive(spark, to=lake, bootstrap_servers=servers, compact_at=0)
    assert (again.new_records, again.topics[0].content.records, again.topics[0].partitions) == (90, 390, 3)
    assert archive(to=lake, bootstrap_servers=servers).new_records == 0

    expected = stored(cluster, topic, 3)
    assert in_lake(read_lake(spark, lake)) == expected
    plain = DeltaTable(lake).to_pyarrow_table()
    assert sorted(zip(plain["partition"].to_pylist(), plain["offset"].to_pylist(), strict=True)) == [
        row[:2] for row in expected
    ]
    assert set(plain["date"].to_pylist()) == {"1970-01-01", "1970-01-02", "1970-01-03"}

    create(cluster, f"{topic}-kept", 3)
    first = replay(spark, lake, to=f"{topic}-kept", bootstrap_servers=servers)
    assert (first.new_records, first.keeps_partitions) == (390, True)
    assert stored(cluster, f"{topic}-kept", 3) == expected
    assert replay(spark, lake, to=f"{topic}-kept", bootstrap_servers=servers).new_records == 0


@pytest.mark.long
def test_a_lake_to_fewer_partitions_and_these_to_the_lake(
    spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    lake, servers = tmp_path / "lake", cluster.bootstrap_servers
    create(cluster, topic, 3)
    write(cluster, topic, 390, 3)
    assert archive(topics=[topic], to=lake, bootstrap_servers=servers).new_records == 390
    name, expected = open_source(spark, lake, topics=[topic]).name, stored(cluster, topic, 3)

    create(cluster, f"{topic}-narrow", 2)
    assert not replay(spark, lake, to=f"{topic}-narrow", bootstrap_servers=servers).keeps_partitions
    narrow = stored(cluster, f"{topic}-narrow", 2)
    assert sorted(map(repr, (row[2:] for row in narrow))) == sorted(map(repr, (row[2:] for row in expected)))
    partition_of = {(row[2], row[0]) for row in narrow if row[2] is not None}
    assert len(partition_of) == len({key for key, _ in partition_of}), "a key went to two partitions"

    both = [topic, f"{topic}-narrow"]
    assert archive(topics=both, to=lake, bootstrap_servers=servers, add=True).new_records == 390
    once_more = open_source(spark, lake, topics=[topic])
    assert once_more.name == name, "what else a lake holds makes no other replay"
    assert once_more.rows.count() == 390


@pytest.mark.long
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
    lake = tmp_path / "lake {of,no} patterns*"  # to Spark, if it is not told otherwise
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
        archive(topics=[topic], to=tmp_path / "lake", bootstrap_servers=servers)
    with pytest.raises(PipelineError, match="is not a lake; create one with"):
        archive(to=tmp_path / "none", bootstrap_servers=servers)
    with pytest.raises(PipelineError, match="--on-divergence must be error or mark, not skip"):
        archive(topics=[topic], to=tmp_path / "lake", bootstrap_servers=servers, on_divergence="skip")
    create(cluster, topic, 1)
    with pytest.raises(PipelineError, match=r"none not found"):
        replay(spark, tmp_path / "none", to=topic, bootstrap_servers=servers)
    with pytest.raises(PipelineError, match=r"is no lake and holds no .csv or .json"):
        replay(spark, tmp_path, to=topic, bootstrap_servers=servers)


@contextmanager
def verb(cluster: LocalCluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver of its own, with a Java of its own, killed at the end."""
    command = [sys.executable, "-m", "minikafka", "pipeline", *arguments]
    command += ["-b", cluster.bootstrap_servers]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def newest_commit(lake: Path) -> int:
    return max((int(path.stem) for path in lake.glob("_delta_log/[0-9]*.json")), default=0)


@pytest.mark.long
def test_a_driver_is_killed_while_it_archives(cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    """Each offset is in the lake exactly once."""
    lake, count = tmp_path / "lake", 8_000
    create(cluster, topic, 3)
    write(cluster, topic, count, 3)
    with verb(cluster, "archive", topic, "--to", str(lake), "--per-commit", "300", "--compact-at", "3") as driver:
        eventually(lambda: newest_commit(lake) >= 3, "commits", STARTS_S)
        time.sleep(random.random())
        assert driver.poll() is None, "it ended before it could be killed"
    before = Lake.open(lake).content(topic).records
    assert 0 < before < count
    assert archive(to=lake, bootstrap_servers=cluster.bootstrap_servers).new_records == count - before
    assert places(lake) == [(partition, offset) for partition, offset, *_ in stored(cluster, topic, 3)]


@pytest.mark.long
def test_a_driver_is_killed_while_it_replays(
    spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """Each record is in the copy exactly once."""
    lake, servers = tmp_path / "lake", cluster.bootstrap_servers
    create(cluster, topic, 3)
    create(cluster, f"{topic}-copy", 3)
    write(cluster, topic, 20_000, 3)
    archive(topics=[topic], to=lake, bootstrap_servers=servers)
    with verb(cluster, "replay", str(lake), "--to", f"{topic}-copy", "--conf", FAST_JAVA):
        eventually(lambda: stored(cluster, f"{topic}-copy", 3), "some records", STARTS_S)
    replay(spark, lake, to=f"{topic}-copy", bootstrap_servers=servers)
    assert stored(cluster, f"{topic}-copy", 3) == stored(cluster, topic, 3)


def test_two_archives_of_the_same_topics(cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    """While one works, the other one commits: the first one's commit is refused, and it ends."""
    lake, servers = tmp_path / "lake", cluster.bootstrap_servers
    create(cluster, topic, 2)
    write(cluster, topic, 300, 2)
    meanwhile: list[int] = []

    def the_other_one(progress: Progress) -> None:
        if not meanwhile:
            meanwhile.append(archive(to=lake, bootstrap_servers=servers, compact_at=0).new_records)

    with pytest.raises(AnotherArchiveError, match="another archive writes to"):
        archive(topics=[topic], to=lake, bootstrap_servers=servers, offsets_per_commit=100, show=the_other_one)
    assert meanwhile == [200]
    assert places(lake) == [(partition, offset) for partition in (0, 1) for offset in range(150)]


def test_records_that_an_unclean_election_lost(start_cluster: StartCluster, topic: str, tmp_path: Path) -> None:
    """Five archived ones are lost, and the log has others in their places and more, so that its end shows nothing."""
    cluster, lake = start_cluster(), tmp_path / "lake"
    servers = cluster.bootstrap_servers
    admin, producer = (kind({"bootstrap.servers": servers}) for kind in (AdminClient, Producer))
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    admin.create_topics([NewTopic(topic, 1, 2, config=settings)])[topic].result()
    cluster.wait_in_sync()
    leader = cluster.leader_of(topic)
    (follower,) = {*admin.list_topics(topic).topics[topic].partitions[0].replicas} - {leader}

    def send(*values: str) -> None:
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0

    send(*(f"kept {number}" for number in range(5)))
    cluster.kill(follower)
    send(*(f"lost {number}" for number in range(5)))
    assert archive(topics=[topic], to=lake, bootstrap_servers=servers).new_records == 10
    cluster.kill(leader)
    cluster.start_node(follower)
    send(*(f"new {number}" for number in range(8)))
    with pytest.raises(PipelineError, match=f"{topic}-0 was archived up to offset 10, .* the same only up to 5: "):
        archive(to=lake, bootstrap_servers=servers)
    assert len(places(lake)) == 10

    done = archive(to=lake, bootstrap_servers=servers, on_divergence="mark")
    assert (done.new_records, {str(tp): offset for tp, offset in done.diverged.items()}) == (8, {f"{topic}-0": 5})
    rows = sorted(DeltaTable(lake).to_pyarrow_table().to_pylist(), key=lambda row: (row["offset"], row["value"]))
    present = [row["value"].decode() for row in rows if not row["diverged"]]
    assert present == [f"kept {number}" for number in range(5)] + [f"new {number}" for number in range(8)]
    assert [row["value"].decode() for row in rows if row["diverged"]] == [f"lost {number}" for number in range(5)]
    again = archive(to=lake, bootstrap_servers=servers)
    assert (again.new_records, again.diverged) == (0, {})


def places(lake: Path) -> list[tuple[int, int]]:
    table = DeltaTable(lake).to_pyarrow_table(columns=["partition", "offset"])
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
