"""What a report says of a topic against what a naive count says."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections import Counter
from typing import NamedTuple

import pytest
from librdkafka import create_topic
from pyspark.sql import SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Producer
from minikafka.errors import KafkaError
from minikafka.spark.brokers import Brokers
from minikafka.spark.pipelines.report import make_report, to_html
from minikafka.spark.pipelines.report.measures import Slots
from minikafka.spark.pipelines.report.scan import records_of, summarised
from minikafka.spark.pipelines.topics import look_at

START_MS = 1_767_225_600_000


class Written(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int

    @property
    def size(self) -> int:
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


def some_records(count: int) -> list[Written]:
    rng = random.Random(7)
    return [
        Written(
            partition=0 if rng.random() < 0.6 else 1,
            key=None if number % 50 == 0 else b"hot" if number % 5 == 0 else b"\xff%d" % rng.randrange(500),
            value=None if number % 40 == 0 else bytes(int(rng.lognormvariate(4, 1))),
            headers=(("trace", b"abc"), ("source", None)) if number % 3 == 0 else (),
            timestamp_ms=START_MS + number * 100,
        )
        for number in range(count)
    ]


def write(cluster: LocalCluster, topic: str, records: list[Written]) -> None:
    async def send() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            await asyncio.gather(
                *[
                    await producer.send(
                        topic,
                        record.value,
                        key=record.key,
                        partition=record.partition,
                        headers=record.headers,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
            )

    asyncio.run(send())


def test_a_report_is_what_was_written(spark: SparkSession, cluster: LocalCluster, topic: str) -> None:
    create_topic(cluster, topic)
    records = some_records(3000)
    write(cluster, topic, records)
    report = make_report(spark, topic, bootstrap_servers=cluster.bootstrap_servers)

    total = report.total
    assert total.records == 3000
    assert total.total_bytes == sum(record.size for record in records)
    assert total.key_bytes == sum(len(record.key or b"") for record in records)
    assert total.keyless == sum(record.key is None for record in records)
    assert total.tombstones == sum(record.value is None for record in records)
    assert (total.first_ms, total.last_ms) == (START_MS, START_MS + 299_900)
    assert total.keys == pytest.approx(len({record.key for record in records if record.key is not None}), rel=0.06)
    sizes = [record.size for record in records]
    assert (total.size_min, total.size_max) == (min(sizes), max(sizes))
    cuts = statistics.quantiles(sizes, n=1000)
    assert cuts[480] <= total.size_quantiles[0] <= cuts[520]
    assert cuts[970] <= total.size_quantiles[2]

    by_partition = Counter(record.partition for record in records)
    assert {
        each.partition: each.measures.records for each in report.partitions if each.measures.records
    } == by_partition
    assert all(each.gaps == 0 for each in report.partitions)
    assert report.skew == pytest.approx(max(by_partition.values()) * len(report.partitions) / 3000)

    slots = report.slots
    by_slot = Counter((record.timestamp_ms - slots.start_ms) // slots.step_ms for record in records)
    assert {slot: each.records for slot, each in enumerate(report.over_time) if each.records} == by_slot
    assert (report.earlier, report.later) == (0, 0)
    assert sum(each.records for each in report.sizes) == pytest.approx(3000, rel=0.01)
    for each in report.sizes:
        assert each.records == pytest.approx(sum(each.low <= size < each.high for size in sizes), abs=40)

    assert report.hot_keys[0] == ("hot", sum(record.key == b"hot" for record in records))
    assert report.header_names == (("trace, source", 1000),)
    assert topic in to_html(report)


def test_records_are_read_once(spark: SparkSession, cluster: LocalCluster, topic: str) -> None:
    create_topic(cluster, topic)
    found = look_at(Brokers(cluster.bootstrap_servers), topic)
    records = records_of(spark, Brokers(cluster.bootstrap_servers), topic, found)
    plan = summarised(records, Slots.over(0, 1, 10))._jdf.queryExecution().executedPlan().toString()
    assert plan.count("BatchScan") == 1


def test_an_empty_topic_and_one_that_is_not_there(spark: SparkSession, cluster: LocalCluster, topic: str) -> None:
    create_topic(cluster, topic)
    report = make_report(spark, topic, bootstrap_servers=cluster.bootstrap_servers)
    assert report.total.records == 0
    assert "no records" in to_html(report)
    with pytest.raises(KafkaError, match="topic 'nowhere' not found; create it first, with"):
        make_report(spark, "nowhere", bootstrap_servers=cluster.bootstrap_servers)
