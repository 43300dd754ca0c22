"""Tells replicas of new metadata, in portions: one change may affect thousands.

The loop does other work between portions. The first portion is told at once, so a small change takes effect
immediately. Open replicas come before those that have to be opened, whose files are made in a thread. Each replica is
told the newest image, as after a restart, not the changes in between. A replica that could not be opened because of a
shortage is told again later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Final, Protocol

from minikafka.broker.backoff import growing_pauses
from minikafka.broker.replicas import Replicas
from minikafka.broker.threads import RunInThread
from minikafka.model import TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.storage.errors import PassingFailure, StorageFailure
from minikafka.storage.log_store import LogStore
from minikafka.storage.new_log import NewLog

AT_ONCE: Final = 20
"""Replicas of a portion. Telling one that it leads takes half a millisecond, and its log line as much."""
PLACED_AT_ONCE: Final = 2_000
"""Among those that are here, or to be opened."""
OPENED_AT_ONCE: Final = 10
"""Most replicas opened on the loop: each takes half a millisecond. None whose making has to be synced."""


class Teller(Protocol):
    """Tells single replicas the newest image."""

    def tell(self, tp: TopicPartition) -> None:
        """Open, change or remove the replica."""
        ...

    def prepare(self, tp: TopicPartition) -> NewLog | None:
        """The job that makes the replica's files, if they are needed before it can be opened."""
        ...


class DueReplicas:
    """See the module. A bug goes to ``on_fatal``: a replica without current metadata is of no use."""

    def __init__(
        self,
        teller: Teller,
        replicas: Replicas,
        store: LogStore,
        tasks: TaskOwner,
        run_in_thread: RunInThread,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._teller = teller
        self._replicas = replicas
        self._store = store
        self._tasks = tasks
        self._run_in_thread = run_in_thread
        self._on_fatal = on_fatal
        self._noted: deque[Iterator[TopicPartition]] = deque()
        self._here: dict[TopicPartition, None] = {}  # ordered sets
        self._to_open: dict[TopicPartition, None] = {}
        self._again: dict[TopicPartition, None] = {}
        self._is_pausing = False
        self._all_told = asyncio.Event()
        self._all_told.set()

    @property
    def is_behind(self) -> bool:
        """True while some replica has not been told."""
        return not self._all_told.is_set()

    async def wait_all_told(self) -> None:
        """Wait until every replica that metadata places here is open and has been told the newest image."""
        while self.is_behind:  # more may have come before whoever waits has its turn
            await self._all_told.wait()

    def note(self, groups: Iterable[Iterable[TopicPartition]]) -> None:
        """Metadata of these changed; there may be 100,000, few of them on this node."""
        self._noted.append(chain.from_iterable(groups))
        self._place_portion()

    def _place_portion(self) -> None:
        left = PLACED_AT_ONCE
        while left and self._noted:
            portion = list(islice(self._noted[0], left))
            for tp in portion:
                due = self._to_open if self._replicas.get(tp) is None else self._here
                due[tp] = None
            if len(portion) < left:
                self._noted.popleft()
            left -= len(portion)

    def note_again(self, tp: TopicPartition) -> None:
        """The replica could not be opened because of a shortage. It is told again after a pause; pauses grow."""
        self._again[tp] = None
        if not self._is_pausing:
            self._is_pausing = True
            self._tasks.start(self._tell_again(), "roles again")

    async def _tell_again(self) -> None:
        pauses = growing_pauses()
        while self._again:
            await asyncio.sleep(next(pauses))
            due, self._again = self._again, {}
            self.note([due])
            self._begin_rest()
            await self.wait_all_told()
        self._is_pausing = False

    def begin(self) -> None:
        """Tell a portion now, and let the rest follow."""
        self._tell_portion(self._here)
        if self.is_behind:
            return
        if len(self._to_open) <= OPENED_AT_ONCE and not any(map(self._store.has_former, self._to_open)):
            self._tell_portion(self._to_open)
        if self._noted or self._here or self._to_open:
            self._begin_rest()

    def _begin_rest(self) -> None:
        if not self.is_behind:
            self._all_told.clear()
            self._tasks.start(self._tell_rest(), "roles")

    async def _tell_rest(self) -> None:
        try:
            while self._noted or self._here or self._to_open:
                await asyncio.sleep(0)
                self._place_portion()
                self._tell_portion(self._here)
                await self._open_portion()
        except Exception as error:
            self._on_fatal(error)
            raise
        self._all_told.set()

    def _tell_portion(self, due: dict[TopicPartition, None]) -> None:
        for tp in _taken(due):
            self._teller.tell(tp)

    async def _open_portion(self) -> None:
        """Make the files of a portion, then tell its replicas; metadata may have changed meanwhile."""
        jobs = {tp: self._teller.prepare(tp) for tp in _taken(self._to_open)}
        new = [job for job in jobs.values() if job is not None]
        if new:
            await self._run_in_thread(partial(_run_all, new))
        for tp, job in jobs.items():
            if job is not None:
                with suppress(StorageFailure, PassingFailure):  # in which case it is tried again, and said
                    self._store.complete_create(job)
            self._teller.tell(tp)


def _taken(due: dict[TopicPartition, None]) -> list[TopicPartition]:
    """Take a portion out of ``due``."""
    portion = list(islice(due, AT_ONCE))
    for tp in portion:
        del due[tp]
    return portion


def _run_all(jobs: Iterable[NewLog]) -> None:
    for job in jobs:
        job.run()
