"""Syncs and cuts of replicas' logs, off the loop, one at a time per log.

All syncs are requested here: by a leader whose topic has ``flush.messages``, a follower before its next fetch,
maintenance, a topic that begins to sync. One sync serves all requests before its start; later ones wait for the next.
Every sync is followed by ``on_synced``.

So a batch is acknowledged, and a follower fetches on, only after a sync that began after the append. No sync sees a log
whose files are being cut. Other changes of files take their turn with :meth:`LogJobs.alone`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from minikafka.broker.backoff import growing_pauses
from minikafka.broker.clock import Clock
from minikafka.broker.partition import Partition
from minikafka.broker.threads import RunInThread, run_job
from minikafka.event_log import get_logger
from minikafka.net.tasks import TaskOwner
from minikafka.replication.replica_effects import Cut, Restart
from minikafka.storage.errors import PassingFailure, StorageFailure
from minikafka.storage.log import CutJob, FlushJob, Log

logger = get_logger()


class JobEvents(Protocol):
    """Receiver of the jobs' results."""

    def on_synced(self, partition: Partition) -> None:
        """The log is durable up to its recovery point."""

    def on_cut(self, partition: Partition) -> None:
        """The log was cut."""

    def remake(self, partition: Partition) -> None:
        """The log to be cut has lost its files: create it again. StorageFailure when the disk refuses."""

    def on_storage_failed(self, partition: Partition, failure: StorageFailure) -> None:
        """The disk failed; the log is offline."""


class _Queue:
    """Jobs of one log."""

    __slots__ = ("cut", "is_sync_wanted", "turns", "waiters")

    def __init__(self) -> None:
        self.cut: Cut | Restart | None = None
        self.is_sync_wanted = False
        self.waiters: list[asyncio.Future[None]] = []  # for a sync that has not begun
        self.turns: deque[_Turn] = deque()

    @property
    def is_empty(self) -> bool:
        return self.cut is None and not self.is_sync_wanted and not self.turns


