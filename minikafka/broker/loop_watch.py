"""Finds turns of the event loop that take long, and logs the place that was busy.

A turn is everything that the loop runs between two checks of its timers: all ready callbacks and sockets.
:class:`LoopWatch` has a timer that fires as often as the loop allows, and measures the CPU time of the loop's thread in
between (not the elapsed time: on a busy machine a turn may wait for long without a fault of its own). While a turn is
too long, a second thread looks where the loop's thread is. The log line is ``slow turn of the loop``.

For operators of a node that stalls (``loop.turn.warn.ms``), and for tests, which start nodes in many ways, by verbs and
by programs of users too: the environment of all of them names a file (``REPORTS_VARIABLE``), to which each slow turn of
each node is added. It costs a few wake-ups per interval.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import traceback
from contextvars import copy_context
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple

from minikafka.event_log import get_logger

if TYPE_CHECKING:
    from minikafka.config import BrokerConfig

log = get_logger()

BEAT_S: Final = 0.01
FRAMES_SHOWN: Final = 6
REPORTS_VARIABLE: Final = "SLOW_TURNS_OF_MINIKAFKA"
"""``MILLISECONDS:FILE``. It is no setting: nodes of clusters on one machine do not get those of the environment."""


class Reports(NamedTuple):
    """Where the slow turns of one node are told of, besides in its log."""

    file: Path
    node_id: int
    directory: str
    """The node's first log directory: many nodes have the same id."""

    def add(self, cpu_ms: int, where: str) -> None:
        """One JSON object per line; nodes of several processes add to the same file."""
        line = {"node": self.node_id, "directory": self.directory, "cpu_ms": cpu_ms, "where": where}
        descriptor = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.write(descriptor, json.dumps(line).encode() + b"\n")
        finally:
            os.close(descriptor)


def watch_of(config: BrokerConfig) -> LoopWatch | None:
    """The watch of a node, if its settings or the environment ask for one; the lower of two limits counts."""
    limit_ms, reports = config.loop_turn_warn_ms, None
    if told := os.environ.get(REPORTS_VARIABLE):
        from_ms, _, file = told.partition(":")
        limit_ms = min(limit_ms or int(from_ms), int(from_ms))
        reports = Reports(Path(file), config.node_id, config.log_dirs[0])
    return LoopWatch(limit_ms, reports) if limit_ms else None


class LoopWatch:
    """Watches the loop of the thread that makes it, from :meth:`start` to :meth:`stop`."""

    def __init__(self, limit_ms: int, reports: Reports | None = None) -> None:
        """``limit_ms``: CPU time of a turn from which it is logged."""
        self._limit_s = limit_ms / 1000
        self._reports = reports
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
            where = where if turn == self._beats else "not seen"
            cpu_ms, wall_ms = round(spent_s * 1000), round(lasted_s * 1000)
            log.warning("slow turn of the loop", cpu_ms=cpu_ms, wall_ms=wall_ms, where=where)
            if self._reports is not None:
                self._reports.add(cpu_ms, where)
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
