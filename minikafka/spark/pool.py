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
    """``make`` gives a client that is not connected yet; connecting is tried for ``connect_timeout_s``.

    ``servers`` is who is told of when that is in vain.
    """

    def __init__(self, make: Callable[[], Client], connect_timeout_s: float, *, servers: str = "the cluster") -> None:
        self._make = make
        self._connect_timeout_s = connect_timeout_s
        self._doing = f"connecting to {servers}"
        self._rng = random.Random()
        self._idle: list[Client] = []
        self._lent: set[Client] = set()

    async def borrow(self) -> Client:
        """One that is connected; whoever borrows it gives it back, or closes what is forgotten. Raises KafkaError."""
        if self._idle:
            client = self._idle.pop()
        else:
            client = await retrying(self._connect, timeout_s=self._connect_timeout_s, rng=self._rng, doing=self._doing)
        self._lent.add(client)
        return client

    def forget(self, client: Client) -> None:
        """It will not be given back."""
        self._lent.discard(client)

    async def give_back(self, client: Client) -> None:
        """It is connected and as good as new."""
        self.forget(client)
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
            self.forget(client)
            await client.close()
            raise
        await self.give_back(client)

    async def close_idle(self) -> None:
        """Disconnect those that nobody has."""
        idle, self._idle = self._idle, []
        for client in idle:
            await client.close()

    async def close(self) -> None:
        """Disconnect all; who has one will hear of it."""
        await self.close_idle()
        while self._lent:
            await self._lent.pop().close()

    async def _connect(self) -> Client:
        client = self._make()
        await client.start()
        return client