class _Turn:
    """Another change of a log's files."""

    __slots__ = ("_act", "done")

    def __init__(self, act: Callable[[], Awaitable[bool]]) -> None:
        self._act = act
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Run it; its exception goes to the caller of :meth:`LogJobs.alone`."""
        try:
            result = await self._act()
        except Exception as error:
            self.refuse(error)
        else:
            if not self.done.done():
                self.done.set_result(result)

    def refuse(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class LogJobs:
    """A queue per log with jobs; the driver of the replicas sets ``events``."""

    events: JobEvents

    def __init__(self, clock: Clock, tasks: TaskOwner, run_in_thread: RunInThread) -> None:
        self._clock = clock
        self._tasks = tasks
        self._run_in_thread = run_in_thread
        self._queues: dict[Partition, _Queue] = {}
        self._is_closed = False
        self._all_done = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """True once it takes no more jobs: the node stops."""
        return self._is_closed

    def request_sync(self, partition: Partition) -> None:
        """Sync a log up to its present end, soon."""
        queue = self._queue_of(partition)
        if queue is not None:
            queue.is_sync_wanted = True

    async def sync(self, partition: Partition) -> None:
        """Sync a log up to its present end, and wait for it. StorageFailure when the sync fails."""
        queue = self._queue_of(partition)
        if queue is None:
            raise StorageFailure(f"{partition.topic_partition} is not synced: the node stops")
        queue.is_sync_wanted = True
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.waiters.append(done)
        await done

    async def alone(self, partition: Partition, act: Callable[[], Awaitable[bool]]) -> bool:
        """Run ``act`` while the log is neither cut nor synced. StorageFailure: the log went offline.

        If threads change its files by their names, ``act`` is to say so, by :meth:`Log.writing`.
        """
        queue = self._queue_of(partition)
        if queue is None:
            raise StorageFailure(f"{partition.topic_partition} is left alone: the node stops")
        turn = _Turn(act)
        queue.turns.append(turn)
        return await turn.done

    def cut(self, partition: Partition, cut: Cut | Restart) -> None:
        """Cut a log, after a sync that is under way; :meth:`JobEvents.on_cut` follows.

        If nothing changes on the disk, this happens at once.
        """
        if partition not in self._queues and not self._is_closed and self._is_trivial(partition, cut):
            self.events.on_cut(partition)
            return
        queue = self._queue_of(partition)
        if queue is not None:
            assert queue.cut is None, f"{queue.cut} of {partition.topic_partition} is under way"
            queue.cut = cut

    async def close(self) -> None:
        """Take no more jobs, and wait for those under way."""
        self._is_closed = True
        while self._queues:
            self._all_done.clear()
            await self._all_done.wait()

    def _queue_of(self, partition: Partition) -> _Queue | None:
        queue = self._queues.get(partition)
        if queue is None and not self._is_closed:
            queue = self._queues[partition] = _Queue()
            self._tasks.start(self._run(partition, queue), f"jobs-{partition.topic_partition}")
        return queue

    async def _run(self, partition: Partition, queue: _Queue) -> None:
        try:
            while not queue.is_empty and not partition.replica.is_offline:
                try:
                    await self._run_next(partition, queue)
                except StorageFailure as failure:
                    self._refuse(queue, failure)
                    self.events.on_storage_failed(partition, failure)
                    if not partition.log.has_lost_files:
                        return
                except PassingFailure as shortage:  # to the end: the node stops
                    logger.warning("a log is left alone", partition=str(partition.topic_partition), why=str(shortage))
                    return
                await asyncio.sleep(0)
        finally:
            del self._queues[partition]
            self._refuse(queue, StorageFailure(f"{partition.topic_partition} went offline"))
            self._all_done.set()

    async def _run_next(self, partition: Partition, queue: _Queue) -> None:
        if queue.cut is not None:
            cut, queue.cut = queue.cut, None
            await self._cut(partition, cut)
        elif queue.turns:
            await queue.turns.popleft().run()
        else:
            await self._sync(partition, queue)

    async def _sync(self, partition: Partition, queue: _Queue) -> None:
        queue.is_sync_wanted = False
        waiters, queue.waiters = queue.waiters, []
        log = partition.log
        try:
            job = log.prepare_flush()
            with log.writing():
                await self._run_job(job)
            log.complete_flush(job, now_ms=self._clock.monotonic_ms())
        except (StorageFailure, PassingFailure):
            queue.waiters += waiters
            raise
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.events.on_synced(partition)

    async def _run_job(self, job: FlushJob | CutJob) -> None:
        await run_job(self._run_in_thread, job, lambda: self._is_closed)

    @staticmethod
    def _is_trivial(partition: Partition, cut: Cut | Restart) -> bool:
        """True when the log ends there already."""
        log = partition.log
        if isinstance(cut, Restart) or cut.offset < log.log_end_offset or log.has_lost_files:
            return False
        job = log.prepare_truncation(cut.offset)  # an epoch without a record may have to go from memory
        assert job is None
        return True

    async def _cut(self, partition: Partition, cut: Cut | Restart) -> None:
        try:
            await self._cut_files(partition.log, cut)
        except StorageFailure:
            if not partition.log.has_lost_files:
                raise
        if partition.log.has_lost_files:
            await self._remake(partition)
        self.events.on_cut(partition)

    async def _cut_files(self, log: Log, cut: Cut | Restart) -> None:
        if log.has_lost_files:
            return
        job = log.prepare_restart(cut.offset) if isinstance(cut, Restart) else log.prepare_truncation(cut.offset)
        if job is not None:
            with log.writing():
                await self._run_job(job)
            if job.must_repeat:
                raise PassingFailure(f"a cut is not done: {job.error}")
            log.complete_cut(job)

    async def _remake(self, partition: Partition) -> None:
        """Again, in growing pauses, unless the directory failed, or the replica left meanwhile."""
        pauses = growing_pauses()
        while not partition.replica.is_offline:
            try:
                self.events.remake(partition)
            except (StorageFailure, PassingFailure):
                if partition.replica.is_offline or self._is_closed:
                    raise
                await asyncio.sleep(next(pauses))
            else:
                return
        raise StorageFailure(f"{partition.topic_partition} is not made again: it left, or its directory failed")

    @staticmethod
    def _refuse(queue: _Queue, failure: StorageFailure) -> None:
        for waiter in queue.waiters:
            if not waiter.done():
                waiter.set_exception(failure)
        queue.waiters = []
        while queue.turns:
            queue.turns.popleft().refuse(failure)
