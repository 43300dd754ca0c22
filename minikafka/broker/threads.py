"""Threads for blocking work, in a pool for each purpose, so that no purpose waits for another.

The loop's default executor is for asyncio's name look-ups only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any, Final, Protocol, TypeVar

from minikafka.broker.backoff import growing_pauses
from minikafka.storage.errors import PassingFailure, is_passing

T = TypeVar("T")

RunInThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs work of one purpose: ``threads.sync``, for example."""

SYNC_THREADS: Final = 8  # a file system takes syncs of several files together
READ_THREADS: Final = 4
UPKEEP_THREADS: Final = 2


class Job(Protocol):
    """Work that can be repeated after a shortage of the process or the machine."""

    @property
    def must_repeat(self) -> bool:
        """It met a shortage."""
        ...

    def run(self) -> None:
        """Run in any thread. Never raises."""
        ...


async def run_job(run_in_thread: RunInThread, job: Job, is_given_up: Callable[[], bool] = lambda: False) -> None:
    """Run it, and repeat it after growing pauses while there is a shortage."""
    pauses = growing_pauses()
    await run_in_thread(job.run)
    while job.must_repeat and not is_given_up():
        await asyncio.sleep(next(pauses))
        await run_in_thread(job.run)


async def patiently(act: Callable[[], Awaitable[T]]) -> T:
    """Run ``act``, and repeat it after growing pauses while the process or the machine is short of something."""
    pauses = growing_pauses()
    while True:
        try:
            return await act()
        except PassingFailure:
            pass
        except OSError as error:
            if not is_passing(error):
                raise
        await asyncio.sleep(next(pauses))


class Pool(ThreadPoolExecutor):
    """At most ``size`` threads for one ``purpose``, started when there is work."""

    def __init__(self, purpose: str, size: int) -> None:
        super().__init__(size, purpose, initializer=_adopt, initargs=(copy_context(),))
        self.size = size


def _adopt(context: Context) -> None:
    """What a thread logs is its node's, as what the node's tasks log."""
    for variable, value in context.items():
        variable.set(value)


class Threads:
    """A method for each purpose: it runs ``act`` off the loop, and its future has the result or the exception.

    Jobs of one purpose wait while all its threads are busy. The caller bounds their number.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._metadata = Pool("metadata", 1)
        self._sync = Pool("sync", SYNC_THREADS)
        self._read = Pool("read", READ_THREADS)
        self._upkeep = Pool("upkeep", UPKEEP_THREADS)
        self._match = Pool("match", 1)
        self._assign = Pool("assign", 1)
        self._pools = (self._metadata, self._sync, self._read, self._upkeep, self._match, self._assign)

    def metadata(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Votes, and syncs of the metadata log: elections wait for these. One thread, in order."""
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

    def match(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Regular expressions of clients: only others of these wait for one that is costly."""
        return self._loop.run_in_executor(self._match, act)

    def assign(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Target assignments of large consumer groups, one at a time: their members go on meanwhile."""
        return self._loop.run_in_executor(self._assign, act)

    def close(self) -> None:
        """Take no more jobs. A job that runs ends by itself; one that waits for a thread never starts."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait for the jobs that run. Not in the loop's thread."""
        for pool in self._pools:
            pool.shutdown()
