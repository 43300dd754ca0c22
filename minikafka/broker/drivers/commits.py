"""Applies committed records, and wakes those who proposed them.

A few records are applied at once. More are applied in portions by a task of its own, so votes, fetches and syncs do not
wait for them. Nothing is applied while the log is being cut: it cannot be read then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.model import OffsetAndEpoch

log = get_logger()

PAUSE_S: Final = 0.1
"""Pause before an unreadable log (for lack of descriptors, for example) is read again."""


class UnreadableYetError(Exception):
    """The log cannot be read because of a shortage. The attempt changed nothing and can be repeated."""


class StateMachine(Protocol):
    """Receiver of committed records."""

    @property
    def applied_offset(self) -> int:
        """Everything below it is applied."""
        ...

    def commit(self, high_watermark: int) -> None:
        """From the next portion on, apply what is below ``high_watermark``."""
        ...

    def install(self, values: Sequence[bytes], snapshot_id: OffsetAndEpoch) -> None:
        """From the next portion on, replace everything by a snapshot."""
        ...

    def apply_portion(self) -> bool:
        """Apply a portion; False when none is left. UnreadableYetError: call it again later."""
        ...


class Commits:
    """See the module. ``uncut`` is held during a cut of the log."""

    def __init__(self, state: StateMachine) -> None:
        self.uncut = asyncio.Lock()
        self._state = state
        self._is_behind = asyncio.Event()
        self._is_short = False
        self._proposals: list[tuple[int, asyncio.Future[None]]] = []

    def commit(self, high_watermark: int) -> None:
        """Records below ``high_watermark`` are committed; the log is not being cut."""
        self._state.commit(high_watermark)
        if not self._is_behind.is_set() and self._is_left():
            self._is_behind.set()

    @property
    def applied_offset(self) -> int:
        """Everything below it is applied."""
        return self._state.applied_offset

    def install(self, values: Sequence[bytes], snapshot_id: OffsetAndEpoch) -> None:
        """A snapshot replaces the log and the applied state."""
        self._state.install(values, snapshot_id)
        self._is_behind.set()

    async def run(self) -> None:
        """Apply remaining portions, for ever."""
        while True:
            await self._is_behind.wait()
            await asyncio.sleep(0)
            async with self.uncut:
                is_left = self._is_left()
            if not is_left:
                self._is_behind.clear()
            elif self._is_short:
                await asyncio.sleep(PAUSE_S)

    def _is_left(self) -> bool:
        """Apply a portion; True when there is more.

        Whatever is raised where it was applied goes on: to apply it again would not reach who has not heard of it.
        """
        self._is_short = False
        try:
            return self._state.apply_portion()
        except UnreadableYetError as error:
            log.warning("the metadata log cannot be read; it is tried again", why=str(error))
            self._is_short = True
            return True
        finally:
            self._settle()

    # -- proposals --------------------------------------------------------------------------------------------------

    async def wait_for(self, offset: int) -> None:
        """Wait until everything below ``offset`` is applied. KafkaError(NOT_CONTROLLER) after :meth:`fail`."""
        if offset > self._state.applied_offset:
            committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._proposals.append((offset, committed))
            await committed

    def _settle(self) -> None:
        offset, waiting = self._state.applied_offset, []
        for end_offset, committed in self._proposals:
            if end_offset > offset:
                waiting.append((end_offset, committed))
            elif not committed.done():
                committed.set_result(None)
        self._proposals = waiting

    def fail(self) -> None:
        """Leadership is lost: it is unknown whether proposed records will be committed."""
        proposals, self._proposals = self._proposals, []
        message = "leadership was lost before the change was known to be committed"
        for _, committed in proposals:
            if not committed.done():
                committed.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, message))
