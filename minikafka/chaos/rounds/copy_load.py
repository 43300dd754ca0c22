"""The load of exactly-once processing: applications copy a topic in transactions, with their offsets in these.

They use minikafka's own client: librdkafka hangs in send_offsets_to_transaction (its issues 5511 and 5456).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from minikafka.chaos.report.run import Finding
from minikafka.chaos.rounds.behind import left_uncommitted
from minikafka.chaos.rounds.loads import DRAIN_S, Load, Worker
from minikafka.chaos.rounds.minikafka_clients import REQUEST_TIMEOUT_MS, Living, transact, transactional_producer
from minikafka.chaos.rounds.reading import CLIENT_ID, TICK_S, note_stable_ends, read_all
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC, place
from minikafka.chaos.rounds.transaction_load import STABLE_S
from minikafka.client import Admin, Consumer, ConsumerRecord, Producer
from minikafka.client.errors import FencedError
from minikafka.errors import KafkaError
from minikafka.model import Isolation

COPIES: Final = "copies"
GROUP: Final = "copiers"
COPIERS: Final = 2
RECORDS: Final = 200
LIFE_S: Final = (4.0, 15.0)


class Copier(Living):
    """An application with a transactional id; it ends after some seconds, and another one takes over."""

    async def live(self, process: str) -> None:
        """Until its time is over, or somebody else has its id."""
        self.note(process, "invoke", "take_over", [self.name])
        async with (
            transactional_producer(self) as producer,
            Consumer(
                self.load.cluster.servers,
                TOPIC,
                client_id=CLIENT_ID,
                security=self.load.cluster.security,
                group_id=GROUP,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level=Isolation.READ_COMMITTED,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=500,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            ) as consumer,
        ):
            self.note(process, "ok", "take_over", [self.name])
            ends_at = time.monotonic() + self.load.rng.uniform(*LIFE_S)
            number = 0
            while not self.is_over:
                if time.monotonic() > ends_at and not self.load.sending_is_over.is_set():
                    return
                try:
                    records = await consumer.poll(200, RECORDS)
                except KafkaError as error:  # it says so again while it lasts
                    if not error.retriable:
                        raise
                    await asyncio.sleep(TICK_S)
                    continue
                if not records:
                    continue
                number += 1
                try:
                    is_committed = await self._copy(process, f"{process}/{number}", producer, consumer, records)
                except FencedError:
                    return
                except KafkaError:  # nothing is copied, or nobody knows: the offsets tell
                    is_committed = False
                if not is_committed:
                    consumer.rewind()

    async def _copy(
        self, process: str, name: str, producer: Producer, consumer: Consumer, records: list[ConsumerRecord]
    ) -> bool:
        # With its offset, as a producer may have sent a record twice, and a transaction copy both.
        copies = [(r.offset % PARTITIONS, f"{(r.key or b'').decode()}@{name}/{r.offset}") for r in records]
        sources = [[GROUP, place(record.topic, record.partition), record.offset] for record in records]
        self.note(process, "invoke", "begin", [name])
        rows = [[key, *source] for (_, key), source in zip(copies, sources, strict=True)]
        self.note(process, "invoke", "copy", rows)

        async def send_offsets() -> None:
            await producer.send_offsets(consumer.progress())

        return await transact(self, process, name, producer, COPIES, copies, send_offsets)


class Copy(Load):
    """Two producers; two applications that copy what they write; and a read_committed consumer of the copies."""

    name = "copy"
    topics = (TOPIC, COPIES)
    is_transactional = True
    group = GROUP

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.behind: list[str] = []

    @property
    def client(self) -> str:
        return f"{self.clients.name}; minikafka's own to copy"

    def make_readers(self) -> list[Worker]:
        copiers: list[Worker] = [Copier(f"copier-{n}", self) for n in range(1, COPIERS + 1)]
        return [*copiers, self.clients.follower("follower", self, COPIES, committed=True)]

    @property
    def followers(self) -> list[Worker]:
        return self.readers[COPIERS:]

    def drain(self) -> None:
        """The applications go on until everything is copied."""
        self.behind = asyncio.run(left_uncommitted(self.cluster, TOPIC, GROUP, DRAIN_S))
        self.stop_reading()
        note_stable_ends(self.cluster, self.history, COPIES, STABLE_S)
        asyncio.run(self._note_positions())
        for topic in self.topics:
            for committed in (False, True):
                read_all(self.cluster, topic, self.history, committed=committed)

    def findings(self) -> list[Finding]:
        """The ledger judges copies and what the offsets are behind: nothing of applications that stand still."""
        sentence = "; ".join(self.behind) if self.behind else f"{PARTITIONS} partitions"
        return [Finding("everything was copied", not self.behind, sentence)]

    async def _note_positions(self) -> None:
        async with Admin(self.cluster.servers, security=self.cluster.security) as admin:
            offsets = await admin.group_offsets(GROUP)
        rows: list[list[Any]] = [[GROUP, place(*tp), committed.offset] for tp, committed in offsets.items()]
        self.history.append("reader", "ok", "position", rows)
