"""The way of lines to a topic, for ``minikafka produce``: as records, in transactions, counted."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from minikafka.cli.partitioners import Choose, Partitioner, choice
from minikafka.cli.progress import bytes_bar
from minikafka.cli.record_input import Headers, InputRecord, Parse

if TYPE_CHECKING:
    import asyncio

    from minikafka.cli.ledger import Ledger
    from minikafka.client import Producer


class Tally:
    """How much was written, how fast, and the first thing that went wrong."""

    def __init__(self) -> None:
        self.lines = 0
        self.records = 0
        self.bytes = 0
        self.began = time.monotonic()
        self.error: BaseException | None = None

    def count(self, delivery: asyncio.Future[Any], line: int, size_bytes: int) -> None:
        """Called when a record's fate is known."""
        error = None if delivery.cancelled() else delivery.exception()
        if error is not None:
            self.error = self.error or _with_line(error, line)
        elif not delivery.cancelled():
            self.records += 1
            self.bytes += size_bytes


def _with_line(error: BaseException, line: int) -> BaseException:
    from minikafka.errors import KafkaError

    if isinstance(error, KafkaError):
        return KafkaError(error.code, f"line {line} was not written: {error.message}")
    return error


@dataclass(frozen=True, slots=True)
class Same:
    """What all records have, unless they say otherwise."""

    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(slots=True)
class Transactions:
    """``every``: records in one; None: all. ``committed``: records in those that are complete."""

    every: int | None = None
    committed: int = 0


class Sending:
    """The way of lines to a topic."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        source: IO[bytes],
        parse: Parse,
        tally: Tally,
        same: Same | None = None,
        partitioner: Partitioner = Partitioner.MURMUR2,
        ledger: Ledger | None = None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._source = source
        self._parse = parse
        self._tally = tally
        self._same = same or Same()
        self._partitioner = partitioner
        self._ledger = ledger
        self._choose: Choose = lambda key: None

    async def run(self, with_progress: bool, transactions: Transactions | None = None) -> None:
        """Send all lines, and wait for their acknowledgements. Raises the first error of a record."""
        total = os.fstat(self._source.fileno()).st_size if with_progress else None
        async with self._producer:
            if self._partitioner is not Partitioner.MURMUR2:
                partitions = await self._producer.partitions_for(self._topic)
                self._choose = choice(self._partitioner, partitions, random.Random())
            with bytes_bar(total) as advance:
                lines = self._lines(advance)
                await (self._send_all(lines) if transactions is None else self._commit_all(lines, transactions))

    async def _lines(self, advance: Callable[[int], None]) -> AsyncIterator[list[bytes]]:
        """Lines as they come, some at a time; none any more once a record failed."""
        from minikafka.cli.lines import LineSplitter, read_chunks

        splitter = LineSplitter()
        async for chunk in read_chunks(self._source.fileno()):
            yield splitter.feed(chunk)
            advance(len(chunk))
            if self._tally.error is not None:
                return
        yield splitter.end()

    async def _send_all(self, lines: AsyncIterator[list[bytes]]) -> None:
        async for some in lines:
            for line in some:
                if self._tally.error is None:
                    await self._send(line)
        await self._settle()

    async def _commit_all(self, lines: AsyncIterator[list[bytes]], transactions: Transactions) -> None:
        """A transaction begins with the first line for it, and not before: it may not be open for long."""
        waiting: list[bytes] = []
        async for some in lines:
            waiting = some
            while waiting:
                async with self._producer.transaction():
                    waiting = await self._fill(waiting, lines, transactions.every)
                    await self._settle()
                transactions.committed = self._tally.records

    async def _fill(self, waiting: list[bytes], lines: AsyncIterator[list[bytes]], every: int | None) -> list[bytes]:
        """Send lines until the transaction has enough of them, or there are no more; those that are left."""
        room = sys.maxsize if every is None else every
        while True:
            for line in waiting[:room]:
                await self._send(line)
            room, waiting = room - len(waiting[:room]), waiting[room:]
            if room == 0 or self._tally.error is not None:
                return waiting
            try:
                waiting = await anext(lines)
            except StopAsyncIteration:
                return []

    async def _settle(self) -> None:
        """Wait for acknowledgements, and raise the first error."""
        from minikafka.errors import KafkaError

        error = self._tally.error
        if isinstance(error, KafkaError) and error.retriable:
            raise error  # the others wait for the same cluster, and would do so for as long again
        await self._producer.flush()
        if self._tally.error is not None:
            raise self._tally.error

    async def _send(self, line: bytes) -> None:
        tally, same, ledger = self._tally, self._same, self._ledger
        tally.lines += 1
        record = self._parse(line, tally.lines)
        key = same.key if record.key is None else record.key
        partition = self._partition_of(record, key)
        if ledger:
            partition = await ledger.sending(self._producer, key, record.value)
        delivery = await self._producer.send(
            self._topic,
            record.value,
            key=key,
            partition=partition,
            headers=(*same.headers, *record.headers),
            timestamp_ms=same.timestamp_ms if record.timestamp_ms is None else record.timestamp_ms,
        )
        delivery.add_done_callback(_counter(tally, tally.lines, len(line)))
        if ledger:
            delivery.add_done_callback(ledger.outcome(partition, key, record.value))

    def _partition_of(self, record: InputRecord, key: bytes | None) -> int | None:
        """The partition of a JSON object counts only if asked for: it is that of the topic that it came from."""
        if self._same.partition is not None:
            return self._same.partition
        return record.partition if self._partitioner is Partitioner.INPUT else self._choose(key)


def _counter(tally: Tally, line: int, size_bytes: int) -> Callable[[asyncio.Future[Any]], None]:
    return lambda delivery: tally.count(delivery, line, size_bytes)
