"""Threads for what blocks, in a pool of its own for each purpose, so that no purpose waits for another.

The loop's default executor is left to name look-ups, which asyncio sends there. Nothing else in a node uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

from minikafka.storage.errors import PassingFailure, is_passing

T = TypeVar("T")

RunInThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""One purpose, as it is handed to whoever has it: ``threads.sync``, for example."""

FIRST_PAUSE_S: Final = 0.1
LAST_PAUSE_S: Final = 5.0

SYNC_THREADS: Final = 8  # a file system takes syncs of several files together
READ_THREADS: Final = 4
UPKEEP_THREADS: Final = 2


class Job(Protocol):
    """What may be run again where it met a limit of the process or the machine: that is no broken disk."""

    @property
    def must_repeat(self) -> bool:
        """It met one."""
        ...

    def run(self) -> None:
        """In any thread. Nothing is raised."""
        ...


async def run_job(run_in_thread: RunInThread, job: Job, is_given_up: Callable[[], bool] = lambda: False) -> None:
    """Run it until it need not be repeated, in growing pauses."""
    await run_in_thread(job.run)
    pause_s = FIRST_PAUSE_S
    while job.must_repeat and not is_given_up():
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LAST_PAUSE_S)
        await run_in_thread(job.run)


async def patiently(act: Callable[[], Awaitable[T]]) -> T:
    """Do what can be done again, in growing pauses, while the process or the machine is short of something."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await act()
        except PassingFailure:
            pass
        except OSError as error:
            if not is_passing(error):
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LAST_PAUSE_S)


class Pool(ThreadPoolExecutor):
    """At most ``size`` threads for one ``purpose``. None is started before there is work for it."""

    def __init__(self, purpose: str, size: int) -> None:
        super().__init__(max_workers=size, thread_name_prefix=purpose)
        self.size = size


class Threads:
    """A method for each purpose: it runs ``act`` off the loop, and its future has the result or the exception.

    Jobs of one purpose wait for each other when all its threads are busy. Whoever starts jobs bounds their number.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._metadata = Pool("metadata", 1)
        self._sync = Pool("sync", SYNC_THREADS)
        self._read = Pool("read", READ_THREADS)
        self._upkeep = Pool("upkeep", UPKEEP_THREADS)

    def metadata(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Votes, and syncs of the metadata log: elections wait for these. One thread, in the order asked."""
        return self._loop.run_in_executor(self._metadata, act)

    def sync(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Syncs of partitions' logs: producers and followers wait for these."""
        return self._loop.run_in_executor(self._sync, act)

    def read(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Reads, scans and decompression that take long: one client waits for these."""
        return self._loop.run_in_executor(self._read, act)

    def upkeep(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Compaction, moves between directories, snapshots, deleting files: nobody waits for these."""
        return self._loop.run_in_executor(self._upkeep, act)

    def close(self) -> None:
        """Take no more jobs. A job that runs ends by itself; one that waits for a thread never starts."""
        for pool in (self._metadata, self._sync, self._read, self._upkeep):
            pool.shutdown(wait=False, cancel_futures=True)
