"""Staged requests of a read event: at its end their batches are written, once per partition, and they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from minikafka.broker.replicas import Replicas

LARGE_AT_ONCE: Final = 8
"""Requests of very many batches that are staged at the same time: one of 5,000 takes 4 MB meanwhile."""


class Staged(Protocol):
    """A request whose batches are written at the end of the read event."""

    def on_written(self) -> None:
        """Its batches are in the log, or failed."""


class LargePlace:
    """Of a request of very many batches, among those that are staged at the same time."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._is_held = False

    async def __aenter__(self) -> LargePlace:
        await self._take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._give()

    @asynccontextmanager
    async def left(self) -> AsyncIterator[None]:
        """Others may have it meanwhile: this one waits for a thread or for another node, maybe for minutes."""
        self._give()
        try:
            yield
        except Exception:
            await self._take()
            raise
        await self._take()

    async def _take(self) -> None:
        await self._places.acquire()
        self._is_held = True

    def _give(self) -> None:
        if self._is_held:  # and not cancelled while it waited for it
            self._is_held = False
            self._places.release()


class Staging:
    """The staged requests of one node, in the order in which they came."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._staged: list[Staged] = []
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)

    def add(self, request: Staged) -> None:
        """Its batches are staged in the replicas."""
        self._staged.append(request)

    def on_read_event_end(self) -> None:
        """A connection's frames were handled: write what they staged, then answer."""
        self._replicas.commit_staged()
        if self._staged:
            written, self._staged = self._staged, []
            for request in written:
                request.on_written()
