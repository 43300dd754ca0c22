"""Periodic work of a node: checkpoints, ISR checks, retention, flushing, compaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakSet

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.replica import ReplicaDriver
from minikafka.broker.log_jobs import LogJobs
from minikafka.broker.logs import one_line
from minikafka.broker.partition import Partition
from minikafka.broker.replicas import Replicas
from minikafka.broker.threads import RunInThread
from minikafka.config import BrokerConfig
from minikafka.errors import KafkaError
from minikafka.event_log import get_logger
from minikafka.net.tasks import TaskOwner
from minikafka.storage.compaction import CompactionJob
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.producer_state import PRODUCERS_MAX

log = get_logger()

FLUSH_CHECK_INTERVAL_S = 1.0
COMPACTION_CHECK_INTERVAL_S = 15.0
NODE_PRODUCERS_MAX = 100_000
"""That all logs of a node remember: some 50 MB."""
PRODUCERS_OF_A_LOG_MIN = 100
PORTION: Final = 100
"""Partitions looked at in a turn of the loop, for less than a millisecond: a node may have thousands."""

_T = TypeVar("_T")


@dataclass(eq=False)
class Maintenance:
    """Periodic work on the local replicas. It never blocks the loop for long."""

    _config: BrokerConfig
    _replicas: Replicas
    _driver: ReplicaDriver
    _jobs: LogJobs
    _store: LogStore
    _clock: Clock
    _run_in_thread: RunInThread
    _producer_expiration_ms: Callable[[], int]
    _uncleanable: WeakSet[Log] = field(default_factory=WeakSet, init=False)
    """Those in which the cleaner met a bug."""

    def start(self, tasks: TaskOwner) -> None:
        """Begin; the tasks are the owner's to stop."""
        config = self._config
        tasks.start(
            self._every(config.replica_high_watermark_checkpoint_interval_ms / 1000, self._checkpoint), "checkpoint"
        )
        tasks.start(self._every(config.replica_lag_time_max_ms / 2000, self._check_lagging), "isr-check")
        tasks.start(self._every(config.log_retention_check_interval_ms / 1000, self._apply_retention), "retention")
        tasks.start(self._every(FLUSH_CHECK_INTERVAL_S, self._flush_due), "flush")
        tasks.start(self._every(COMPACTION_CHECK_INTERVAL_S, self._compact), "compaction")

    def high_watermarks(self) -> dict[Any, int]:
        """High watermarks by partition, for the checkpoint that a restart begins with (row R22)."""
        return {partition.topic_partition: partition.high_watermark for partition in self._replicas}

    async def _every(self, interval_s: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await act()
            except (KafkaError, OSError) as error:  # next time it may go well
                log.warning("maintenance failed", what=act.__name__.strip("_"), why=str(error))

    async def _checkpoint(self) -> None:
        look = self._store.prepare_look()

        def note(log_: Log) -> None:
            partition = self._replicas.get(log_.topic_partition)
            self._store.note_rows(log_, None if partition is None else partition.high_watermark)
            look.add(log_)

        await _in_portions(list(self._store), note)
        job = self._store.prepare_checkpoints()

        def run() -> None:
            job.run()
            look.run()

        await self._run_in_thread(run)
        self._store.complete_checkpoints(job)
        look.complete()

    async def _check_lagging(self) -> None:
        """Leaders propose followers that lag out of the ISR (row R19). Marks of damage that are due are written."""
        await _in_portions(self._replicas, self._if_here(self._driver.check_lagging))

    async def _apply_retention(self) -> None:
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.age_ms()
        expiration_ms = self._producer_expiration_ms()
        for partition in self._replicas:
            if partition.replica.is_offline or partition.replica.cut is not None:
                continue
            try:
                ages = partition.log.prepare_retention(wall_ms)
                if ages is not None:
                    await self._run_in_thread(ages.run)
                    partition.log.complete_read(ages)
                count = await self._delete(partition, wall_ms)
                partition.log.remove_expired_producers(now_ms, expiration_ms)
            except KafkaError as error:
                log.warning("retention failed", partition=str(partition.topic_partition), why=str(error))
                continue
            if count:
                log.info("segments deleted", partition=str(partition.topic_partition), count=count)
            await asyncio.sleep(0)

    def _bound_producers(self) -> None:
        """Every client may choose producer ids, for any number of partitions: forget those that wrote longest ago."""
        states = [partition.log.producers for partition in self._replicas]
        limit, forgotten = PRODUCERS_MAX, 0
        while sum(map(len, states)) > NODE_PRODUCERS_MAX and limit > PRODUCERS_OF_A_LOG_MIN:
            limit //= 2
            forgotten += sum(state.keep_newest(limit) for state in states)
        if forgotten:
            log.warning("producers forgotten", count=forgotten, why=f"the logs had more than {NODE_PRODUCERS_MAX}")

    async def _delete(self, partition: Partition, wall_ms: int) -> int:
        """In portions: a change of ``retention.ms`` may concern thousands of segments, each of which is renamed."""
        log_, total = partition.log, 0
        while (job := log_.prepare_deletion(partition.high_watermark, wall_ms)) is not None:
            self._replicas.waiting.note_changed(partition.topic_partition)  # the log begins later now
            with log_.writing():
                await self._run_in_thread(job.run)
            count = log_.complete_deletion(job)
            total += count
            if not count:
                break
        return total

    async def _compact(self) -> None:
        """One log at a time, off the loop. If the log changes meanwhile, its compaction is tried again later."""
        for number, partition in enumerate(self._replicas, 1):
            if number % PORTION == 0:
                await asyncio.sleep(0)
            log_ = partition.log
            try:
                job = await self._plan_compaction(partition)
            except KafkaError as error:
                log.warning("not compacted", partition=str(partition.topic_partition), why=str(error))
                continue
            if job is None:
                continue
            log_.is_cleaning = True
            try:
                if not await self._has_copied(log_, job):
                    continue
                is_done = await self._jobs.alone(partition, partial(self._swap, log_, job))
            except KafkaError as error:
                log.warning("not compacted", partition=str(partition.topic_partition), why=str(error))
                continue
            finally:
                log_.is_cleaning = False
            name = str(partition.topic_partition)
            if is_done:
                log.info("compacted", partition=name, up_to=job.end_offset)
            elif (problem := job.error or job.damaged) is not None:
                log.warning("not compacted", partition=name, why=str(problem))
            if is_done and job.unreadable:
                log.warning("batches that cannot be read were kept", partition=name, at=job.unreadable[:10])

    async def _has_copied(self, log_: Log, job: CompactionJob) -> bool:
        """The cleaner has written new segments, and changed nothing yet.

        A bug that it meets in a log ends no node: all that have a copy would end, again after each start.
        """
        try:
            with log_.writing():
                while not log_.is_offline and not await self._run_in_thread(job.step):
                    pass
        except (KafkaError, OSError):
            raise
        except Exception as error:
            self._uncleanable.add(log_)
            partition = str(log_.topic_partition)
            log.error("no more compaction of a log", partition=partition, why=one_line(error), exc_info=error)
            return False
        return True

    async def _plan_compaction(self, partition: Partition) -> CompactionJob | None:
        log_, wall_ms = partition.log, self._clock.age_ms()
        if not self._may_compact(partition) or log_ in self._uncleanable:
            return None
        ages = log_.prepare_compaction(wall_ms)
        if ages is not None:
            await self._run_in_thread(ages.run)
            log_.complete_read(ages)
        if partition.log is not log_ or not self._may_compact(partition):
            return None
        return log_.plan_compaction(partition.high_watermark, wall_ms)

    def _may_compact(self, partition: Partition) -> bool:
        """Nothing is compacted during a cut, or a move: its future log copies it (row A5)."""
        if partition.replica.is_offline or partition.replica.cut is not None or partition.log.is_offline:
            return False
        return not partition.log.is_arriving and self._store.moves.target_of(partition.topic_partition) is None

    async def _swap(self, log_: Log, job: CompactionJob) -> bool:
        """Replace the old segments by the cleaner's, while the log is not being cut."""
        if not log_.prepare_swap(job):
            return False
        with log_.writing():
            await self._run_in_thread(job.publish)
            steps = log_.completing_compaction(job)
            try:
                while True:
                    next(steps)
                    await asyncio.sleep(0)
            except StopIteration as end:
                is_done: bool = end.value
                return is_done
            finally:
                steps.close()

    async def _flush_due(self) -> None:
        now_ms, producers = self._clock.monotonic_ms(), 0

        def look(partition: Partition) -> None:
            nonlocal producers
            producers += len(partition.log.producers)
            self._driver.look_at(partition)
            is_offline = partition.replica.is_offline or partition.log.is_offline
            if not is_offline and partition.log.flush_due(now_ms):
                self._jobs.request_sync(partition)

        await _in_portions(self._replicas, self._if_here(look))
        if producers > NODE_PRODUCERS_MAX:
            self._bound_producers()
        trash = self._store.take_trash(now_ms)
        if trash is not None:
            await self._run_in_thread(trash)

    def _if_here(self, act: Callable[[Partition], None]) -> Callable[[Partition], None]:
        """A partition may leave while others have their turns."""

        def act_if_here(partition: Partition) -> None:
            if self._replicas.get(partition.topic_partition) is partition:
                act(partition)

        return act_if_here


async def _in_portions(items: Iterable[_T], act: Callable[[_T], None]) -> None:
    """For each of them; the loop has a turn for others after each portion."""
    for number, item in enumerate(items, 1):
        act(item)
        if number % PORTION == 0:
            await asyncio.sleep(0)
