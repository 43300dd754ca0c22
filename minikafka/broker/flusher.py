"""Syncs before acknowledging, where a topic asks for it (``flush.messages``): one fsync for all who wait.

A partition has at most one sync under way; appends that come meanwhile wait for the next one. Only what is synced is
counted by the leader (:meth:`LeaderState.on_append` is called with the synced end), and a follower fetches on only when
what it appended is synced: so an acks=all acknowledgement means that every in-sync replica has the records on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.broker.clock import Clock
from minikafka.broker.partition import Partition
from minikafka.broker.threads import RunInThread
from minikafka.net.tasks import TaskOwner
from minikafka.storage.errors import StorageFailure


class Flusher:
    """``on_flushed(partition)`` follows each sync, ``on_failure(partition, failure)`` a failed one."""

    def __init__(
        self,
        clock: Clock,
        tasks: TaskOwner,
        run_in_thread: RunInThread,
        on_flushed: Callable[[Partition], None],
        on_failure: Callable[[Partition, StorageFailure], None],
    ) -> None:
        self._clock = clock
        self._tasks = tasks
        self._run_in_thread = run_in_thread
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._under_way: set[Partition] = set()

    def request(self, partition: Partition) -> None:
        """Sync a partition's log up to its present end, soon."""
        if partition not in self._under_way:
            self._under_way.add(partition)
            self._tasks.start(self._flush_until_done(partition), f"flush-{partition.topic_partition}")

    async def flush(self, partition: Partition) -> None:
        """Sync now, and wait for it. StorageFailure when that fails."""
        log_ = partition.log
        job = log_.prepare_flush()
        await self._run_in_thread(job.run)
        log_.complete_flush(job, wall_ms=self._clock.wall_ms())

    async def _flush_until_done(self, partition: Partition) -> None:
        try:
            while partition.needs_flush and not partition.is_failed:
                await self.flush(partition)
                self._on_flushed(partition)
                await asyncio.sleep(0)
        except StorageFailure as failure:
            self._on_failure(partition, failure)
        finally:
            self._under_way.discard(partition)
