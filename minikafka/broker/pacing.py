"""Long lists in small portions, so that the loop has its turns in between.

A turn has one portion, however many requests wait for theirs: fifty of 10 ms would keep the loop for half a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from typing import Final, TypeVar

from minikafka.broker.context import RequestContext

T = TypeVar("T")

PER_REQUEST: Final = 500
"""Most entries of a client's request in one request to the controller, which carries it out in one turn."""
CHARACTERS_PER_REQUEST: Final = 100_000
"""The same of names and values of settings. A list of replicas takes 0.2 us a character to read, several times."""


async def paced(items: Iterable[T], at_once: int, context: RequestContext) -> AsyncIterator[T]:
    """The items; after each ``at_once`` of them the request waits for its next turn."""
    for count, item in enumerate(items):
        if count and count % at_once == 0:
            await context.connection.wait_for_turn()
        yield item


class PerTurn:
    """So many in each turn of the loop, whoever takes them."""

    def __init__(self, at_once: int) -> None:
        self._at_once = self._left = at_once
        self._next: asyncio.Event = asyncio.Event()

    def take(self) -> bool:
        """One more in this turn; False: there were enough."""
        if self._left <= 0:
            return False
        if self._left == self._at_once:
            asyncio.get_running_loop().call_soon(self._begin)
        self._left -= 1
        return True

    async def wait(self) -> None:
        """Until it can be taken; it is."""
        while not self.take():
            self._next.clear()
            await self._next.wait()

    def _begin(self) -> None:
        self._left = self._at_once
        self._next.set()


def portions(
    items: Iterable[T], key_of: Callable[[T], Hashable], characters_of: Callable[[T], int] = lambda _: 0
) -> list[list[T]]:
    """The items of each request. Items of one key stay together, so that duplicates are refused."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key_of(item), []).append(item)
    found: list[list[T]] = [[]]
    characters = 0
    for group in groups.values():
        if len(found[-1]) >= PER_REQUEST or characters >= CHARACTERS_PER_REQUEST:
            found.append([])
            characters = 0
        found[-1] += group
        characters += sum(map(characters_of, group))
    return found
