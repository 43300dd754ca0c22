"""Long lists in small portions, so that the loop has its turns in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def paced(items: Iterable[T], at_once: int) -> AsyncIterator[T]:
    """The items; after each ``at_once`` of them the loop runs everything else that is ready."""
    for count, item in enumerate(items, 1):
        yield item
        if count % at_once == 0:
            await asyncio.sleep(0)
