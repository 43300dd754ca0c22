"""Reads topics to their ends with librdkafka, whoever wrote them."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from minikafka.chaos.history import History
from minikafka.chaos.rounds.following import READER
from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.records import PARTITIONS, identity, place

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

STALL_S: Final = 30.0
ASK_S: Final = 10.0
AT_ONCE: Final = 2_000
TICK_S: Final = 0.02
CLIENT_ID: Final = "chaos"
COMMON: Final = {
    "client.id": CLIENT_ID,
    "log_level": 0,
    "socket.timeout.ms": 5_000,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
}
"""A request to a node that hangs ends before the spell does."""


def silent() -> logging.Logger:
    """A logger for clients: brokers go away here on purpose."""
    logger = logging.Logger("chaos")
    logger.addHandler(logging.NullHandler())
    return logger


def make_consumer(
    cluster: Reached, isolation: str, *, on_commit: Callable[..., None] | None = None, **settings: str | int | bool
) -> Consumer:
    """Without a group, unless ``settings`` name one."""
    from confluent_kafka import Consumer

    named = {name.replace("_", "."): value for name, value in settings.items()}
    own = {"group.id": "none", "enable.auto.commit": False, "isolation.level": isolation}
    callbacks = {"error_cb": lambda error: None} | ({} if on_commit is None else {"on_commit": on_commit})
    limits = {"auto.offset.reset": "error", "fetch.wait.max.ms": 200, "fetch.error.backoff.ms": 50}
    return Consumer(
        {**COMMON, **own, **limits, **named, **cluster.by_librdkafka, **callbacks},
        logger=silent(),
    )


def assign_all(consumer: Consumer, topic: str) -> None:
    """From the first record on."""
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])


def items_of(messages: list[Message]) -> list[list[Any]]:
    """Place, id and offset of each record."""
    return [
        [place(each.topic(), each.partition()), identity(_bytes(each.key()), _bytes(each.value())), each.offset()]
        for each in messages
        if each.error() is None
    ]


def _bytes(given: str | bytes | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given


def ends_of(consumer: Consumer, topic: str) -> dict[int, int]:
    """Where each partition ends for this consumer: its last stable offset, if that is read_committed.

    Who is not told of all of them within 30 s asks no more.
    """
    from confluent_kafka import KafkaException, TopicPartition

    ends: dict[int, int] = {}
    deadline = time.monotonic() + STALL_S
    asked = deque(range(PARTITIONS))
    while asked and (left_s := deadline - time.monotonic()) > 0:
        n = asked.popleft()
        try:
            ends[n] = consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=min(ASK_S, left_s))[1]
        except KafkaException:
            asked.append(n)
            time.sleep(TICK_S)
    return ends


def read_all(cluster: Reached, topic: str, history: History, *, committed: bool) -> None:
    """Read a topic from the beginning to the end with a new consumer. Who gets no further for 30 s stops.

    What it did not get then counts as unseen where the cluster still answers. A partition whose end nobody told was
    not read to the end: of it nothing is known.
    """
    from confluent_kafka import KafkaError

    suffix = "_committed" if committed else ""
    process = f"{READER}{suffix}"
    isolation = "read_committed" if committed else "read_uncommitted"
    consumer = make_consumer(cluster, isolation, enable_partition_eof=True, auto_offset_reset="earliest")
    names = [place(topic, n) for n in range(PARTITIONS)]
    ends = ends_of(consumer, topic)
    assign_all(consumer, topic)
    history.append(process, "ok", f"assign{suffix}", [[name, 0] for name in names])
    unread = dict(ends)
    progress_at = time.monotonic()
    while unread and time.monotonic() - progress_at < STALL_S:
        messages = consumer.consume(AT_ONCE, 0.2)
        if handed := items_of(messages):
            history.append(process, "ok", f"poll{suffix}", handed)
            progress_at = time.monotonic()
        for each in messages:  # a position does not pass the end of a transaction; an end of the partition does
            error, partition, offset = each.error(), each.partition() or 0, each.offset() or 0
            is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if is_end and offset >= unread.get(partition, 0):
                unread.pop(partition, None)
    answering = ends_of(consumer, topic) if unread else ends
    read = [place(topic, n) for n in sorted(ends) if n not in unread or n in answering]
    history.append(process, "ok", f"drained{suffix}", read)
    consumer.close()


def note_stable_ends(cluster: Reached, history: History, topic: str, within_s: float) -> None:
    """Wait until no transaction can be open any more, and write down up to where readers get."""
    seeing = {name: make_consumer(cluster, name) for name in ("read_committed", "read_uncommitted")}
    deadline = time.monotonic() + within_s
    while True:
        stable, ends = (ends_of(consumer, topic) for consumer in seeing.values())
        if stable == ends or time.monotonic() > deadline:
            break
        time.sleep(10 * TICK_S)
    for consumer in seeing.values():
        consumer.close()
    history.append("reader", "ok", "stable_end", [[place(topic, n), stable.get(n, -1), end] for n, end in ends.items()])
