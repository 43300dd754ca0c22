"""The calls of one fetcher to its leader: a connection, one request at a time, and a fetch that is taken back.

A leader holds a fetch for which it has no records, for half a second. A partition that comes to be followed meanwhile
cannot wait for that, or its producers would: while its followers do not fetch, nothing of it is acknowledged. There is
no other way to take a request back than to end the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from minikafka.net.peer import PeerConnection
from minikafka.wire.messages.fetch import FetchResponse
from minikafka.wire.schema import Message

R = TypeVar("R", bound=Message)

ANSWER_TIMEOUT_S: Final = 10.0
HELD_AFTER_S: Final = 0.05
"""A fetch without an answer for so long is held by a leader that has no records for it, or that is slow."""
COSTS_BETWEEN: Final = 4
"""A fetch is given so many times as long as it took to get an answer after the last one was abandoned."""
ABSENCE_S: Final = 60.0
"""Without an answer of the leader: it may have cleaned its log meanwhile."""


class Patience:
    """How long a fetch may be out before it is abandoned for a further partition (seconds).

    It takes a new connection and a fetch of all partitions to get an answer then. Where partitions come one after the
    other, as when a thousand are created, all time could go into that: no follower got an answer for ten seconds.
    """

    def __init__(self) -> None:
        self._by_cost_s = 0.0
        self._abandoned_at_s: float | None = None

    @property
    def held_after_s(self) -> float:
        """Then a fetch without an answer may be abandoned."""
        return max(HELD_AFTER_S, self._by_cost_s)

    def on_abandoned(self, now_s: float) -> None:
        """A fetch was abandoned; perhaps the one before it, too, without an answer in between."""
        if self._abandoned_at_s is None:
            self._abandoned_at_s = now_s
        self._by_cost_s = max(self._by_cost_s, COSTS_BETWEEN * (now_s - self._abandoned_at_s))

    def on_answer(self, now_s: float) -> None:
        """A fetch was answered."""
        if self._abandoned_at_s is None:
            self._by_cost_s /= 2
        else:
            self._by_cost_s = COSTS_BETWEEN * (now_s - self._abandoned_at_s)
            self._abandoned_at_s = None


class LeaderCalls:
    """See the module. ``on_absence``: before a call, if the leader was out of reach, maybe for days."""

    def __init__(self, dial: Callable[[], Awaitable[PeerConnection]], on_absence: Callable[[], None]) -> None:
        self._dial = dial
        self._on_absence = on_absence
        self.connection: PeerConnection | None = None
        self.is_fetching = False  # a fetch is out, or its connection is being opened
        self._loop = asyncio.get_running_loop()
        self._asked_s = self._answered_s = 0.0
        self._has_failed = False  # the last request, or its connection since then
        self._patience = Patience()
        self._looking_again: asyncio.TimerHandle | None = None
        self._is_abandoning = False

    async def call(self, request: Message, response_type: type[R]) -> R:
        """Ask the leader, over a new connection if need be. OSError, TimeoutError, WireError, KafkaError.

        A fetch may be abandoned.
        """
        self.is_fetching = response_type is FetchResponse
        try:
            if self.connection is None or not self.connection.is_open:
                self._has_failed = self._has_failed or self.connection is not None
                self.connection = await self._dial()
            self._asked_s = self._loop.time()
            if self._has_failed or self._asked_s - self._answered_s > ABSENCE_S:
                self._on_absence()  # the clock stands still while a machine is suspended
                self._has_failed = False
            answer = await self.connection.call(request, response_type, timeout_s=ANSWER_TIMEOUT_S)
            self._answered_s = self._loop.time()
            if self.is_fetching:
                self._patience.on_answer(self._answered_s)
            return answer
        finally:
            self.is_fetching = False
            if self._looking_again is not None:
                self._looking_again.cancel()
                self._looking_again = None

    def abandon_if_held(self) -> None:
        """A further partition is to be fetched: take back the fetch that is out, now or once it is held.

        An answer with records is waited for: they would be sent in vain, and to the leader it looks as if they could
        not be appended. A fetch whose connection is still being opened does not name the partition either.
        """
        if not self.is_fetching:
            return
        connection, now_s = self.connection, self._loop.time()
        if connection is None or not connection.is_open:
            self._look_again_at(now_s + self._patience.held_after_s)
        elif not connection.is_receiving:
            held_at_s = self._asked_s + self._patience.held_after_s
            if now_s < held_at_s:
                self._look_again_at(held_at_s)
            else:
                self._abandon(connection, now_s)

    def _abandon(self, connection: PeerConnection, now_s: float) -> None:
        self._is_abandoning = True
        self._patience.on_abandoned(now_s)
        connection.close()

    def _look_again_at(self, at_s: float) -> None:
        if self._looking_again is None:
            self._looking_again = self._loop.call_at(at_s, self._look_again)

    def _look_again(self) -> None:
        self._looking_again = None
        self.abandon_if_held()

    def on_no_answer(self) -> bool:
        """A call failed: the next one has a connection of its own. True if it failed because it was abandoned."""
        was_abandoned, self._is_abandoning = self._is_abandoning, False
        self._has_failed = self._has_failed or not was_abandoned
        self.close()
        return was_abandoned

    def close(self) -> None:
        """End the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
