"""The demonstration's records and its two clients: librdkafka writes, aiokafka reads.

A record is one line of Python's own standard library: the key is its place (``asyncio/tasks.py:77``), the value is the
line. Its id in the history is the key with the checksum of the value, computed again at send, acknowledgement and read.
So a record that changed on the way appears as a lost one and a phantom.
"""

from __future__ import annotations

import os
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from threading import Event, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from minikafka.chaos.history import History

_TICK_S: Final = 0.01
_FLUSH_TIMEOUT_S: Final = 60.0
_READ_STALL_S: Final = 20.0

PRODUCER_SETTINGS: Final[dict[str, str | int | bool]] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "compression.type": "lz4",
    "message.timeout.ms": 120_000,
}


class SourceLine(NamedTuple):
    """A line of a source file: its place, and its bytes without the line end."""

    key: str
    value: bytes


def source_lines(root: str | None = None) -> Iterator[SourceLine]:
    """The lines of the standard library's sources (or of those under `root`), endlessly; keys do not repeat."""
    directory = root or sysconfig.get_paths()["stdlib"]
    for turn in count(1):
        prefix = "" if turn == 1 else f"{turn}/"
        found = False
        for path, name in _source_files(directory):
            with open(path, "rb") as file:
                for number, line in enumerate(file, 1):
                    found = True
                    yield SourceLine(f"{prefix}{name}:{number}", line.rstrip(b"\r\n"))
        if not found:
            raise FileNotFoundError(f"no Python sources in {directory}")


def _source_files(directory: str) -> Iterator[tuple[str, str]]:
    for parent, subdirectories, files in os.walk(directory):
        subdirectories[:] = sorted(set(subdirectories) - {"site-packages", "dist-packages", "__pycache__"})
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(parent, name)
                yield path, os.path.relpath(path, directory)


def record_id(key: str | bytes | None, value: bytes | None) -> str:
    """The id of a record in the history, which the audit computes again from the stored record."""
    text = key if isinstance(key, str) else (key or b"").decode(errors="replace")
    return f"{text}#{crc32(value or b''):08x}"


class SourceProducer(Thread):
    """Sends source lines at an even rate, round robin over the partitions, until :meth:`finish`.

    ``settings`` are librdkafka's, in addition to ``PRODUCER_SETTINGS``.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        history: History,
        rate: int,
        settings: Mapping[str, str | int | bool] = MappingProxyType({}),
    ) -> None:
        super().__init__(name="source-producer", daemon=True)
        from confluent_kafka import Producer

        # Its log is silenced: brokers go away here on purpose.
        silent = {"log_level": 0, "error_cb": lambda error: None}
        self._client = Producer({**PRODUCER_SETTINGS, **settings, **silent, "bootstrap.servers": bootstrap_servers})
        self._topic = topic
        self._partitions = partitions
        self._history = history
        self._rate = rate
        self._finish = Event()
        self._delivered: list[tuple[str, str, int]] = []
        self._failed: list[tuple[str, str]] = []
        self.sent = 0
        self.acknowledged = 0
        self.error: Exception | None = None
        self.on_latency: Callable[[float], None] = lambda seconds: None  # from send to acknowledgement, per record

    def finish(self) -> None:
        """Stop sending, wait for pending records, and end."""
        self._finish.set()
        self.join()
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """End without waiting."""
        self._client.purge()
        self._finish.set()
        self.join()

    def run(self) -> None:
        """The thread: see the class."""
        try:
            self._send_until_finished()
            deadline = time.monotonic() + _FLUSH_TIMEOUT_S
            while len(self._client) and time.monotonic() < deadline:
                self._client.poll(_TICK_S)
                self._record()
        except Exception as error:
            self.error = error

    def _send_until_finished(self) -> None:
        lines = source_lines()
        due = 0.0
        last = time.monotonic()
        while not self._finish.is_set():
            now = time.monotonic()
            due = min(due + (now - last) * self._rate, self._rate)  # at most a second's worth at once
            last = now
            self._send(list(islice(lines, int(due))))
            due -= int(due)
            self._client.poll(_TICK_S)
            self._record()

    def _send(self, lines: list[SourceLine]) -> None:
        placed = [((self.sent + n) % self._partitions, line) for n, line in enumerate(lines)]
        if not placed:
            return
        self._history.append(
            self.name, "invoke", "send", [(f"{self._topic}-{n}", record_id(*line)) for n, line in placed]
        )
        for partition, (key, value) in placed:
            self._produce(partition, key, value)
        self.sent += len(placed)

    def _produce(self, partition: int, key: str, value: bytes) -> None:
        while True:
            try:
                self._client.produce(self._topic, value, key, partition, on_delivery=self._on_delivery)
                return
            except BufferError:  # its queue is full while the cluster accepts no writes
                self._client.poll(_TICK_S)
                self._record()

    def _on_delivery(self, error: Any, message: Any) -> None:
        partition = f"{self._topic}-{message.partition()}"
        identity = record_id(message.key(), message.value())
        if error is None:
            # None: librdkafka knows only that it is written, by the answer to a later batch.
            offset = -1 if message.offset() is None else message.offset()
            self._delivered.append((partition, identity, offset))
            self.on_latency(message.latency() or 0.0)
        else:
            self._failed.append((partition, identity))

    def _record(self) -> None:
        if self._delivered:
            self.acknowledged += len(self._delivered)
            self._history.append(self.name, "ok", "send", self._delivered)
            self._delivered = []
        if self._failed:  # it may be written nevertheless
            self._history.append(self.name, "info", "send", self._failed)
            self._failed = []


async def read_back(
    bootstrap_servers: str, topic: str, partitions: int, history: History, *, first_offset: int | None = None
) -> int:
    """Read the whole topic with aiokafka, from the beginning (or that offset of each partition) to the present end.
    Returns the number of records."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False, fetch_max_bytes=8 << 20)
    await consumer.start()
    try:
        assigned = [TopicPartition(topic, n) for n in range(partitions)]
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        if first_offset is not None:
            for partition in assigned:
                consumer.seek(partition, first_offset)
        ends = await consumer.end_offsets(assigned)
        history.append("reader", "ok", "assign", [[_name(partition), first_offset or 0] for partition in assigned])
        read = 0
        progress_at = time.monotonic()
        while waiting := [partition for partition in assigned if await consumer.position(partition) < ends[partition]]:
            batches = await consumer.getmany(*waiting, timeout_ms=200, max_records=10_000)
            for partition, records in batches.items():
                name = _name(partition)
                handed = [(name, record_id(record.key, record.value), record.offset) for record in records]
                history.append("reader", "ok", "poll", handed)
                read += len(handed)
                progress_at = time.monotonic()
            if time.monotonic() - progress_at > _READ_STALL_S:
                break  # acknowledged records that are not read by now count as unseen
        history.append("reader", "ok", "drained", [_name(partition) for partition in assigned])
        return read
    finally:
        await consumer.stop()


def _name(partition: Any) -> str:
    return f"{partition.topic}-{partition.partition}"
