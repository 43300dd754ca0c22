"""Sends batches to the leaders of their partitions, with retries until they are written or their time is up.

One task looks for ready batches and starts a task per request. It waits for nothing else, so a leader that hangs delays
only its own partitions. After a failed request it is unknown whether its batches were written: they go back with their
stamps, and metadata is refreshed at once (see ``metadata``).

A batch whose time is up fails at once, even while its request is under way. The request goes on: it has batches of
other partitions, and a request that times out closes its connection.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from minikafka.client.backoff import RETRY_BACKOFF
from minikafka.client.connections import Connections
from minikafka.client.metadata import Metadata
from minikafka.client.producing.accumulator import Accumulator, Batch
from minikafka.client.producing.identity import Identity
from minikafka.client.producing.sequences import Sequences
from minikafka.client.producing.transactions import Transactions
from minikafka.client.records import Delivery, RecordMetadata
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE, NO_OFFSET, ZERO_TOPIC_ID, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ALL_IN_SYNC: Final = -1
UNANSWERED: Final = 0
ANSWER_MARGIN_S: Final = 0.5  # in addition to the broker's own time-out
NEVER_MS: Final = 1 << 62
MAX_VERSION_BY_NAME: Final = 12  # of Produce; later ones name topics by their ids

_LEADER_IN_DOUBT: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_COUNT_LOST: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


@dataclass(frozen=True, slots=True)
class SendSettings:
    """Settings of requests and time-outs; see :class:`~minikafka.client.producer.Producer`."""

    acks: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    max_request_bytes: int


class Sender:
    """``on_progress`` is called when batches leave the accumulator, ``on_sent`` for each one that is sent."""

    def __init__(
        self,
        connections: Connections,
        metadata: Metadata,
        accumulator: Accumulator[Delivery],
        sequences: Sequences | None,
        transactions: Transactions | None,
        tasks: TaskOwner,
        rng: random.Random,
        settings: SendSettings,
        on_sent: Callable[[TopicPartition], None],
        on_progress: Callable[[], None],
    ) -> None:
        self._connections = connections
        self._metadata = metadata
        self._accumulator = accumulator
        self._sequences = sequences
        self._transactions = transactions
        self._tasks = tasks
        self._rng = rng
        self._settings = settings
        self._on_sent = on_sent
        self._on_progress = on_progress
        self._work = asyncio.Event()
        asks = sequences is not None and transactions is None  # a transactional id has an identity of its own
        self._identity = Identity(connections, sequences, tasks, rng, self._work.set) if sequences and asks else None
        self._aborted = False
        self.flushing = 0  # number of callers of ``flush``

    def start(self) -> None:
        """Begin to send."""
        self._tasks.start(self._run(), "sender")

    def wake(self) -> None:
        """Look for batches to send: a batch, a leader or a back-off changed."""
        self._work.set()

    def abort(self, error: KafkaError, *, is_told: bool = False) -> None:
        """Fail all undelivered records for good; those in flight may still be written.

        ``is_told``: the caller knows, so asyncio need not report unread futures.
        """
        self._aborted = True
        for batch in self._accumulator.clear():
            _fail(batch, error, is_told=is_told)
        self._on_progress()

    def give_up_all(self, error: KafkaError) -> None:
        """The transaction is aborted: its records fail, and those in flight come too late for the next one."""
        for batch in self._accumulator.expire(NEVER_MS):
            _fail(batch, error, is_told=True)
        self._on_progress()

    # -- the loop ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._work.clear()
            now_ms = _now_ms()
            self._expire(now_ms)
            if self._identity is not None and len(self._accumulator):
                self._identity.maybe_ask()
            self._dispatch(now_ms)
            await self._pause(now_ms)

    async def _pause(self, dispatched_ms: int) -> None:
        """Until something changes, or a batch is due that was not at ``dispatched_ms``.

        The present time will not do: a batch that became due since then would be neither sent nor waited for.
        """
        due_ms = self._accumulator.next_due_ms(dispatched_ms)
        oldest_ms = self._accumulator.oldest_ms()
        if oldest_ms is not None:
            expiry_ms = oldest_ms + self._settings.delivery_timeout_ms + 1
            due_ms = expiry_ms if due_ms is None else min(due_ms, expiry_ms)
        try:
            async with asyncio.timeout(None if due_ms is None else max(0, due_ms - _now_ms()) / 1000):
                await self._work.wait()
        except TimeoutError:
            pass

    def _expire(self, now_ms: int) -> None:
        expired = self._accumulator.expire(now_ms - self._settings.delivery_timeout_ms)
        for batch in expired:
            self._note_failure(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{batch.tp} was not acknowledged in time"))
            waited_s = self._settings.delivery_timeout_ms / 1000
            message = f"a batch for {batch.tp} was not acknowledged within {waited_s:g} s: {self._why_late(batch)}"
            _fail(batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, message))
        if expired:
            self._on_progress()

    def _why_late(self, batch: Batch[Delivery]) -> str:
        if batch.is_expired:
            before = f"; the one before: {batch.failure}" if batch.failure else ""
            return f"attempt {batch.attempts} has no response{before}"
        if batch.attempts:
            return f"{batch.attempts} attempts failed, the last one: {batch.failure}"
        return f"it could not be sent: {self._why_unsent(batch.tp)}"

    def _why_unsent(self, tp: TopicPartition) -> str:
        if self._sequences is not None and self._sequences.needs_producer_id:
            failure = self._identity.failure if self._identity is not None else None
            return f"no broker returned a producer id ({failure or 'the first one has not answered'})"
        if self._connections.cluster.leader_of(tp) == NO_NODE:
            return f"the partition has no leader ({self._metadata.failure or 'according to the brokers'})"
        if self._accumulator.is_in_flight(tp):
            return "the batch before it has no response"
        return f"batches before it, or linger_ms ({self._accumulator.linger_ms}), took all of that time"

    def _dispatch(self, now_ms: int) -> None:
        cluster = self._connections.cluster
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in self._accumulator.ready(now_ms, cluster.leader_epoch_of, flushing=bool(self.flushing)):
            by_leader[cluster.leader_of(tp)].append(tp)
        leaderless = by_leader.pop(NO_NODE, [])
        for tp in leaderless:  # perhaps as the topic was made anew with fewer partitions
            if self._is_of_former_topic(tp, self._accumulator.topic_id_of_first(tp)):
                self._fail_former(self._accumulator.take(tp))
        if leaderless or self._accumulator.awaits_leader(cluster.leader_epoch_of):
            self._metadata.request_refresh()
        for leader, partitions in by_leader.items():
            for group in self._in_requests(partitions):
                batches = [self._accumulator.take(tp) for tp in group]
                for tp in group:
                    self._on_sent(tp)
                self._tasks.start(self._send(leader, batches), f"to-{leader}")

    def _in_requests(self, partitions: Iterable[TopicPartition]) -> list[list[TopicPartition]]:
        """Groups that fit a request each."""
        groups: list[list[TopicPartition]] = []
        room = 0
        for tp in partitions:
            size = self._accumulator.size_of_first(tp)
            if not groups or size > room:
                groups.append([])
                room = self._settings.max_request_bytes
            groups[-1].append(tp)
            room -= size
        return groups

    # -- one request ------------------------------------------------------------------------------------------------

    async def _send(self, leader: int, batches: list[Batch[Delivery]]) -> None:
        cluster = self._connections.cluster
        for batch in list(batches):
            if batch.topic_id == ZERO_TOPIC_ID:
                batch.topic_id = cluster.topic_id_of(batch.tp.topic)
            elif self._is_of_former_topic(batch.tp, batch.topic_id):
                batches.remove(batch)
                self._fail_former(batch)
        if not batches:
            return
        leader_epochs = {batch.tp: cluster.leader_epoch_of(batch.tp) for batch in batches}
        try:
            answers = await self._exchange(leader, batches)
        except KafkaError as error:
            answer = PartitionProduceResponse(error_code=error.code, error_message=error.message)
            answers = {batch.tp: answer for batch in batches}
        if self._aborted:
            return
        missing = PartitionProduceResponse(
            error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message="the response does not contain the partition"
        )
        for batch in batches:
            self._settle(batch, answers.get(batch.tp, missing), leader_epochs[batch.tp])
        self._work.set()
        self._on_progress()

    def _is_of_former_topic(self, tp: TopicPartition, topic_id: UUID) -> bool:
        """The id is that of a first attempt, and the topic was deleted and created again since then."""
        now = self._connections.cluster.topic_id_of(tp.topic)
        return ZERO_TOPIC_ID not in (topic_id, now) and topic_id != now

    def _fail_former(self, batch: Batch[Delivery]) -> None:
        message = f"topic {batch.tp.topic!r} was deleted and created again; {batch.failure or 'nothing was sent'}"
        self._accumulator.give_up(batch)
        self._note_failure(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, message))
        _fail(batch, KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, message))
        self._work.set()
        self._on_progress()

    async def _exchange(
        self, leader: int, batches: list[Batch[Delivery]]
    ) -> dict[TopicPartition, PartitionProduceResponse]:
        connection = await self._connections.to_node(leader, "produce")
        by_topic: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for batch in batches:
            data = PartitionProduceData(index=batch.tp.partition, records=batch.encoded)
            by_topic[batch.tp.topic].append(data)
        ids = {topic: self._connections.cluster.topic_id_of(topic) for topic in by_topic}
        names = {topic_id: topic for topic, topic_id in ids.items()}
        at_most = MAX_VERSION_BY_NAME if ZERO_TOPIC_ID in names else None
        settings = self._settings
        timeout_ms = settings.request_timeout_ms
        request = ProduceRequest(
            acks=settings.acks,
            timeout_ms=timeout_ms,
            transactional_id=None if self._transactions is None else self._transactions.transactional_id,
            topic_data=[
                TopicProduceData(name=topic, topic_id=ids[topic], partition_data=data)
                for topic, data in by_topic.items()
            ],
        )
        if settings.acks == UNANSWERED:
            connection.post(request, at_most=at_most)
            return {batch.tp: PartitionProduceResponse(base_offset=-1) for batch in batches}
        timeout_s = timeout_ms / 1000 + ANSWER_MARGIN_S
        response = await connection.call(request, ProduceResponse, timeout_s=timeout_s, at_most=at_most)
        return {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.index): partition
            for topic in response.responses
            for partition in topic.partition_responses
        }

    def _settle(self, batch: Batch[Delivery], answer: PartitionProduceResponse, leader_epoch: int) -> None:
        error = ErrorCode.of(answer.error_code)
        batch.failure = f"{error.name}: {answer.error_message}" if answer.error_message else error.name
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._accumulator.delivered(batch)
            _deliver(batch, answer.base_offset if error is ErrorCode.NONE else NO_OFFSET, answer.log_append_time_ms)
        elif batch.is_expired:
            self._accumulator.give_up(batch)
        elif error in _COUNT_LOST and self._sequences is not None and self._transactions is None:
            self._accumulator.renumber(batch)
            self._retry(batch, None)
        elif error.retriable:
            self._retry(batch, leader_epoch if error in _LEADER_IN_DOUBT else None)
        else:
            self._accumulator.give_up(batch)
            refusal = KafkaError(error, answer.error_message or f"the leader rejected the batch for {batch.tp}")
            self._note_failure(refusal)
            _fail(batch, refusal, is_told=self._transactions is not None)

    def _note_failure(self, error: KafkaError) -> None:
        """A transaction that lacks a record can only be aborted; its end tells why."""
        if self._transactions is not None:
            self._transactions.fail(error)

    def _retry(self, batch: Batch[Delivery], failed_leader_epoch: int | None) -> None:
        """Back to the front of its queue; it expires there when its time is up."""
        if failed_leader_epoch is not None:
            self._metadata.request_refresh()
        delay_ms = int(RETRY_BACKOFF.delay_s(batch.attempts, self._rng) * 1000)
        self._accumulator.retry(batch, _now_ms() + delay_ms, failed_leader_epoch)


def _deliver(batch: Batch[Delivery], base_offset: int, append_time: int) -> None:
    topic, partition = batch.tp
    for index, (delivery, timestamp) in enumerate(zip(batch.tokens, batch.timestamps, strict=True)):
        if not delivery.done():
            offset = NO_OFFSET if base_offset < 0 else base_offset + index
            stamped = timestamp if append_time < 0 else append_time
            delivery.set_result(RecordMetadata(topic, partition, offset, stamped))


def _fail(batch: Batch[Delivery], error: KafkaError, *, is_told: bool = False) -> None:
    """``is_told``: the caller knows otherwise, so asyncio need not report unread futures."""
    for delivery in batch.tokens:
        if not delivery.done():
            delivery.set_exception(error)
        if is_told:
            delivery.cancelled() or delivery.exception()


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
