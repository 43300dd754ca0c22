"""Runs schedules by the thousand, in several processes.

A sweep is cut into pieces of some hundred seeds, which worker processes take one after the other. What they return is
put together in the order of seeds, so that a sweep finds the same however many workers it has.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from planted.found import suite

PIECE: Final = 250
"""A sweep of no more seeds starts no processes."""
VIOLATIONS_MAX: Final = 20  # a sweep that found so many has found enough


class Piece(NamedTuple):
    """What came of some schedules."""

    schedules: int
    cpu_s: float
    violations: list[tuple[int, str]]  # (seed, what)


@dataclass
class Sweep:
    """What came of all schedules of one suite."""

    suite: str
    schedules: int = 0
    cpu_s: float = 0.0
    violations: list[tuple[int, str]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Schedules per second of CPU."""
        return self.schedules / self.cpu_s if self.cpu_s else 0.0


def workers() -> int:
    """As many as there are processors for this process; ``JOBS=n`` in the environment asks for n."""
    return int(os.environ.get("JOBS") or len(os.sched_getaffinity(0)))


def processes() -> ProcessPoolExecutor:
    """Fresh interpreters: nothing that is planted here is planted there."""
    return ProcessPoolExecutor(workers(), multiprocessing.get_context("spawn"))


def sweep(result: Sweep, seeds: range, on_progress: Callable[[Sweep], None] = lambda _: None) -> Sweep:
    """Run the schedules of ``seeds``, and add what comes of them to ``result``."""
    for piece in _pieces(result.suite, seeds):
        result.schedules += piece.schedules
        result.cpu_s += piece.cpu_s
        result.violations += piece.violations
        on_progress(result)
        if len(result.violations) >= VIOLATIONS_MAX:
            break
    return result


def _pieces(name: str, seeds: range) -> Iterator[Piece]:
    work = [(name, seeds[at : at + PIECE]) for at in range(0, len(seeds), PIECE)]
    if min(workers(), len(work)) <= 1:
        yield from map(_run_piece, work)
        return
    with processes() as pool:
        try:
            yield from pool.map(_run_piece, work)
        finally:
            pool.shutdown(cancel_futures=True)


def _run_piece(work: tuple[str, range]) -> Piece:
    name, seeds = work
    schedules = suite(name)
    began = time.process_time()
    violations = []
    for seed in seeds:
        try:
            schedules.run(seed)
        except Exception as violation:  # whatever it is, it must not happen
            violations.append((seed, f"{type(violation).__name__}: {violation}"))
    return Piece(len(seeds), time.process_time() - began, violations)
