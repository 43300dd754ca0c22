"""minikafka's own clients, each thread with an event loop."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import minikafka
from minikafka.chaos.rounds.loads import Load, Pace, Worker
from minikafka.chaos.rounds.reading import AT_ONCE, CLIENT_ID, TICK_S
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC, identity, place, value_of
from minikafka.chaos.rounds.transaction_load import ABORTED, RECORDS, TRANSACTION_TIMEOUT_MS
from minikafka.client import Consumer, ConsumerRecord, Producer
from minikafka.client.errors import CommitFailedError, FencedError, TransactionAbortedError
from minikafka.errors import KafkaError
from minikafka.model import Isolation, TopicPartition

REQUEST_TIMEOUT_MS: Final = 5_000
LIFE_S: Final = (3.0, 15.0)
NO_GENERATION: Final = -1
WINDOW: Final = 10_000
"""Records under way."""


class _OnPurposeError(Exception):
    """So many transactions are aborted."""


class Living(Worker):
    """A client, and its successors."""

    def work(self) -> None:
        life = 0
        while not self.is_over:
            life += 1
            process = f"{self.name}.{life}"
            try:
                asyncio.run(self.live(process))
            except KafkaError as error:  # it could not begin, go on, or end
                self.note(process, "info", "fault", f"the client gave up: {error}")
                time.sleep(10 * TICK_S)

    @property
    def is_over(self) -> bool:
        """Whether it is the last."""
        return self.load.reading_is_over.is_set()

    @abstractmethod
    async def live(self, process: str) -> None:
        """One life."""


class Sender(Living):
    """A producer, whose records are numbered, and its successors."""

    def __init__(self, name: str, load: Load, rate: float) -> None:
        super().__init__(name, load)
        self._rate = rate
        self._number = 0

    @property
    def is_over(self) -> bool:
        return self.load.sending_is_over.is_set()

    def next(self, process: str) -> tuple[int, str]:
        """The partition and the key of one more record."""
        self._number += 1
        return self._number % PARTITIONS, f"{process}-{self._number}"


class Writer(Sender):
    """Sends to all partitions in turn, with acks=all and idempotence."""

    async def live(self, process: str) -> None:
        under_way: deque[tuple[list[str], Awaitable[Any]]] = deque()
        async with Producer(
            self.load.cluster.servers,
            client_id=CLIENT_ID,
            security=self.load.cluster.security,
            linger_ms=5,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=60_000,
        ) as producer:
            pace = Pace(self._rate)
            try:
                while not self.is_over:
                    await self._send(producer, process, min(pace.due(), WINDOW - len(under_way)), under_way)
                    await asyncio.sleep(TICK_S)
                    self._note_told(process, under_way)
                await producer.flush()
            finally:
                await asyncio.gather(*(delivery for _, delivery in under_way), return_exceptions=True)
                self._note_told(process, under_way)

    async def _send(self, producer: Producer, process: str, count: int, under_way: deque[Any]) -> None:
        items = [self.next(process) for _ in range(count)]
        if not items:
            return
        sent = [[place(TOPIC, partition), key] for partition, key in items]
        self.note(process, "invoke", "send", sent)
        for (partition, key), item in zip(items, sent, strict=True):
            delivery = await producer.send(TOPIC, value_of(key), key=key.encode(), partition=partition)
            under_way.append((item, delivery))

    def _note_told(self, process: str, under_way: deque[Any]) -> None:
        told, untold = [], []
        for _ in range(len(under_way)):
            item, delivery = under_way.popleft()
            if not delivery.done():
                under_way.append((item, delivery))
            elif delivery.exception() is None:
                told.append([*item, delivery.result().offset])
            else:  # it may be written nevertheless
                untold.append(item)
        if told:
            self.note(process, "ok", "send", told)
        if untold:
            self.note(process, "info", "send", untold)


class Follower(Living):
    """Reads along from all partitions, without a group."""

    def __init__(self, name: str, load: Load, topic: str, *, committed: bool) -> None:
        super().__init__(name, load)
        self._topic = topic
        self._suffix = "_committed" if committed else ""
        self._isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED

    async def live(self, process: str) -> None:
        partitions = [TopicPartition(self._topic, n) for n in range(PARTITIONS)]
        async with Consumer(
            self.load.cluster.servers,
            client_id=CLIENT_ID,
            security=self.load.cluster.security,
            isolation_level=self._isolation,
            auto_offset_reset="none",
            fetch_max_wait_ms=200,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        ) as consumer:
            consumer.assign(partitions)
            for tp in partitions:
                consumer.seek(tp, 0)
            self.note(process, "ok", f"assign{self._suffix}", [[place(*tp), 0] for tp in partitions])
            while not self.is_over:
                if handed := items_of(await consumer.poll(200, AT_ONCE)):
                    self.note(process, "ok", f"poll{self._suffix}", handed)


class Member(Living):
    """A member of a group, and its successors."""

    def __init__(self, name: str, load: Load, group: str) -> None:
        super().__init__(name, load)
        self._group = group

    async def live(self, process: str) -> None:
        async with Consumer(
            self.load.cluster.servers,
            TOPIC,
            group_id=self._group,
            client_id=CLIENT_ID,
            security=self.load.cluster.security,
            auto_commit_interval_ms=500,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
            fetch_max_wait_ms=200,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        ) as consumer:
            generation = NO_GENERATION
            ends_at = time.monotonic() + self.load.rng.uniform(*LIFE_S)
            while not self.is_over:
                if time.monotonic() > ends_at and not self.load.sending_is_over.is_set():
                    return
                records = await consumer.poll(200, AT_ONCE)
                if not records:
                    continue
                # In a new generation it begins where offsets are committed. A call of poll has records of one only.
                if (now := _generation(consumer)) != generation:
                    generation = now
                    self.note(process, "ok", "assign", sorted(place(*tp) for tp in consumer.assignment))
                self.note(process, "ok", "poll", items_of(records))


def _generation(consumer: Consumer) -> int:
    try:
        return consumer.progress().group.generation_id
    except CommitFailedError:  # it is over already
        return NO_GENERATION


class Transactor(Sender):
    """A producer with a transactional id, and its successors."""

    async def live(self, process: str) -> None:
        self.note(process, "invoke", "take_over", [self.name])
        async with transactional_producer(self) as producer:
            self.note(process, "ok", "take_over", [self.name])
            pace, due = Pace(self._rate), 0
            while not self.is_over:
                due += pace.due()
                if due < RECORDS:
                    await asyncio.sleep(TICK_S)
                    continue
                due -= RECORDS
                items = [self.next(process) for _ in range(RECORDS)]
                name = f"{process}/{self._number}"
                self.note(process, "invoke", "begin", [name])
                try:
                    await transact(self, process, name, producer, TOPIC, items)
                except FencedError:
                    return


def transactional_producer(worker: Worker) -> Producer:
    """With the worker's name as its id."""
    return Producer(
        worker.load.cluster.servers,
        client_id=CLIENT_ID,
        security=worker.load.cluster.security,
        transactional_id=worker.name,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        delivery_timeout_ms=30_000,
    )


