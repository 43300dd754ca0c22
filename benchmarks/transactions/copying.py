"""Consume, transform, produce in transactions of 100 records with their offsets, against Apache Kafka on this machine.

Both clusters are up all the time, and copy by turns: three nodes each, three copies of everything, topics of the same
shape, the same settings where they matter, the same clients. A turn's clock starts once the copier is warm. The ratio
is the median of those of the pairs.

librdkafka speaks version 1 of transactions. While the markers of the last transaction are written, Apache Kafka refuses
the offsets of the next (CONCURRENT_TRANSACTIONS), and librdkafka waits for ``retry.backoff.ms``, by default 100 ms;
minikafka lets the request wait. So there are turns with 5 ms, too. Kafka's own ``TransactionalMessageCopier`` speaks
version 2; it copies one partition to another, in batches of 512 bytes.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from itertools import count
from statistics import median
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.apache_kafka import VERSION, NotHereError, class_path, running_apache_kafka
from benchmarks.clusters import broker_cpu, running_cluster
from benchmarks.report import Figure, Run, Target, percentile
from benchmarks.transactions.visible import measure_visible

SUMMARY = "a topic copied in transactions of 100 records, against Apache Kafka"
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "10",
    "transaction.state.log.num.partitions": "10",
    "transaction.state.log.min.isr": "2",
}
INPUT: Final = "input"
OUTPUT: Final = "output"
PARTITIONS: Final = 3
VALUE_SIZE: Final = 100
RECORDS: Final = 100  # of a transaction
WARM: Final = 20
TRANSACTIONS: Final = 100
PAIRS: Final = 7
BACKOFF_MS: Final = 5
OURS: Final = "minikafka"
THEIRS: Final = "Apache Kafka"
_PATIENCE_S: Final = 60.0

_numbers = count()


class Side(NamedTuple):
    """A cluster: its name, where it is, and the CPU seconds that its nodes have used."""

    name: str
    servers: str
    cpu_seconds: Callable[[], float]


class Turn(NamedTuple):
    """Transactions a second, and milliseconds of CPU of all nodes for each."""

    per_s: float
    cpu_ms: float | None


def run(run: Run) -> list[Figure]:
    """With librdkafka, with one that does not pause long, and with Kafka's own client."""
    with _sides(run) as (sides, jars):
        for side in sides:
            _prepare(side.servers)
            for _ in range(run.times(3)):  # until the JVMs have compiled what they need
                _copy(side)
        copiers: dict[str, Callable[[Side], Turn]] = {
            "librdkafka": _copy,
            f"librdkafka, pauses of {BACKOFF_MS} ms": partial(_copy, backoff_ms=BACKOFF_MS),
        }
        if jars:
            copiers["Kafka's own client"] = lambda side: _copy_with_java(side, jars)
        figures = [figure for client, copy in copiers.items() for figure in _compare(run, client, sides, copy)]
        for side in sides:
            seconds = measure_visible(run, side.servers, OUTPUT, PARTITIONS)
            note = f"p99 {percentile(seconds, 0.99) * 1000:.1f} ms" + "; both clusters up" * (len(sides) > 1)
            figures.append(Figure(f"EndTxn to visible, p50, {side.name}", median(seconds) * 1000, "ms", note=note))
        return figures


@contextmanager
def _sides(run: Run) -> Iterator[tuple[list[Side], str]]:
    """Ours, and Apache Kafka with its class path where that is to be had."""
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(SETTINGS))
        sides = [Side(OURS, cluster.bootstrap_servers, lambda: sum(broker_cpu(cluster).values()))]
        try:
            jars = class_path()
            theirs = stack.enter_context(running_apache_kafka(jars, SETTINGS))
        except NotHereError as error:
            run.say(f"not compared with Apache Kafka {VERSION}: {error}")
            yield sides, ""
            return
        run.say(f"compared with Apache Kafka {VERSION}")
        yield [*sides, Side(THEIRS, theirs.bootstrap_servers, theirs.cpu_seconds)], jars


