"""Consumes records: from partitions assigned by hand, or shared with the other members of a group."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, Self, TypeVar

from minikafka.client.backoff import retrying
from minikafka.client.checks import check_text, check_whole_number
from minikafka.client.connections import Connections
from minikafka.client.consuming.commits import Commits, with_epoch
from minikafka.client.consuming.coordinator import Coordinator
from minikafka.client.consuming.fetcher import Fetcher, FetchSettings
from minikafka.client.consuming.holdings import Holdings
from minikafka.client.consuming.membership import MemberSettings, Membership
from minikafka.client.consuming.positions import NO_END, PositionState
from minikafka.client.consuming.resolver import Resolver
from minikafka.client.consuming.subscription import Subscription
from minikafka.client.metadata import Metadata
from minikafka.client.records import ConsumerRecord, FetchedBatches, GroupMetadata, Progress
from minikafka.client.security import PLAIN, Security
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import EARLIEST, LATEST, NO_OFFSET, Isolation, OffsetAndEpoch, TopicPartition
from minikafka.net.tasks import TaskOwner

T = TypeVar("T")

AUTO_OFFSET_RESET: Final = {"earliest": EARLIEST, "latest": LATEST, "none": None}


class Consumer:
    """``async with Consumer("127.0.0.1:19092", "topic", group_id="g") as consumer: async for record in consumer: ...``

    With topics and a group id, the consumer shares the partitions with the other members of the group. Without a group
    id it reads all partitions of the topics. ``assign`` chooses partitions by hand. A consumer is for one task at a
    time.

    Offsets are committed automatically unless ``enable_auto_commit`` is off: every ``auto_commit_interval_ms``, before
    partitions go to another member, and at the end. Records count as processed when the caller calls again; if it dies,
    the records of its last call are read again.

    - ``auto_offset_reset``: start without a committed offset, or after lost records: "earliest", "latest", or "none"
      (raise NoOffsetError and LogTruncatedError).
    - ``session_timeout_ms``: a member without heartbeats for that long is removed from the group.
      ``heartbeat_interval_ms``: interval of heartbeats, which also tell the member of a rebalance.
      ``max_poll_interval_ms``: longest time between two calls before other members get the partitions.
      ``group_instance_id`` makes it a static member (KIP-345).
    - ``fetch_max_wait_ms``: a leader answers after that time even with fewer than ``fetch_min_bytes``.
      ``fetch_max_bytes`` of one answer, ``max_partition_fetch_bytes`` of one partition in it; two answers may be
      buffered.
    - ``client_rack``: rack of this consumer. If the cluster supports it (``replica.selector.class``), the consumer
      reads from followers in its rack (KIP-392).
    - ``max_block_ms``: time for calls that ask the cluster.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *topics: str,
        group_id: str | None = None,
        client_id: str = "minikafka-consumer",
        security: Security = PLAIN,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 1_000,
        max_poll_interval_ms: int = 300_000,
        group_instance_id: str | None = None,
        isolation_level: Isolation = Isolation.READ_UNCOMMITTED,
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        check_crcs: bool = True,
        client_rack: str = "",
        request_timeout_ms: int = 30_000,
        max_block_ms: int = 10_000,
        rng: random.Random | None = None,
    ) -> None:
        if auto_offset_reset not in AUTO_OFFSET_RESET:
            raise ValueError(f"auto_offset_reset is {auto_offset_reset!r}; it must be earliest, latest or none")
        if not isinstance(isolation_level, Isolation):
            raise TypeError(f"isolation_level is {isolation_level!r}; it must be one of minikafka.model.Isolation")
        check_text("client_rack", client_rack)
        if group_id is not None:
            check_text("group_id", group_id)
        for topic in topics:
            check_text("a topic", topic)
        for name, value, at_least in (
            ("auto_commit_interval_ms", auto_commit_interval_ms, 1),
            ("session_timeout_ms", session_timeout_ms, 1),
            ("heartbeat_interval_ms", heartbeat_interval_ms, 1),
            ("max_poll_interval_ms", max_poll_interval_ms, 1),
            ("fetch_max_wait_ms", fetch_max_wait_ms, 1),
            ("fetch_min_bytes", fetch_min_bytes, 0),
            ("fetch_max_bytes", fetch_max_bytes, 0),
            ("max_partition_fetch_bytes", max_partition_fetch_bytes, 0),
            ("request_timeout_ms", request_timeout_ms, 1),
            ("max_block_ms", max_block_ms, 0),
        ):
            check_whole_number(name, value, at_least)
        rng = self._rng = random.Random() if rng is None else rng
        self._topics = tuple(topics)
        self._auto_commit_s = auto_commit_interval_ms / 1000 if enable_auto_commit else None
        self._max_block_s = max_block_ms / 1000
        self._changed = asyncio.Event()  # records arrived, or an answer, or an error
        self._failure: BaseException | None = None
        self._is_running = False
        connections = self._connections = Connections(
            bootstrap_servers,
            client_id=client_id,
            security=security,
            rng=rng,
            request_timeout_s=request_timeout_ms / 1000,
        )
        tasks = self._tasks = TaskOwner(client_id, self._on_task_failure)
        metadata = self._metadata = Metadata(connections, tasks, rng, self._on_metadata)
        holdings = self._holdings = Holdings(
            _now_ms,
            lambda: self._fetcher.wake(),
            lambda topic: connections.cluster.topic_id_of(topic),
            reset_policy=AUTO_OFFSET_RESET[auto_offset_reset],
            max_poll_interval_ms=max_poll_interval_ms,
            is_auto_commit=enable_auto_commit,
        )
        self._coordinator = None if group_id is None else Coordinator(connections, group_id)
        self._group_instance_id = group_instance_id
        self._isolation = isolation_level
        self._resolver = Resolver(
            connections, metadata, self._coordinator, tasks, rng, _now_ms, isolation_level, self._on_answer
        )
        self._fetcher = Fetcher(
            connections,
            metadata,
            self._resolver,
            tasks,
            _now_ms,
            holdings.positions.values,
            holdings.buffer,
            FetchSettings(
                isolation=isolation_level,
                max_wait_ms=fetch_max_wait_ms,
                min_bytes=fetch_min_bytes,
                max_bytes=fetch_max_bytes,
                partition_max_bytes=max_partition_fetch_bytes,
                check_crcs=check_crcs,
                rack_id=client_rack,
            ),
            self._on_answer,
        )
        self._membership: Membership | None = None
        self._commits: Commits | None = None
        if self._coordinator is not None:
            settings = MemberSettings(
                session_timeout_ms, max_poll_interval_ms, heartbeat_interval_ms, group_instance_id
            )
            self._membership = Membership(connections, metadata, self._coordinator, tasks, rng, settings, holdings)
            self._commits = Commits(self._coordinator, self._membership, rng, holdings, timeout_s=self._max_block_s)
        self._subscription = Subscription(
            connections, metadata, holdings, self._membership, self._commits, timeout_s=self._max_block_s
        )

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; with topics, begin to read them. Raises KafkaError when no broker answers or a topic is missing."""
        if self._is_running:
            raise RuntimeError("the consumer is already running; 'async with' has started it")
        self._is_running = True
        try:
            await self._connections.bootstrap()
            self._metadata.start()
            self._fetcher.start()
            if self._commits is not None and self._auto_commit_s is not None:
                self._tasks.start(self._commits.commit_for_ever(self._auto_commit_s), "auto-commit")
            if self._topics:
                await self.subscribe(*self._topics)
        except BaseException:
            await self._disconnect()
            raise

    async def close(self) -> None:
        """Commit returned records (if automatic), leave the group, disconnect; takes a few seconds at most."""
        self._holdings.settle()
        await self._close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Like :meth:`close`; but after an exception the records of the last call are not committed."""
        if exc is None:
            self._holdings.settle()
        await self._close()

    # -- topics and partitions --------------------------------------------------------------------------------------

    async def subscribe(self, *topics: str) -> None:
        """Read these topics: a share of their partitions in a group, otherwise all, including those added later.

        A group's topic may be created later; without a group a missing topic raises UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._check_running()
        await self._subscription.subscribe(topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on, independently of the group."""
        self._check_running()
        self._subscription.assign(partitions)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The current partitions."""
        return frozenset(self._holdings.positions)

    def seek(self, tp: TopicPartition, offset: OffsetAndEpoch | int, *, until: int = NO_END) -> None:
        """Continue at ``offset``; fetched records are dropped. Raises ValueError for a partition that is not assigned.

        With an OffsetAndEpoch the leader is asked first whether its log is the same up to there (``epoch``: that of the
        record before). Records from ``until`` on are not fetched, except in a batch with earlier ones.
        """
        position, to = self._holdings.position(tp), with_epoch(offset, f"seek {tp} to")
        position.until = until
        position.seek(to.offset, to.epoch, validated=False)
        self._holdings.moved()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first offset that is still there (all partitions by default)."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the log end (all partitions by default)."""
        self._reset(partitions, LATEST)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these (all by default) until they are resumed. Fetched records are kept."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with paused partitions (all by default)."""
        self._set_paused(partitions, False)

    # -- reading ----------------------------------------------------------------------------------------------------

    async def getone(self) -> ConsumerRecord:
        """Wait for the next record and return it. Raises the KafkaError of a failed fetch."""
        self._holdings.enter()
        try:
            return (await self._wait_for(lambda: self._holdings.take(1)))[0]
        finally:
            self._holdings.leave()

    async def poll(self, timeout_ms: int = 0, max_records: int = 500) -> list[ConsumerRecord]:
        """Up to ``max_records``; waits up to ``timeout_ms`` for the first of them. Raises like :meth:`getone`.

        A cancelled call loses no records.
        """
        return await self._poll(timeout_ms, lambda: self._holdings.take(max_records))

    async def poll_batches(self, timeout_ms: int = 0) -> list[FetchedBatches]:
        """All buffered records, as undecoded batches; otherwise like :meth:`poll`.

        One item per fetch answer. Its checksums are verified; its memory lives as long as its buffer.
        """
        return await self._poll(timeout_ms, self._holdings.take_batches)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            yield await self.getone()

    # -- offsets ----------------------------------------------------------------------------------------------------

    async def position(self, tp: TopicPartition) -> int:
        """Offset of the next record; looked up first if it is unknown."""
        position = self._holdings.position(tp)

        async def attempt() -> int:
            if position.state is PositionState.FAILED and position.error is not None:
                raise position.error
            if position.consumed.offset == NO_OFFSET:
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"position of {tp} not known yet; poll again")
            return position.consumed.offset

        return await self._retrying(attempt, f"finding the position of {tp}")

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndEpoch | int] | None = None) -> None:
        """Store offsets for the group: the given ones, or the position after all returned records.

        Raises KafkaError. CommitFailedError: since the last records were returned, the group has rebalanced, or has
        removed this consumer. Those records will be read again; there is nothing to commit until the next poll.
        """
        _, commits = self._group()
        if offsets is None:
            await commits.commit(None)
        else:
            await commits.commit({tp: with_epoch(offset, "commit offset") for tp, offset in offsets.items()})

    def progress(self) -> Progress:
        """The position after all returned records, to be committed with a transaction (``Producer.send_offsets``).

        Raises CommitFailedError as :meth:`commit` does. Set ``enable_auto_commit=False`` for such a consumer.
        """
        coordinator, commits = self._group()
        offsets, generation = commits.progress()
        if generation is None:
            return Progress(offsets, GroupMetadata(coordinator.group_id))
        member = GroupMetadata(coordinator.group_id, generation.id, generation.member_id, self._group_instance_id)
        return Progress(offsets, member)

    def rewind(self) -> None:
        """Read again from what is committed: the transaction that was to commit the records since then was aborted.

        A partition without a committed offset is read from where ``auto_offset_reset`` says.
        """
        self._group()
        for position in self._holdings.positions.values():
            position.begin_anew()
        self._holdings.moved()

    async def committed(self, tp: TopicPartition) -> int | None:
        """The group's stored offset, or None. With READ_COMMITTED, waits for transactions that are being completed."""
        coordinator, _ = self._group()
        stable = self._isolation is Isolation.READ_COMMITTED
        found = await self._retrying(
            lambda: coordinator.committed([tp], require_stable=stable), "fetching committed offsets"
        )
        return found[tp].offset if tp in found else None

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """First offset of the log, per partition."""
        return await self._find_offsets(dict.fromkeys(partitions, EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Offset after the last readable record, per partition."""
        return await self._find_offsets(dict.fromkeys(partitions, LATEST))

    async def offsets_for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """First offset at or after each time; partitions without such a record are left out."""
        found = await self._find_offsets(timestamps_ms)
        return {tp: offset for tp, offset in found.items() if offset != NO_OFFSET}

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _poll(self, timeout_ms: int, take: Callable[[], list[T]]) -> list[T]:
        self._holdings.enter()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._wait_for(take)
        except TimeoutError:
            return []
        finally:
            self._holdings.leave()

    async def _wait_for(self, take: Callable[[], list[T]]) -> list[T]:
        self._check_running()
        while not (taken := take()):
            self._changed.clear()
            await self._changed.wait()
            self._check_running()
        return taken

    def _reset(self, partitions: tuple[TopicPartition, ...], to: int) -> None:
        for tp in partitions or tuple(self._holdings.positions):
            self._holdings.position(tp).reset(to)
        self._holdings.moved()

    def _set_paused(self, partitions: tuple[TopicPartition, ...], is_paused: bool) -> None:
        for tp in partitions or tuple(self._holdings.positions):
            self._holdings.position(tp).is_paused = is_paused
        self._holdings.moved()
        self._changed.set()

    async def _find_offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self._check_running()
        return await self._resolver.find_offsets(timestamps, timeout_s=self._max_block_s)

    async def _retrying(self, attempt: Callable[[], Awaitable[T]], doing: str) -> T:
        self._check_running()
        return await retrying(attempt, timeout_s=self._max_block_s, rng=self._rng, doing=doing)

    def _group(self) -> tuple[Coordinator, Commits]:
        self._check_running()
        if self._coordinator is None or self._commits is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "this consumer has no group; give Consumer(..., group_id=...)")
        return self._coordinator, self._commits

    def _check_running(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._is_running:
            raise RuntimeError("the consumer is not running; use 'async with Consumer(...)', or start() it first")

    async def _close(self) -> None:
        if not self._is_running:
            return
        try:
            if self._failure is None and self._membership is not None and self._commits is not None:
                if self._auto_commit_s is not None:
                    await self._commits.commit_last()
                await self._membership.leave()
        finally:
            await self._disconnect()

    async def _disconnect(self) -> None:
        self._is_running = False
        self._changed.set()
        try:
            await self._tasks.close()
        finally:  # also when that is cancelled
            await self._connections.close()

    # -- what happens meanwhile -------------------------------------------------------------------------------------

    def _on_answer(self) -> None:
        self._holdings.look_for_errors()
        self._fetcher.wake()
        self._changed.set()

    def _on_metadata(self) -> None:
        self._subscription.on_metadata()
        self._fetcher.wake()

    def _on_task_failure(self, name: str, error: BaseException) -> None:
        self._failure = self._failure or error
        self._changed.set()


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
