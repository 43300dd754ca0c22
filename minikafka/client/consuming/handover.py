"""Records under work by the user, and the moment at which partitions can be handed over to another member.

Returned records count as *processed* when the user calls again. An automatic commit stores only processed records, and
a rebalance waits until all are processed (as in Java, where it happens inside ``poll``). So a record is never committed
before the user is done with it, and a planned rebalance repeats no records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from minikafka.client.consuming.positions import Position
from minikafka.model import OffsetAndEpoch, TopicPartition

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndEpoch]


class Handover:
    """``give_up`` drops the partitions and returns their processed offsets."""

    def __init__(self, clock_ms: Callable[[], int], max_poll_interval_ms: int, give_up: Callable[[], Offsets]) -> None:
        self._clock_ms = clock_ms
        self._max_poll_interval_ms = max_poll_interval_ms
        self._give_up = give_up
        self._held: dict[Position, None] = {}  # an ordered set
        self._inside = 0  # calls of the user that wait for records
        self._seen_ms: int | None = None  # end of the user's last call
        self._came = asyncio.Event()
        self._wanted: asyncio.Future[Offsets] | None = None

    # -- what the user does -----------------------------------------------------------------------------------------

    def enter(self) -> None:
        """The user calls again: all returned records are processed."""
        self._inside += 1
        self._came.set()
        self.settle()
        if self._wanted is not None:
            self._complete(self._wanted)

    def leave(self) -> None:
        """The user's call returns."""
        self._inside -= 1
        self._seen_ms = self._clock_ms()

    def hold(self, position: Position) -> None:
        """Records of that partition were returned."""
        self._held[position] = None

    def settle(self) -> None:
        """All returned records are processed."""
        for position in self._held:
            position.processed = position.consumed
        self._held.clear()

    # -- what a rebalance asks --------------------------------------------------------------------------------------

    def hand_back(self) -> asyncio.Future[Offsets]:
        """Give the partitions up once all returned records are processed; the result are the offsets to commit."""
        if self._wanted is None:
            self._wanted = asyncio.get_running_loop().create_future()
            if self._inside or not self._held:
                wanted = self._wanted
                self._complete(wanted)
                return wanted
        return self._wanted

    def cancel(self) -> None:
        """The partitions are lost: there is nothing to hand back, and returned records no longer count."""
        self._held.clear()
        if self._wanted is not None:
            self._wanted.cancel()
            self._wanted = None

    def is_overdue(self) -> bool:
        """True when the user was away for longer than ``max_poll_interval_ms``."""
        if self._seen_ms is None:
            self._seen_ms = self._clock_ms()
        return not self._inside and self._clock_ms() - self._seen_ms > self._max_poll_interval_ms

    async def wait_for_user(self) -> None:
        """Wait for the user's next call."""
        if not self._inside:
            self._came.clear()
            await self._came.wait()

    def _complete(self, wanted: asyncio.Future[Offsets]) -> None:
        self._wanted = None
        offsets = self._give_up()
        self._held.clear()
        if not wanted.done():
            wanted.set_result(offsets)
