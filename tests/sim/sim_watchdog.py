"""A callback that never returns holds the whole simulation, where nothing else could tell of it."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from simulator.loop import Simulator

TURN_MAX_CPU_S: Final = 10.0


class EndlessTurnError(BaseException):
    """The message is where. It is no Exception, for those are caught in many places."""


@contextmanager
def no_endless_turn(simulator: Simulator, max_cpu_s: float = TURN_MAX_CPU_S) -> Iterator[None]:
    """Raise in a callback that lets no other have its turn, or in whoever waits for its thread. For the main thread."""
    seen = -1

    def look(_signal: int, frame: FrameType | None) -> None:
        nonlocal seen
        if simulator.turns == seen:
            where = "".join(traceback.format_stack(frame)[-4:])
            raise EndlessTurnError(f"one turn has taken {max_cpu_s:g} s of CPU:\n{where}")
        seen = simulator.turns

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, max_cpu_s, max_cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
