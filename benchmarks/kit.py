"""The cluster of a test: ``with MiniKafka()`` to ready, a killed broker back, and ``reset`` with 50 topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Final, TypeVar

from benchmarks.report import Figure, Run, Target
from minikafka.testing import MiniKafka

SUMMARY = "the test kit: ready, a broker back, begin anew"
TOPICS: Final = 50

T = TypeVar("T")


def run(run: Run) -> list[Figure]:
    """Ten clusters of each kind in one process, as the tests of an application have them; the first one pays the
    imports.
    """
    first_s, first = _timed(MiniKafka().start)
    first.close()
    return [
        Figure("MiniKafka(brokers=3) ready, the first of a process", first_s, "s"),
        *_figures(run, "as processes", 1.5),
        *_figures(run, "in process", 1.0),
    ]


def _figures(run: Run, kind: str, ready_s: float) -> list[Figure]:
    ready, back, anew = [], [], []
    for _ in range(run.times(10)):
        seconds, kafka = _timed(MiniKafka(in_process=kind == "in process").start)
        ready.append(seconds)
        kafka.kill(1)
        back.append(_timed(partial(kafka.restart, 1))[0])
        for number in range(TOPICS):
            kafka.create_topic(f"topic-{number}")
        anew.append(_timed(kafka.reset)[0])
        kafka.close()
        run.say(
            f"{kind}: ready after {seconds:.2f} s, a broker back after {back[-1]:.2f} s, begun anew in {anew[-1]:.3f} s"
        )
    clusters = f"{len(ready)} clusters"
    return [
        Figure(f"{kind}: MiniKafka(brokers=3) ready, median", median(ready), "s", Target("<", ready_s), clusters),
        Figure(f"{kind}: a killed broker is a member again, median", median(back), "s"),
        Figure(f"{kind}: reset with {TOPICS} topics, median", 1000 * median(anew), "ms", Target("<", 100)),
    ]


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.monotonic()
    done = work()
    return time.monotonic() - began, done
