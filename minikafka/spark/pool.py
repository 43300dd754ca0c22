"""A pool of connected clients. Everything here runs on one event loop."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

from minikafka.client.backoff import retrying

IDLE_MAX: Final = 4  # clients kept for later


class Connecting(Protocol):
    """A client of a pool."""

    async def start(self) -> None:
        """Connect. Raises KafkaError; then the client is unusable."""

    async def close(self) -> None:
        """Disconnect."""


Client = TypeVar("Client", bound=Connecting)


class Pool(Generic[Client]):
    """``make`` returns an unconnected client. The pool tries to connect it for ``connect_timeout_s``.

    ``servers`` names the cluster in the error.
    """

    def __init__(self, make: Callable[[], Client], connect_timeout_s: float, *, servers: str = "the cluster") -> None:
        self._make = make
        self._connect_timeout_s = connect_timeout_s
        self._doing = f"connecting to {servers}"
        self._rng = random.Random()
        self._idle: list[Client] = []
        self._lent: set[Client] = set()

    async def borrow(self) -> Client:
        """A connected client. The borrower gives it back, or forgets and closes it. Raises KafkaError."""
        if self._idle:
            client = self._idle.pop()
        else:
            client = await retrying(self._connect, timeout_s=self._connect_timeout_s, rng=self._rng, doing=self._doing)
        self._lent.add(client)
        return client

    def forget(self, client: Client) -> None:
        """Give up a borrowed client: it will not be given back."""
        self._lent.discard(client)

    async def give_back(self, client: Client) -> None:
        """Take back a borrowed client that is connected and has no work left."""
        self.forget(client)
        if len(self._idle) < IDLE_MAX:
            self._idle.append(client)
        else:
            await client.close()

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Client]:
        """A client for the block. After an exception it is closed, not used again."""
        client = await self.borrow()
        try:
            yield client
        except BaseException:
            self.forget(client)
            await client.close()
            raise
        await self.give_back(client)

    async def close_idle(self) -> None:
        """Disconnect the clients that are not borrowed."""
        idle, self._idle = self._idle, []
        for client in idle:
            await client.close()

    async def close(self) -> None:
        """Disconnect all clients. Calls of borrowed ones fail."""
        await self.close_idle()
        while self._lent:
            await self._lent.pop().close()

    async def _connect(self) -> Client:
        client = self._make()
        await client.start()
        return client