def _prepare(servers: str) -> None:
    """The topics, and an input for one turn."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topics = [NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"}) for name in (INPUT, OUTPUT)]
    for created in admin.create_topics(topics).values():
        created.result(_PATIENCE_S)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0})
    for number in range(PARTITIONS * (WARM + TRANSACTIONS) * RECORDS):
        producer.produce(INPUT, b"%0*d" % (VALUE_SIZE, number), partition=number % PARTITIONS)
        if number % 10_000 == 0:
            assert producer.flush(_PATIENCE_S) == 0
    assert producer.flush(_PATIENCE_S) == 0


def _compare(run: Run, client: str, sides: list[Side], copy: Callable[[Side], Turn]) -> list[Figure]:
    turns: dict[str, list[Turn]] = {side.name: [] for side in sides}
    for number in range(run.times(PAIRS)):
        for side in sides if number % 2 else sides[::-1]:
            turns[side.name].append(copy(side))
        said = ", ".join(f"{name} {of[-1].per_s:.1f}/s" for name, of in turns.items())
        run.say(f"{client}, turn {number + 1}: {said}")
    figures = [
        Figure(f"  {name}, {client}", median(turn.per_s for turn in of), "transactions/s", note=_note(of, len(sides)))
        for name, of in turns.items()
    ]
    if len(sides) < 2:
        return figures
    what = f"copying with {client}, minikafka against Apache Kafka"
    ratio = median(ours.per_s / theirs.per_s for ours, theirs in zip(turns[OURS], turns[THEIRS], strict=True))
    note = f"median of {len(turns[OURS])} pairs of turns, Apache Kafka {VERSION}"
    return [Figure(what, ratio, "", Target(">=", 1.0), note), *figures]


def _note(turns: list[Turn], sides: int) -> str:
    known = [turn.cpu_ms for turn in turns if turn.cpu_ms is not None]
    said = [f"{median(known):.1f} ms of CPU of all nodes for each"] if known else []
    return "; ".join([*said, "not compared with Apache Kafka"] if sides < 2 else said)


# -- librdkafka -------------------------------------------------------------------------------------------------------


def _copy(side: Side, *, backoff_ms: int = 100) -> Turn:
    number = next(_numbers)
    common = {"bootstrap.servers": side.servers, "retry.backoff.ms": backoff_ms, "log_level": 0}
    producer = Producer({**common, "transactional.id": f"copier-{number}"})
    consumer = Consumer(
        {
            **common,
            "group.id": f"copiers-{number}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "queued.min.messages": 1_000,  # or it reads all of the input before the clock starts
        }
    )
    try:
        producer.init_transactions(_PATIENCE_S)
        consumer.subscribe([INPUT])
        for _ in range(WARM):
            _copy_some(consumer, producer)
        began, cpu = time.monotonic(), side.cpu_seconds()
        for _ in range(TRANSACTIONS):
            _copy_some(consumer, producer)
        seconds, cpu_s = time.monotonic() - began, side.cpu_seconds() - cpu
    finally:
        consumer.close()
    return Turn(TRANSACTIONS / seconds, cpu_s / TRANSACTIONS * 1000)


def _copy_some(consumer: Any, producer: Any) -> None:
    messages = consumer.consume(RECORDS, _PATIENCE_S)
    assert len(messages) == RECORDS, f"{len(messages)} records came within {_PATIENCE_S:g} s"
    producer.begin_transaction()
    for number, message in enumerate(messages):
        assert message.error() is None, message.error()
        producer.produce(OUTPUT, message.value(), partition=number % PARTITIONS)
    producer.send_offsets_to_transaction(_after(messages), consumer.consumer_group_metadata(), _PATIENCE_S)
    producer.commit_transaction(_PATIENCE_S)


def _after(messages: list[Any]) -> list[TopicPartition]:
    ends = {(message.topic(), message.partition()): message.offset() + 1 for message in messages}
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]


# -- Kafka's own client -----------------------------------------------------------------------------------------------


def _copy_with_java(side: Side, jars: str) -> Turn:
    """It says before each transaction when that is and how many records are left."""
    number = next(_numbers)
    command = [
        *("java", "-Xmx256m", "-cp", jars, "org.apache.kafka.tools.TransactionalMessageCopier"),
        *("--broker-list", side.servers, "--input-topic", INPUT, "--input-partition", "0", "--output-topic", OUTPUT),
        *("--consumer-group", f"copiers-{number}", "--transactional-id", f"copier-{number}", "--use-group-metadata"),
        *("--transaction-size", str(RECORDS), "--max-messages", str((WARM + TRANSACTIONS) * RECORDS)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * _PATIENCE_S)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    at = {int(line["remaining"]): _seconds(line["time"]) for line in said}
    warm, last = TRANSACTIONS * RECORDS, min(at)
    assert last == 0, f"{last} records were not copied"
    return Turn(TRANSACTIONS / (at[last] - at[warm]), None)


def _seconds(text: str) -> float:
    return datetime.strptime(text, "%Y/%m/%d %H:%M:%S:%f").timestamp()
