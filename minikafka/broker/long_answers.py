"""Answers of many rows: in portions, one answer at a time, in order.

A request of a few hundred bytes may ask for the offsets of thousands of groups, or for the settings of all topics. The
rows of its answer take ten times the memory of their bytes. So each element is encoded as soon as it is there, and
after each portion the request waits for another turn of the loop. Only the first portion of an answer is prepared at
once, and not even that when the answers that were prepared in this turn are a portion together. For the rest it waits
until the answers before it are ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.wire.codec import encode
from minikafka.wire.error_codes import errors_of
from minikafka.wire.schema import Message

ROWS_AT_ONCE: Final = 1000
"""Rows of a portion: partitions, settings, members. Some 5 ms of work."""


class LongAnswers:
    """The line of these answers."""

    def __init__(self) -> None:
        self._place = asyncio.Lock()
        self._rows_left = ROWS_AT_ONCE  # of first portions, in this turn
        self._is_refill_scheduled = False

    @asynccontextmanager
    async def prepare(self, context: RequestContext) -> AsyncIterator[LongAnswer]:
        """An answer to prepare row by row; its place in the line is free once it is sent."""
        if self._rows_left <= 0:
            await context.connection.wait_for_turn()
        answer = LongAnswer(context, self._place, self._spend)
        try:
            yield answer
        finally:
            if answer.is_long:
                self._place.release()

    def _spend(self, rows: int) -> None:
        self._rows_left -= rows
        if not self._is_refill_scheduled:
            self._is_refill_scheduled = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _refill(self) -> None:
        self._is_refill_scheduled = False
        self._rows_left = ROWS_AT_ONCE


class LongAnswer:
    """Counts its rows; has the place for long answers once they are more than a portion."""

    def __init__(self, context: RequestContext, place: asyncio.Lock, on_first_rows: Callable[[int], None]) -> None:
        self._context = context
        self._on_first_rows = on_first_rows
        self._place = place
        self._rows_left = ROWS_AT_ONCE
        self.is_long = False

    async def encoded(self, element: Message, rows: int) -> bytes:
        """An element of the answer, which has so many rows, in the version of the request; see :meth:`add`."""
        self._context.note_errors(errors_of(element))
        body = encode(element, self._context.version)
        await self.add(rows)
        return body

    async def add(self, rows: int) -> None:
        """So many rows were prepared. Waits for the next turn when a portion is complete."""
        if not self.is_long:
            self._on_first_rows(rows)
        self._rows_left -= rows
        if self._rows_left > 0:
            return
        if not self.is_long:
            await self._place.acquire()
            self.is_long = True
        await self._context.connection.wait_for_turn()
        self._rows_left = ROWS_AT_ONCE
