"""The client for Spark's processes, on real brokers, some of which are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from librdkafka import create_topic
from live_cluster import StartCluster, eventually, leader_of

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import FetchedBatches, LogTruncatedError, NoOffsetError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import EARLIEST, LATEST, OffsetAndEpoch, TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.spark.cluster import Cluster, cluster_of
from minikafka.spark.options import ClientSettings


@dataclass
class Encoded:
    """As ``columns.encode`` makes them."""

    data: bytearray
    record_count: int


def encoded(*values: bytes, timestamp: int = 0) -> Any:
    return Encoded(build_batch([Record(-1, timestamp, None, value) for value in values]), len(values))


def settings_of(cluster: LocalCluster, **settings: Any) -> ClientSettings:
    return ClientSettings(cluster.bootstrap_servers, **settings)


@pytest.fixture
def facade(cluster: LocalCluster) -> Cluster:
    return cluster_of(settings_of(cluster))


def records(taken: Iterable[FetchedBatches]) -> Iterator[tuple[int, bytes | None]]:
    """What a caller makes of it: (offset, value) of what lies within."""
    for fetched in taken:
        for at, header in fetched.batches:
            for record in iter_records(fetched.buffer, at, header):
                if fetched.start_offset <= record.offset < fetched.end_offset:
                    yield record.offset, record.value


def write(facade: Cluster, tp: TopicPartition, count: int, *, first: int = 0) -> None:
    """Values are the offsets, three in a batch."""
    with facade.writer() as writer:
        for base in range(first, first + count, 3):
            values = [b"%d" % n for n in range(base, min(base + 3, first + count))]
            writer.send(tp.topic, tp.partition, encoded(*values, timestamp=1_000_000 + base))


def numbered(first: int, last: int) -> list[tuple[int, bytes | None]]:
    return [(n, b"%d" % n) for n in range(first, last)]


def test_what_was_written_is_read_in_any_range(facade: Cluster, created: str) -> None:
    tp = TopicPartition(created, 1)
    assert facade.partitions([created])[1] == tp
    assert created in facade.topics()
    write(facade, tp, 30)
    assert facade.offsets([tp], EARLIEST)[tp].offset == 0
    end = facade.offsets([tp], LATEST)[tp]
    assert (end.offset, end.epoch >= 0) == (30, True)
    assert facade.offsets_for_times({tp: 1_000_007})[tp].offset in (6, 7, 8, 9)
    assert facade.offsets_for_times({tp: 2_000_000}) == {}
    for first, last in ((0, 30), (0, 1), (4, 5), (1, 29), (29, 30), (7, 7)):
        taken = list(facade.read_batches(tp, first, last))
        assert list(records(taken)) == numbered(first, last)
        assert all(header.base_offset < last for fetched in taken for _, header in fetched.batches)
    assert list(records(facade.read_batches(tp, OffsetAndEpoch(3, end.epoch), end))) == numbered(3, 30)
    assert facade.truncated({tp: end}) == {}


def test_a_large_partition_comes_in_pieces_while_the_caller_works(cluster: LocalCluster, created: str) -> None:
    facade = cluster_of(settings_of(cluster, max_partition_fetch_bytes=100_000))
    tp = TopicPartition(created, 0)
    with facade.writer() as writer:
        for _ in range(100):
            writer.send(*tp, encoded(b"." * 10_000))
    reading = facade.read_batches(tp, 0, 100)
    first = next(reading)
    assert first.end_offset < 100
    assert len(first.buffer) <= 120_000
    assert len(list(records([first, *reading]))) == 100
    again = facade.read_batches(tp, 0, 100)
    next(again)
    again.close()  # half-way
    assert len(list(records(facade.read_batches(tp, 50, 100)))) == 50


def test_what_cannot_be_read_or_written_says_so(cluster: LocalCluster, facade: Cluster, created: str) -> None:
    tp = TopicPartition(created, 0)
    write(facade, tp, 3)
    with pytest.raises(KafkaError, match="topic 'no-such' not found") as raised:
        facade.partitions([created, "no-such"])
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(NoOffsetError, match=f"{tp} does not contain offset 50"):
        list(facade.read_batches(tp, 50, 60))
    with pytest.raises(KafkaError, match=f"reading {tp} from 0 to 9: no record from offset 3 on arrived within 0.3 s"):
        list(facade.read_batches(tp, 0, 9, timeout_ms=300))
    with pytest.raises(KafkaError, match="has partitions 0 to"), facade.writer() as writer:
        writer.send(created, 99, encoded(b"?"))
    with pytest.raises(KafkaError, match=r"max\.message\.bytes"), facade.writer() as writer:
        writer.send(created, 0, encoded(b"." * 2_000_000))  # refused by the broker, so told by the flush at the end
    nobody = cluster_of(ClientSettings("127.0.0.1:1", max_block_ms=500))
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        nobody.topics()
    assert list(records(facade.read_batches(tp, 0, 3))) == numbered(0, 3)


def test_a_log_that_is_not_what_it_was_is_not_read(facade: Cluster, created: str) -> None:
    tp = TopicPartition(created, 0)
    write(facade, tp, 30)
    end = facade.offsets([tp], LATEST)[tp]
    gone = OffsetAndEpoch(50, end.epoch)  # as if an unclean election had lost twenty records
    assert facade.truncated({tp: gone, TopicPartition(created, 1): OffsetAndEpoch(7, -1)}) == {tp: (30, end.epoch)}
    with pytest.raises(LogTruncatedError, match=r"truncated below offset 50, .* the logs diverge at offset 30"):
        next(facade.read_batches(tp, 0, gone))
    with pytest.raises(LogTruncatedError, match="truncated below offset 50"):
        next(facade.read_batches(tp, gone, 60))
    assert list(records(facade.read_batches(tp, 0, end))) == numbered(0, 30)


def test_an_error_is_told_once_and_spoils_nothing(facade: Cluster, created: str) -> None:
    tp = TopicPartition(created, 0)
    with facade.writer() as writer:
        writer.send(*tp, encoded(b"0"))
        writer.flush()
        with pytest.raises(ZeroDivisionError), facade.writer() as other:
            other.send(created, 1, bytearray(1 // 0))
    write(facade, tp, 5, first=1)
    assert list(records(facade.read_batches(tp, 0, 6))) == numbered(0, 6)


def test_many_threads_share_a_cluster(facade: Cluster, created: str) -> None:
    found: dict[int, list[tuple[int, bytes | None]]] = {}

    def work(partition: int) -> None:
        tp = TopicPartition(created, partition % 3)
        if partition < 3:
            write(facade, tp, 300)
        eventually(lambda: facade.offsets([tp], LATEST)[tp].offset == 300, "the other thread's records")
        found[partition] = list(records(facade.read_batches(tp, 0, 300)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {n: numbered(0, 300) for n in range(6)}


def test_a_forked_process_starts_anew(cluster: LocalCluster, facade: Cluster, created: str) -> None:
    """As PySpark's daemon forks its workers, here with a parent that is connected already."""
    tp = TopicPartition(created, 2)
    write(facade, tp, 5)
    child = os.fork()
    if not child:
        try:
            ours = cluster_of(settings_of(cluster))
            is_well = ours is not facade and list(records(ours.read_batches(tp, 0, 5))) == numbered(0, 5)
        except BaseException:
            is_well = False
        os._exit(0 if is_well else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert list(records(facade.read_batches(tp, 0, 5))) == numbered(0, 5)


def test_a_process_ends_without_complaint_in_the_middle_of_a_reading(
    cluster: LocalCluster, facade: Cluster, created: str
) -> None:
    write(facade, TopicPartition(created, 0), 9)
    script = f"""
from minikafka.model import TopicPartition
from minikafka.spark.cluster import cluster_of
from minikafka.spark.options import ClientSettings

reading = cluster_of(ClientSettings({cluster.bootstrap_servers!r})).read_batches(TopicPartition({created!r}, 0), 0, 20)
print(next(reading).end_offset)
"""
    # Every warning, but not asyncio's debugging mode, which complains of a machine that is slow.
    ended = subprocess.run([sys.executable, "-W", "always", "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "9\n", "")


def test_leaders_that_die_are_replaced_while_reading_and_writing(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    facade = cluster_of(settings_of(cluster, max_partition_fetch_bytes=2_000))
    tp = TopicPartition(create_topic(cluster, "t"), 0)
    with facade.writer() as writer:
        for base in range(0, 600, 3):
            if base == 300:
                writer.flush()
                cluster.kill(leader_of(cluster, "t"))
            writer.send(*tp, encoded(*(b"%d" % n for n in range(base, base + 3))))
    end = facade.offsets([tp], LATEST)[tp]
    assert end.offset == 600
    cluster.start()
    cluster.wait_in_sync()
    reading = facade.read_batches(tp, 0, end)
    first = next(reading)
    assert first.end_offset < 300, "there is more to be read"
    cluster.kill(leader_of(cluster, "t"))
    assert list(records([first, *reading])) == numbered(0, 600)
    assert facade.truncated({tp: end}) == {}
