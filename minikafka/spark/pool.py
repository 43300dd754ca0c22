"""Clients that are connected, for whoever needs one next. Everything here happens on one event loop."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

from minikafka.client.backoff import retrying

IDLE_MAX: Final = 4  # clients that are kept for later


class Connecting(Protocol):
    """What all clients can do."""

    async def start(self) -> None:
        """Connect, or raise KafkaError and be of no more use."""

    async def close(self) -> None:
        """Disconnect."""


Client = TypeVar("Client", bound=Connecting)


class Pool(Generic[Client]):
    """``make`` gives a client that is not connected yet; connecting is tried for ``connect_timeout_s``."""

    def __init__(self, make: Callable[[], Client], connect_timeout_s: float) -> None:
        self._make = make
        self._connect_timeout_s = connect_timeout_s
        self._rng = random.Random()
        self._idle: list[Client] = []

    async def borrow(self) -> Client:
        """One that is connected; whoever borrows it gives it back, or closes it. Raises KafkaError."""
        if self._idle:
            return self._idle.pop()
        return await retrying(
            self._connect, timeout_s=self._connect_timeout_s, rng=self._rng, doing="connecting to the cluster"
        )

    async def give_back(self, client: Client) -> None:
        """It is connected and as good as new."""
        if len(self._idle) < IDLE_MAX:
            self._idle.append(client)
        else:
            await client.close()

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Client]:
        """One for a while; after an error it is not used again."""
        client = await self.borrow()
        try:
            yield client
        except BaseException:
            await client.close()
            raise
        await self.give_back(client)

    async def close(self) -> None:
        """Disconnect those that nobody has."""
        idle, self._idle = self._idle, []
        for client in idle:
            await client.close()

    async def _connect(self) -> Client:
        client = self._make()
        await client.start()
        return client