async def _nothing() -> None: ...


async def transact(
    worker: Worker,
    process: str,
    name: str,
    producer: Producer,
    topic: str,
    items: list[tuple[int, str]],
    before_commit: Callable[[], Awaitable[None]] = _nothing,
) -> bool:
    """One transaction with items, of which some abort. True when it is committed, False when it is aborted.

    KafkaError: nobody knows, or FencedError.
    """
    sent = [[place(topic, partition), key] for partition, key in items]
    worker.note(process, "invoke", "send", sent)
    is_asked = False
    try:
        async with producer.transaction():
            deliveries = [
                await producer.send(topic, value_of(key), key=key.encode(), partition=partition)
                for partition, key in items
            ]
            await before_commit()
            if worker.load.rng.random() < ABORTED:
                raise _OnPurposeError
            is_asked = True
            worker.note(process, "invoke", "commit", [name])
    except (_OnPurposeError, TransactionAbortedError):
        worker.note(process, "fail", "commit", [name])
        worker.note(process, "fail", "send", sent)
        return False
    except BaseException:
        worker.note(process, "info" if is_asked else "fail", "commit", [name])
        worker.note(process, "info", "send", sent)
        raise
    worker.note(process, "ok", "commit", [name])
    offsets = [each.result().offset for each in deliveries]
    worker.note(process, "ok", "send", [[*item, at] for item, at in zip(sent, offsets, strict=True)])
    return True


def items_of(records: list[ConsumerRecord]) -> list[list[Any]]:
    """Place, id and offset of each record."""
    return [[place(each.topic, each.partition), identity(each.key, each.value), each.offset] for each in records]


class MinikafkaClients:
    """See ``loads.Clients``."""

    name = f"minikafka {minikafka.__version__}"
    protocols = ("classic",)

    def writer(self, name: str, load: Load, rate: float) -> Worker:
        """See ``loads.Clients``."""
        return Writer(name, load, rate)

    def follower(self, name: str, load: Load, topic: str, *, committed: bool = False) -> Worker:
        """See ``loads.Clients``."""
        return Follower(name, load, topic, committed=committed)

    def member(self, name: str, load: Load, group: str, protocol: str) -> Worker:
        """See ``loads.Clients``."""
        assert protocol in self.protocols
        return Member(name, load, group)

    def transactor(self, name: str, load: Load, rate: float) -> Worker:
        """See ``loads.Clients``."""
        return Transactor(name, load, rate)
