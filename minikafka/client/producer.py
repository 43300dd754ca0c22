"""Produces records: batched, compressed, idempotent, retried in order until ``delivery_timeout_ms``."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self

from minikafka.client.checks import (
    check_bytes,
    check_headers,
    check_partition,
    check_text,
    check_timestamp,
    check_whole_number,
)
from minikafka.client.cluster import TopicView
from minikafka.client.connections import Connections
from minikafka.client.errors import TransactionAbortedError
from minikafka.client.metadata import Metadata
from minikafka.client.producing.accumulator import Accumulator
from minikafka.client.producing.partitioner import Partitioner
from minikafka.client.producing.sender import ALL_IN_SYNC, Sender, SendSettings
from minikafka.client.producing.sequences import Sequences
from minikafka.client.producing.transactions import Transactions
from minikafka.client.records import Delivery, Progress, RecordMetadata
from minikafka.client.security import PLAIN, Security
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.records.batch import HEADER_SIZE, MAGIC, parse_header
from minikafka.records.build import upper_bound_size
from minikafka.records.record import Header

LEAVING_TIMEOUT_MS: Final = 2_000  # for buffered records when an exception leaves the ``async with`` block
_ACKS: Final = {"all": ALL_IN_SYNC, -1: ALL_IN_SYNC, 1: 1, 0: 0}


class Producer:
    """``async with Producer("127.0.0.1:19092") as producer: await producer.send_and_wait("topic", b"value")``.

    - ``acks``: "all" (every in-sync replica), 1 (the leader) or 0 (no answer). With "all" the producer is idempotent
      unless ``enable_idempotence`` is off: no duplicates and no reordering by retries.
    - ``compression``: of batches. ``batch_bytes``: largest batch, before compression. ``linger_ms``: wait for more
      records; 0 is a good value, since a batch grows while the one before is in flight.
    - ``buffer_bytes``: buffered records; ``send`` waits beyond that. ``max_request_bytes``: largest request, and so
      largest record.
    - ``transactional_id``: records go into transactions (:meth:`transaction`), also of the one that comes after this
      producer: whoever starts with an id takes it over, and the one before cannot write any more.
      ``transaction_timeout_ms``: the coordinator aborts a transaction that takes longer.
    - ``delivery_timeout_ms``: from ``send`` to the last attempt. ``request_timeout_ms``: of one attempt.
    - ``max_block_ms``: longest wait of ``send`` for a topic to exist.
    - ``security``: how to connect, see :class:`~minikafka.client.security.Security`.
    - ``rng``: for partitions and back-off. ``wall_s``: for the timestamps of records. Both for tests.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "minikafka-producer",
        security: Security = PLAIN,
        acks: int | str = "all",
        enable_idempotence: bool | None = None,
        compression: Compression = Compression.NONE,
        batch_bytes: int = 256 * 1024,
        linger_ms: int = 0,
        buffer_bytes: int = 64 * 1024 * 1024,
        max_request_bytes: int = 8 * 1024 * 1024,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        max_block_ms: int = 10_000,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        rng: random.Random | None = None,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        if acks not in _ACKS:
            raise ValueError(f"acks is {acks!r}; it must be 'all', 1 or 0")
        is_idempotent = _ACKS[acks] == ALL_IN_SYNC if enable_idempotence is None else enable_idempotence
        if is_idempotent and _ACKS[acks] != ALL_IN_SYNC:
            raise ValueError("an idempotent producer needs acks='all'; set enable_idempotence=False for other acks")
        if transactional_id is not None and not is_idempotent:
            raise ValueError("a producer with a transactional_id needs acks='all' and idempotence")
        if transactional_id is not None:
            check_text("a transactional_id", transactional_id)
        if not isinstance(compression, Compression):
            raise TypeError(f"compression is {compression!r}; it must be one of minikafka.model.Compression")
        for name, value, at_least in (
            ("batch_bytes", batch_bytes, 1),
            ("linger_ms", linger_ms, 0),
            ("buffer_bytes", buffer_bytes, 1),
            ("max_request_bytes", max_request_bytes, 1),
            ("request_timeout_ms", request_timeout_ms, 1),
            ("delivery_timeout_ms", delivery_timeout_ms, 1),
            ("max_block_ms", max_block_ms, 0),
            ("transaction_timeout_ms", transaction_timeout_ms, 1),
        ):
            check_whole_number(name, value, at_least)
        rng = random.Random() if rng is None else rng
        self._wall_s = wall_s
        self._connections = Connections(
            bootstrap_servers,
            client_id=client_id,
            security=security,
            rng=rng,
            request_timeout_s=request_timeout_ms / 1000,
        )
        self._tasks = TaskOwner(client_id, self._on_task_failure)
        sequences = Sequences(keeps_epoch=transactional_id is not None) if is_idempotent else None
        self._transactions: Transactions | None = None
        if transactional_id is not None and sequences is not None:
            self._transactions = Transactions(
                self._connections,
                transactional_id,
                transaction_timeout_ms,
                sequences,
                rng,
                patience_s=delivery_timeout_ms / 1000,
            )
        self._accumulator: Accumulator[Delivery] = Accumulator(
            batch_bytes=batch_bytes,
            linger_ms=linger_ms,
            buffer_bytes=buffer_bytes,
            compression=compression,
            sequences=sequences,
            is_transactional=transactional_id is not None,
        )
        self._partitioner = Partitioner(rng)
        self._progress = asyncio.Event()  # set at each change; those who wait look again
        self._metadata = Metadata(self._connections, self._tasks, rng, lambda: self._sender.wake())
        self._sender = Sender(
            self._connections,
            self._metadata,
            self._accumulator,
            sequences,
            self._transactions,
            self._tasks,
            rng,
            SendSettings(
                _ACKS[acks], min(request_timeout_ms, delivery_timeout_ms), delivery_timeout_ms, max_request_bytes
            ),
            lambda tp: self._partitioner.move_on(*tp),
            self._progress.set,
        )
        self._max_record_bytes = min(max_request_bytes, buffer_bytes)
        self._delivery_timeout_ms = delivery_timeout_ms
        self._max_block_s = max_block_ms / 1000
        self._failure: KafkaError | None = None
        self._is_running = False

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect, and take the transactional id over, if there is one. Raises KafkaError when no broker answers."""
        if self._is_running:
            raise RuntimeError("the producer is already running; 'async with' has started it")
        try:
            await self._connections.bootstrap()
        except BaseException:
            await self._connections.close()
            raise
        self._metadata.start()
        self._sender.start()
        self._is_running = True
        if self._transactions is not None:
            try:
                await self._transactions.begin_session()
            except BaseException:
                await self._close(0, is_left=True)
                raise

    async def close(self, timeout_ms: int | None = None) -> None:
        """Deliver buffered records, then disconnect.

        Records that are left after ``timeout_ms`` (default: the delivery time-out) fail with REQUEST_TIMED_OUT.
        """
        await self._close(self._delivery_timeout_ms if timeout_ms is None else timeout_ms)

    async def _close(self, timeout_ms: int, *, is_left: bool = False) -> None:
        if not self._is_running:
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.flush()
        except TimeoutError:
            pass
        except BaseException:
            is_left = True
            raise
        finally:
            self._is_running = False
            self._sender.abort(self._failure or _closed(), is_told=is_left)
            try:
                await self._tasks.close()
            finally:  # also when that is cancelled
                await self._connections.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Like :meth:`close`; after an exception for two seconds only: the caller knows that records may be missing."""
        if exc is None:
            await self.close()
        else:
            await self._close(LEAVING_TIMEOUT_MS, is_left=True)

    # -- sending ----------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Buffer one record; returns the future of its delivery. Waits for room in the buffer, and for the topic.

        Records of one partition are written in the order of the calls. Raises KafkaError for an unknown topic or
        partition, and for a record that is too large.
        """
        check_bytes("value", value)
        check_bytes("key", key)
        kept_headers = check_headers(headers)
        if timestamp_ms is not None:
            check_timestamp(timestamp_ms)
        size = upper_bound_size(key, value, kept_headers)
        self._check_size("a record", size)
        self._check_running()
        self._check_in_transaction()
        tp = await self._place(topic, key, partition)
        await self._wait_for_room(size)
        return await self._append(tp, key, value, kept_headers, timestamp_ms)

    async def send_batch(self, topic: str, partition: int, batch: bytearray, record_count: int) -> Delivery:
        """Buffer an encoded batch of ``record_count`` records; the future's result is the offset of the first one.

        The batch keeps its order among the other records of the partition. The producer owns the bytearray from now on,
        and writes its producer id and sequence number into it. Waits and raises like :meth:`send`; INVALID_RECORD for
        bytes that are not one batch of that many records.
        """
        if self._transactions is not None:
            raise RuntimeError("encoded batches cannot be sent in transactions")
        _check_batch(batch, record_count)
        self._check_size("a batch", len(batch))
        self._check_running()
        tp = await self._place(topic, None, partition)
        await self._wait_for_room(len(batch))
        loop = asyncio.get_running_loop()
        delivery: Delivery = loop.create_future()
        self._accumulator.append_encoded(tp, batch, delivery, int(loop.time() * 1000))
        self._sender.wake()
        await asyncio.sleep(0)  # see _append
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged. Raises KafkaError."""
        delivery = await self.send(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )
        return await delivery

    async def partition_for(self, topic: str, key: bytes | None = None) -> int:
        """The partition that :meth:`send` would choose now for a record with that key."""
        return (await self._place(topic, key, None)).partition

    async def partitions_for(self, topic: str) -> list[int]:
        """The topic's partitions, for callers that choose partitions themselves; waits for the topic like ``send``."""
        self._check_running()
        return sorted((await self._topic(topic)).partitions)

    async def flush(self) -> None:
        """Wait until all records sent so far are delivered or failed; see their futures."""
        latest = self._accumulator.latest_serial
        self._sender.flushing += 1
        self._sender.wake()
        try:
            while self._accumulator.oldest_serial() <= latest and self._failure is None:
                await self._wait_for_progress()
        finally:
            self._sender.flushing -= 1

    # -- transactions -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """``async with producer.transaction():`` - all records sent in the block, and offsets, or none of them.

        The end of the block commits; an exception aborts, and goes on. Consumers with the isolation level
        READ_COMMITTED see what is committed. Raises TransactionAbortedError: do it again. FencedError: another producer
        has the transactional id; close this one. Any other KafkaError: it is not known whether the transaction was
        committed, because its coordinator was not reached in time.
        """
        self._check_running()
        transactions = self._transactional()
        await transactions.begin()
        try:
            yield
            await self.flush()
            self._check_running()
        except BaseException:
            await self._abort(transactions)
            raise
        if transactions.failure is not None:
            failure = transactions.failure
            await self._abort(transactions)
            raise TransactionAbortedError(transactions.transactional_id, failure) from failure
        await transactions.end(commits=True)

    async def send_offsets(self, progress: Progress) -> None:
        """Commit a consumer's :meth:`~minikafka.client.Consumer.progress` together with the transaction.

        Raises KafkaError; the transaction can only be aborted then.
        """
        self._check_running()
        self._check_in_transaction()
        await self._transactional().send_offsets(progress.offsets, progress.group)

    async def _abort(self, transactions: Transactions) -> None:
        self._sender.give_up_all(KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted"))
        await transactions.end(commits=False)

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise RuntimeError("this producer has no transactions; give Producer(..., transactional_id=...)")
        return self._transactions

    def _check_in_transaction(self) -> None:
        if self._transactions is not None and not self._transactions.is_open:
            raise RuntimeError("a producer with a transactional_id sends inside 'async with producer.transaction():'")

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _topic(self, topic: str) -> TopicView:
        check_text("a topic", topic)
        view = self._connections.cluster.topics.get(topic)
        if view is None or not view.is_usable:
            view = await self._metadata.topic(topic, timeout_s=self._max_block_s, may_create=True)
        return view

    async def _place(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        view = await self._topic(topic)
        if partition is None:
            return TopicPartition(topic, self._partitioner.choose(key, view))
        check_partition(partition)
        if partition not in view.partitions:  # or was it added since?
            view = await self._metadata.topic(topic, timeout_s=self._max_block_s, may_create=False)
        if partition not in view.partitions:
            message = f"{topic} has partitions 0 to {len(view.partitions) - 1}, not {partition}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        return TopicPartition(topic, partition)

    async def _append(
        self,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...],
        timestamp_ms: int | None,
    ) -> Delivery:
        loop = asyncio.get_running_loop()
        delivery: Delivery = loop.create_future()
        timestamp = int(self._wall_s() * 1000) if timestamp_ms is None else timestamp_ms
        if self._transactions is not None:
            self._check_in_transaction()  # it may have ended while the topic was looked up
            self._transactions.has_content = True
        appended = self._accumulator.append(tp, key, value, timestamp, headers, delivery, int(loop.time() * 1000))
        if appended.opened:
            self._sender.wake()
        if appended.completed:
            self._partitioner.move_on(*tp)
            await asyncio.sleep(0)  # let full batches be sent even if the caller never waits
        return delivery

    async def _wait_for_room(self, size: int) -> None:
        self._check_running()  # it may have been closed while the topic was looked up
        while not self._accumulator.has_room(size):
            await self._wait_for_progress()
            self._check_running()

    def _check_size(self, what: str, size: int) -> None:
        if size > self._max_record_bytes:
            message = f"{what} of {size} bytes is too large: at most {self._max_record_bytes} bytes fit in a request"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, message)

    async def _wait_for_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _check_running(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._is_running:
            raise RuntimeError("the producer is not running; use 'async with Producer(...)', or start() it first")

    def _on_task_failure(self, name: str, error: BaseException) -> None:
        """A permanent refusal, or a bug: nothing more can be delivered."""
        if not isinstance(error, KafkaError):
            failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{name} failed: {error!r}")
            failure.__cause__ = error
            error = failure
        self._failure = self._failure or error
        self._sender.abort(self._failure)


def _closed() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the producer was closed before this record was acknowledged")


def _check_batch(batch: bytearray, record_count: int) -> None:
    """Check for errors that would affect other batches; the broker checks the rest."""
    if not isinstance(batch, bytearray):
        raise TypeError(f"a batch must be a bytearray (it is stamped in place), not {type(batch).__name__}")
    if len(batch) < HEADER_SIZE:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"{len(batch)} bytes are too short for a record batch: its header has 61"
        )
    header = parse_header(batch)
    if header.magic != MAGIC or header.size_in_bytes != len(batch):
        message = f"{len(batch)} bytes are not one record batch: magic {header.magic}, size {header.size_in_bytes}"
        raise KafkaError(ErrorCode.INVALID_RECORD, message)
    if not 0 < header.record_count == header.last_offset_delta + 1 == record_count:
        message = f"a batch of {header.record_count} records, the last with delta {header.last_offset_delta}, was sent"
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{message} as one of {record_count}")
    if header.is_control or header.is_transactional:
        message = "control batches are written by brokers, transactional ones by producers with a transactional id"
        raise KafkaError(ErrorCode.INVALID_RECORD, message)
