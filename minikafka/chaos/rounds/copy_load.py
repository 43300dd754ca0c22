"""The load of exactly-once processing: applications copy a topic in transactions, with their offsets in these.

They use minikafka's own client; what they copy is written by librdkafka.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from minikafka.chaos.rounds.loads import (
    CLIENT_ID,
    DRAIN_S,
    PARTITIONS,
    TICK_S,
    TOPIC,
    Follower,
    Load,
    Worker,
    Writer,
    read_all,
    value_of,
)
from minikafka.chaos.rounds.transaction_loads import ABORTED, TRANSACTION_TIMEOUT_MS, note_stable_ends
from minikafka.client import Admin, Consumer, ConsumerRecord, Producer
from minikafka.client.errors import FencedError, TransactionAbortedError
from minikafka.errors import KafkaError
from minikafka.model import Isolation, TopicPartition

COPIES: Final = "copies"
GROUP: Final = "copiers"
COPIERS: Final = 2
RECORDS: Final = 200
LIFE_S: Final = (4.0, 15.0)


class _OnPurposeError(Exception):
    """So many transactions are aborted."""


class Copier(Worker):
    """An application with a transactional id; it ends after some seconds, and another one takes over."""

    def work(self) -> None:
        life = 0
        while not self.load.reading_is_over.is_set():
            life += 1
            try:
                asyncio.run(self._live(f"{self.name}.{life}"))
            except KafkaError as error:  # it could not begin, or not end
                self.history.append(f"{self.name}.{life}", "info", "fault", f"the application gave up: {error}")
                time.sleep(10 * TICK_S)

    async def _live(self, process: str) -> None:
        """Until its time is over, or somebody else has its id."""
        servers = self.load.servers
        self.history.append(process, "invoke", "take_over", [self.name])
        async with (
            Producer(
                servers,
                client_id=CLIENT_ID,
                transactional_id=self.name,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
                request_timeout_ms=5_000,
                delivery_timeout_ms=30_000,
            ) as producer,
            Consumer(
                servers,
                TOPIC,
                client_id=CLIENT_ID,
                group_id=GROUP,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level=Isolation.READ_COMMITTED,
                session_timeout_ms=3_000,
                heartbeat_interval_ms=300,
                request_timeout_ms=5_000,
            ) as consumer,
        ):
            self.history.append(process, "ok", "take_over", [self.name])
            ends_at = time.monotonic() + self.load.rng.uniform(*LIFE_S)
            number = 0
            while not self.load.reading_is_over.is_set():
                if time.monotonic() > ends_at and not self.load.sending_is_over.is_set():
                    return
                try:
                    records = await consumer.poll(200, RECORDS)
                except KafkaError:  # it says so again while it lasts
                    await asyncio.sleep(TICK_S)
                    continue
                if not records:
                    continue
                number += 1
                try:
                    await self._copy(process, number, producer, consumer, records)
                except FencedError:
                    return
                except KafkaError:  # nothing is copied, or nobody knows: the offsets tell
                    consumer.rewind()

    async def _copy(
        self, process: str, number: int, producer: Producer, consumer: Consumer, records: list[ConsumerRecord]
    ) -> None:
        """One transaction. KafkaError: it is aborted, or its outcome is not known."""
        name = f"{process}/{number}"
        copies = [(record.offset % PARTITIONS, f"{(record.key or b'').decode()}@{name}") for record in records]
        items = [[f"{COPIES}-{partition}", key] for partition, key in copies]
        history = self.history
        history.append(process, "invoke", "begin", [name])
        history.append(
            process,
            "invoke",
            "copy",
            [
                [key, GROUP, f"{TOPIC}-{each.partition}", each.offset]
                for (_, key), each in zip(copies, records, strict=True)
            ],
        )
        history.append(process, "invoke", "send", items)
        is_asked = False
        try:
            async with producer.transaction():
                sent = [
                    await producer.send(COPIES, value_of(key), key=key.encode(), partition=partition)
                    for partition, key in copies
                ]
                await producer.send_offsets(consumer.progress())
                if self.load.rng.random() < ABORTED:
                    raise _OnPurposeError
                is_asked = True
                history.append(process, "invoke", "commit", [name])
        except (_OnPurposeError, TransactionAbortedError):
            history.append(process, "fail", "commit", [name])
            history.append(process, "fail", "send", items)
            consumer.rewind()
            return
        except BaseException:
            if is_asked:
                history.append(process, "info", "commit", [name])
            else:
                history.append(process, "fail", "commit", [name])
            history.append(process, "info", "send", items)
            raise
        history.append(process, "ok", "commit", [name])
        offsets = [each.result().offset for each in sent]
        history.append(process, "ok", "send", [[*item, at] for item, at in zip(items, offsets, strict=True)])
        self.load.read += len(items)


class Copy(Load):
    """Two producers; two applications that copy what they write; and a read_committed consumer of the copies."""

    name = "copy"
    topics = (TOPIC, COPIES)
    is_transactional = True
    group = GROUP
    client = "librdkafka, and minikafka's own"

    def make_writers(self) -> list[Worker]:
        return [Writer(f"producer-{n}", self, self.rate / 2) for n in (1, 2)]

    def make_readers(self) -> list[Worker]:
        copiers: list[Worker] = [Copier(f"copier-{n}", self) for n in range(1, COPIERS + 1)]
        return [*copiers, Follower("follower", self, COPIES, committed=True)]

    def drain(self) -> None:
        """The applications go on until everything is copied."""
        asyncio.run(self._wait_until_copied())
        self.stop_reading()
        note_stable_ends(self.servers, self.history, COPIES)
        asyncio.run(self._note_positions())
        for topic in self.topics:
            for committed in (False, True):
                read_all(self.servers, topic, self.history, committed=committed)

    async def _wait_until_copied(self) -> None:
        """What is not copied in time, the ledger finds."""
        deadline = time.monotonic() + DRAIN_S
        at_ends = {TopicPartition(TOPIC, n): -1 for n in range(PARTITIONS)}
        async with Admin(self.servers) as admin:
            while time.monotonic() < deadline:
                ends = await admin.list_offsets(at_ends)
                at = await admin.group_offsets(GROUP)
                if all(not end.offset or (tp in at and at[tp].offset >= end.offset) for tp, end in ends.items()):
                    return
                await asyncio.sleep(10 * TICK_S)

    async def _note_positions(self) -> None:
        async with Admin(self.servers) as admin:
            offsets = await admin.group_offsets(GROUP)
        rows: list[list[Any]] = [
            [GROUP, f"{tp.topic}-{tp.partition}", committed.offset] for tp, committed in offsets.items()
        ]
        self.history.append("reader", "ok", "position", rows)
