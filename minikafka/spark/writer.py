"""Writes the encoded batches of one task and waits until they are stored."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from minikafka.client import Producer
from minikafka.client.records import Delivery
from minikafka.spark.loop import LoopThread
from minikafka.spark.pool import Pool

if TYPE_CHECKING:
    from minikafka.spark.columns.encode import EncodedBatch

ABANDON_TIMEOUT_MS: Final = 0  # Spark repeats a failed task, which writes its batches again


class BatchWriter:
    """An idempotent writer with ``acks=all``, in order per partition; made by ``Cluster.writer``. For one thread.

    Use it in a ``with``: its end flushes; an exception drops the buffered batches.
    """

    def __init__(self, producers: Pool[Producer], loop: LoopThread, servers: str, *, timeout_s: float) -> None:
        self._producers = producers
        self._loop = loop
        self._servers = servers
        self._timeout_s = timeout_s
        self._producer: Producer | None = None
        self._pending: set[Delivery] = set()
        self._failure: BaseException | None = None

    def partition_count(self, topic: str) -> int:
        """The number of the topic's partitions. A missing topic is created if ``auto.create.topics.enable`` is set;
        otherwise raises KafkaError."""
        doing = f"looking up {topic} at {self._servers}"
        return self._loop.call(self._partition_count(topic), timeout_s=self._timeout_s, doing=doing)

    def send(self, topic: str, partition: int, batch: EncodedBatch) -> None:
        """Take over a batch and its bytes. Waits while the buffer is full.

        Raises KafkaError when the batch finds no room in time, or when an earlier batch failed.
        """
        doing = f"writing to {topic}-{partition} at {self._servers}"
        self._loop.call(self._send(topic, partition, batch), timeout_s=self._timeout_s, doing=doing)

    def flush(self) -> None:
        """Wait until all batches are stored. Raises the KafkaError of the first batch that failed."""
        if self._producer is not None:
            doing = f"writing the last batches to {self._servers}"
            self._loop.call(self._flush(), timeout_s=self._timeout_s, doing=doing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        may_be_used_again = False
        try:
            if exc is None:
                self.flush()
                may_be_used_again = True
        finally:
            producer, self._producer = self._producer, None
            if producer is not None:
                self._loop.post(self._end(producer, may_be_used_again))

    # -- on the loop ------------------------------------------------------------------------------------------------

    async def _connected(self) -> Producer:
        if self._producer is None:
            self._producer = await self._producers.borrow()
        return self._producer

    async def _partition_count(self, topic: str) -> int:
        producer = await self._connected()
        return len(await producer.partitions_for(topic))

    async def _send(self, topic: str, partition: int, batch: EncodedBatch) -> None:
        if self._failure is not None:
            raise self._failure
        producer = await self._connected()
        delivery = await producer.send_batch(topic, partition, batch.data, batch.record_count)
        self._pending.add(delivery)
        delivery.add_done_callback(self._settle)

    def _settle(self, delivery: Delivery) -> None:
        self._pending.discard(delivery)
        if not delivery.cancelled():
            error = delivery.exception()  # retrieved even after an earlier failure, or asyncio complains
            self._failure = self._failure or error

    async def _flush(self) -> None:
        while self._pending:
            await asyncio.wait(self._pending)
        if self._failure is not None:
            raise self._failure

    async def _end(self, producer: Producer, may_be_used_again: bool) -> None:
        if may_be_used_again:
            await self._producers.give_back(producer)
        else:
            self._producers.forget(producer)
            await producer.close(ABANDON_TIMEOUT_MS)
