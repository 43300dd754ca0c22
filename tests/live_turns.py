"""The watch over the loops of all nodes of all tests: none may be busy for long in one turn.

Whoever starts a node (a fixture, the kit, a lab, a verb, a program of a user) hands its environment on, and that tells
each node where to report slow turns, with the place that was busy: see ``minikafka.broker.loop_watch``. A turn is
judged by the CPU time of its thread: a node that is paused, or waits for a disk that a test has made slow, is not slow.

Not watched are nodes that get another environment: those of ``tests/unit/chaos/test_forks.py``, which is about that,
and Docker's. Several nodes in one loop (``tests/unit/broker``) and simulated ones have no loop of their own.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Final

from minikafka.broker.loop_watch import REPORTS_VARIABLE

TURN_MAX_MS: Final = 100 if "HOSTILE_SENT" in os.environ else 300
"""CPU time of a turn of the loop. ``make hostile`` asks for what is promised, alone on its machine; among other tests
the same work costs up to three times as much (caches and cores are shared), and a defect costs more than that."""
REFERENCE_WORK_MS: Final = 4.0  # the CPU time of `_work` on the machine that TURN_MAX_MS was set on
MAY_BE_SLOW: Final = {
    "tests/hostile/test_large_state.py": "it has limits of its own, and asks again what took longer",
}
"""Tests, by the begin of their ids, whose nodes are not judged here, and why."""


class Reports:
    """What the nodes of this process's tests report."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_bytes = 0

    def ask_for(self) -> None:
        """Of all nodes that are started from now on."""
        os.environ[REPORTS_VARIABLE] = f"{TURN_MAX_MS}:{self._file}"

    def new(self) -> list[str]:
        """Those since the last call, if the machine is as fast as usual."""
        try:
            if self._file.stat().st_size == self._read_bytes:
                return []
        except FileNotFoundError:
            return []
        with self._file.open("rb") as file:
            file.seek(self._read_bytes)
            lines = [line for line in file if line.endswith(b"\n")]
        self._read_bytes += sum(map(len, lines))
        limit_ms = turn_max_ms()
        return [_in_words(report) for report in map(json.loads, lines) if report["cpu_ms"] > limit_ms]

    def remove(self) -> None:
        """The file, at the end."""
        self._file.unlink(missing_ok=True)


def may_be_slow(test: str) -> bool:
    """Whether the test with that id is among the exceptions."""
    return test.startswith(tuple(MAY_BE_SLOW))


def turn_max_ms(at_most: float = TURN_MAX_MS) -> int:
    """So much CPU time; more where, or when, the machine is slower than the one that TURN_MAX_MS was set on."""
    slowness = median(_work_ms() for _ in range(7)) / REFERENCE_WORK_MS
    return round(at_most * max(1.0, slowness))


def _work_ms() -> float:
    """The CPU time that a fixed piece of work takes now."""
    began_s = time.thread_time()
    table = {}
    for number in range(40_000):
        table[number % 977] = [number, str(number)]
    return (time.thread_time() - began_s) * 1000


def _in_words(report: dict[str, object]) -> str:
    return "node {node} in {directory}: a turn of its loop took {cpu_ms} ms of CPU time in {where}".format(**report)
