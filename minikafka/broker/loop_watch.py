"""Finds turns of the event loop that take long, and logs the place that was busy.

A turn is everything that the loop runs between two checks of its timers: all ready callbacks and sockets.
:class:`LoopWatch` has a timer that fires as often as the loop allows, and measures the CPU time of the loop's thread in
between (not the elapsed time: on a busy machine a turn may wait for long without a fault of its own). While a turn is
too long, a second thread looks where the loop's thread is. The log line is ``slow turn of the loop``.

For tests and for operators of a node that stalls (``loop.turn.warn.ms``). It costs a few wake-ups per interval.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from contextvars import copy_context
from types import FrameType
from typing import Final

from minikafka.event_log import get_logger

log = get_logger()

BEAT_S: Final = 0.01
FRAMES_SHOWN: Final = 6


class LoopWatch:
    """Watches the loop of the thread that makes it, from :meth:`start` to :meth:`stop`."""

    def __init__(self, limit_ms: int) -> None:
        """``limit_ms``: CPU time of a turn from which it is logged."""
        self._limit_s = limit_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=copy_context().run, args=(self._look,), name="loop watch", daemon=True)
        self._beats = 0
        self._beat_at_s = 0.0
        self._cpu_s = 0.0
        self._seen: tuple[int, str] = (-1, "")  # (turn, place of the loop's thread)
        self.longest_s = 0.0
        """CPU time of the longest turn so far, in seconds."""

    def start(self) -> None:
        """From the next turn on."""
        self._cpu_s, self._beat_at_s = time.thread_time(), time.monotonic()
        self._timer = self._loop.call_later(BEAT_S, self._beat)
        self._watcher.start()

    def stop(self) -> None:
        """Stop watching."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        cpu_s, now_s = time.thread_time(), time.monotonic()
        spent_s, lasted_s = cpu_s - self._cpu_s, now_s - self._beat_at_s
        if spent_s > self._limit_s:
            turn, where = self._seen
            log.warning(
                "slow turn of the loop",
                cpu_ms=round(spent_s * 1000),
                wall_ms=round(lasted_s * 1000),
                where=where if turn == self._beats else "not seen",
            )
        self.longest_s = max(self.longest_s, spent_s)
        self._beats += 1
        self._beat_at_s, self._cpu_s = now_s, cpu_s
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _look(self) -> None:
        """In the second thread: once per long turn, note the place of the loop's thread."""
        while not self._ended.wait(self._limit_s / 4):
            beats, began_s = self._beats, self._beat_at_s
            if self._seen[0] == beats or time.monotonic() - began_s < self._limit_s / 2:
                continue
            frame = sys._current_frames().get(self._thread_id)
            if frame is not None and beats == self._beats:
                self._seen = (beats, _place(frame))


def _place(frame: FrameType) -> str:
    """Where a thread is: innermost function last."""
    frames = traceback.extract_stack(frame)[-FRAMES_SHOWN:]
    return " > ".join(f"{each.filename.rpartition('minikafka/')[2]}:{each.lineno} {each.name}" for each in frames)
