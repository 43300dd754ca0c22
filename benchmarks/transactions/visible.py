"""From EndTxn to the records at a read_committed consumer, on a cluster that does nothing else.

librdkafka writes a record to each of three partitions, flushes, and commits. The clock starts with the commit, and
stops when another librdkafka has handed out the last of the three. There is a pause before each transaction.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.clusters import create_topic, running_cluster
from benchmarks.report import Figure, Run, Target, percentile

SUMMARY = "from EndTxn to the records at a read_committed consumer"
TOPIC: Final = "visible"
PARTITIONS: Final = 3
WARM: Final = 20
TRANSACTIONS: Final = 500
PAUSE_S: Final = (0.02, 0.08)
_PATIENCE_S: Final = 30.0

Arrivals = SimpleQueue[tuple[bytes, float]]


def run(run: Run) -> list[Figure]:
    """Five hundred transactions, one at a time."""
    with running_cluster() as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        milliseconds = [s * 1000 for s in measure_visible(run, cluster.bootstrap_servers, TOPIC, PARTITIONS)]
    note = f"{len(milliseconds)} transactions of {PARTITIONS} partitions"
    return [
        Figure("EndTxn to visible, p50", percentile(milliseconds, 0.5), "ms", Target("<", 15), note),
        Figure("EndTxn to visible, p99", percentile(milliseconds, 0.99), "ms", Target("<", 60)),
        Figure("EndTxn to visible, max", max(milliseconds), "ms"),
    ]


def measure_visible(run: Run, servers: str, topic: str, partitions: int) -> list[float]:
    """Seconds of each transaction."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "visible", "log_level": 0})
    producer.init_transactions(_PATIENCE_S)
    seconds = []
    with _reading(servers, topic, partitions) as arrivals:
        for number in range(WARM + run.times(TRANSACTIONS)):
            time.sleep(random.uniform(*PAUSE_S))
            value = b"%d" % number
            producer.begin_transaction()
            for partition in range(partitions):
                producer.produce(topic, value, partition=partition)
            assert producer.flush(_PATIENCE_S) == 0
            began = time.monotonic()
            producer.commit_transaction(_PATIENCE_S)
            seconds.append(_last_of(arrivals, value, partitions) - began)
    return seconds[WARM:]


def _last_of(arrivals: Arrivals, value: bytes, count: int) -> float:
    times: list[float] = []
    while len(times) < count:
        found, at = arrivals.get(timeout=_PATIENCE_S)
        assert found == value, f"{found!r} came instead of {value!r}"
        times.append(at)
    return max(times)


@contextmanager
def _reading(servers: str, topic: str, partitions: int) -> Iterator[Arrivals]:
    """Values and when they came, of all that is committed while the block lasts."""
    arrivals: Arrivals = SimpleQueue()
    done = threading.Event()
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in range(partitions)])
    for tp in (TopicPartition(topic, partition) for partition in range(partitions)):
        consumer.get_watermark_offsets(tp, _PATIENCE_S)
    thread = threading.Thread(target=_read, args=(consumer, arrivals, done))
    thread.start()
    try:
        time.sleep(1)  # it has found its first offsets then
        yield arrivals
    finally:
        done.set()
        thread.join()
        consumer.close()


def _read(consumer: Any, arrivals: Arrivals, done: threading.Event) -> None:
    while not done.is_set():
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            arrivals.put((message.value(), time.monotonic()))
