"""Refreshes a client's view of the cluster: at once when it proved wrong, otherwise every few minutes.

It also refreshes when an answer is late. The cluster fences a broker that hangs. Once it names another leader, or no
longer lists the broker, :class:`Connections` closes the connection, and requests go to the new leader.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from minikafka.client.backoff import FAILOVER_BACKOFF
from minikafka.client.cluster import TopicView
from minikafka.client.connections import Connections
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.tasks import TaskOwner

MAX_AGE_S: Final = 300.0
LOOK_INTERVAL_S: Final = 0.5
NAME_RULE: Final = "a name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"


class Metadata:
    """Refreshes ``connections.cluster`` for the topics in ``topics``; ``on_update`` is called each time."""

    def __init__(
        self,
        connections: Connections,
        tasks: TaskOwner,
        rng: random.Random,
        on_update: Callable[[], None],
        *,
        max_age_s: float = MAX_AGE_S,
    ) -> None:
        self._connections = connections
        self._tasks = tasks
        self._rng = rng
        self._on_update = on_update
        self._max_age_s = max_age_s
        self._wanted = asyncio.Event()
        self._updated = asyncio.Event()  # replaced at each update
        self._awaited: Counter[str] = Counter()  # number of waiting callers; counts below 1 are left out
        self._to_create: Counter[str] = Counter()
        self.failure: KafkaError | None = None  # error of the last refresh
        self.topics: set[str] = set()

    def start(self) -> None:
        """Begin to refresh."""
        self._tasks.start(self._run(), "metadata")

    def request_refresh(self) -> None:
        """The view proved wrong: refresh, at once or after the back-off."""
        self._wanted.set()

    async def updated(self) -> None:
        """Wait for the next refresh, or its failure."""
        await self._updated.wait()

    async def topic(self, name: str, *, timeout_s: float, may_create: bool) -> TopicView:
        """Wait for the topic's description; the topic is kept up to date from now on.

        ``may_create``: let the cluster create it, if it creates topics on first use. Raises KafkaError after
        ``timeout_s``, or at once for a permanent error, such as an illegal name.
        """
        asked = Counter([name])
        self._awaited += asked
        if may_create:
            self._to_create += asked
        try:
            async with asyncio.timeout(timeout_s):
                view = await self._described(name)
            self.topics.add(name)
            return view
        except TimeoutError:
            raise self._why_unknown(name, timeout_s) from None
        finally:
            self._awaited -= asked
            if may_create:
                self._to_create -= asked

    async def _described(self, name: str) -> TopicView:
        while True:
            self.request_refresh()
            await self.updated()
            view = self._connections.cluster.topics.get(name)
            if view is None:
                continue
            if view.is_usable:
                return view
            if view.error is not ErrorCode.NONE and not view.error.retriable:
                rule = f"; {NAME_RULE}" if view.error is ErrorCode.INVALID_TOPIC_EXCEPTION else ""
                raise KafkaError(view.error, f"the cluster rejected topic {name!r}{rule}")

    def _why_unknown(self, name: str, timeout_s: float) -> KafkaError:
        if self.failure is not None:
            return KafkaError(self.failure.code, f"cannot look up topic {name!r}: {self.failure.message}")
        view = self._connections.cluster.topics.get(name)
        code = (view.error if view is not None else ErrorCode.NONE) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return KafkaError(code, f"topic {name!r} not found within {timeout_s:g} s; create it first")

    # -- the loop ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        repeats = 0
        while True:
            await self._wait_until_due()
            self._wanted.clear()
            await self._refresh()
            repeats += 1
            await asyncio.sleep(FAILOVER_BACKOFF.delay_s(repeats, self._rng))
            if not self._wanted.is_set():
                repeats = 0

    async def _wait_until_due(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._max_age_s
        while True:
            try:
                async with asyncio.timeout(LOOK_INTERVAL_S):
                    await self._wanted.wait()
                return
            except TimeoutError:
                if loop.time() >= due_s or self._connections.has_slow_calls():
                    return

    async def _refresh(self) -> None:
        try:
            to_create = set(self._to_create)
            if to_create:  # in a request of their own, so that a deleted topic is not created again
                await self._connections.refresh(sorted(to_create), may_create=True)
            await self._connections.refresh(sorted((self.topics | self._awaited.keys()) - to_create))
            self.failure = None
        except KafkaError as error:
            self.failure = error
            self._wanted.set()
        updated, self._updated = self._updated, asyncio.Event()
        updated.set()
        self._on_update()
