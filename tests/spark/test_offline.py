"""Log directories of real nodes as DataFrames."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from librdkafka import create_topic, write_by_librdkafka
from live_cluster import eventually
from pyspark.sql import DataFrame, SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.model import TopicPartition
from minikafka.spark.offline import compare_replicas
from minikafka.storage.checkpoints import HIGH_WATERMARK_FILE, OffsetCheckpoint
from minikafka.storage.disk import OsDisk
from minikafka.storage.meta import META_FILE

COUNT = 600


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("minikafka-log").options(**options).load(str(path))


@pytest.fixture(scope="module")
def directory(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the topic's logs on all nodes, made once their checkpoints tell of all that was written."""
    topic = create_topic(cluster, "offline")
    write_by_librdkafka(cluster, topic, COUNT, batch_num_messages="20")
    data = [cluster.layout.data_directory(node_id) for node_id in cluster.node_ids]
    expected = {TopicPartition(topic, partition): COUNT // 3 for partition in range(3)}

    def is_committed(path: Path) -> bool:
        known = OffsetCheckpoint(OsDisk(), str(path), HIGH_WATERMARK_FILE).read()
        return all(known.get(tp) == offset for tp, offset in expected.items())

    eventually(lambda: all(map(is_committed, data)), "the checkpoints of all nodes")
    copy = tmp_path_factory.mktemp("offline") / "copy"
    for path in data:
        copy_logs(path, copy / path.parent.name / path.name, [str(tp) for tp in expected])
    return copy


def copy_logs(log_directory: Path, to: Path, partitions: Sequence[str]) -> None:
    to.mkdir(parents=True)
    for name in (META_FILE, HIGH_WATERMARK_FILE):
        shutil.copy(log_directory / name, to / name)
    for name in partitions:
        shutil.copytree(log_directory / name, to / name)


def test_every_replica_holds_what_was_written(spark: SparkSession, directory: Path) -> None:
    logs = load(spark, directory, topics="offline", includeHeaders="true")
    rows = {(row["replica"], row["offset"] * 3 + row["partition"]): row for row in logs.collect()}
    assert sorted(rows) == [(node_id, number) for node_id in (1, 2, 3) for number in range(COUNT)]
    row = rows[2, 305]
    assert (bytes(row["key"]), bytes(row["value"])) == (b"k305", b"v305")
    assert [(h["key"], h["value"] and bytes(h["value"])) for h in row["headers"]] == [("n", b"305"), ("null", None)]
    assert (row["highWatermark"], row["segment"]) == (COUNT // 3, 0)
    assert compare_replicas(logs).isEmpty()


def test_one_replica_is_what_the_topic_holds(spark: SparkSession, directory: Path) -> None:
    assert load(spark, directory, subscribe="offline", replicas="one").count() == COUNT


def test_replicas_that_differ_are_found(spark: SparkSession, directory: Path, tmp_path: Path) -> None:
    for node in ("node-1", "node-2", "node-3"):
        copy_logs(directory / node / "data", tmp_path / node, ["offline-1"])
    segment = tmp_path / "node-2" / "offline-1" / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    data[-3] ^= 1  # in the value of the last record
    segment.write_bytes(data)

    with pytest.raises(Exception, match=r"node-2/offline-1/0+\.log is damaged from offset [0-9]+ on"):
        load(spark, tmp_path).count()
    logs = load(spark, tmp_path, mode="permissive")
    (told,) = logs.where("damage IS NOT NULL").collect()
    assert (told["replica"], told["partition"], told["value"]) == (2, 1, None)
    differing = compare_replicas(logs).orderBy("offset").collect()
    assert [row["offset"] for row in differing] == list(range(told["offset"], COUNT // 3))
    assert {tuple(row["missing"]) for row in differing} == {("2",)}
    assert {tuple(c["replica"] for c in row["copies"]) for row in differing} == {("1", "3")}
    unchecked = compare_replicas(load(spark, tmp_path, verifyCrc="false")).collect()
    assert [(row["partition"], row["offset"], row["missing"]) for row in unchecked] == [(1, COUNT // 3 - 1, [])]


def test_a_mistake_is_told_in_a_line(spark: SparkSession, directory: Path) -> None:
    with pytest.raises(Exception, match=r"topic 'of-line' not found in .*; topics there: .*offline"):
        load(spark, directory, topics="of-line").count()
