"""The sides take turns with the same load, and what each did is compared turn by turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Final, NamedTuple

from benchmarks.apache_kafka import NotHereError
from benchmarks.beside.generator import Load, Written, program, read, write
from benchmarks.beside.sides import PARTITIONS, Side, running_sides
from benchmarks.report import Compared, Figure, Run, Target

PAIRS: Final = 5
SHORT: Final = 15
"""Pairs of turns that take a second or less: a virtual machine may be three times as fast as a minute ago."""
READING_S: Final = 0.3
"""What a reader is done with sooner is read again, until so much time was measured."""
WARM_MAX: Final = 10
AGREES: Final = {"cpu_us": 0.1, "p50_ms": 0.3}
"""Two turns agree that differ by less of these: a JVM whose compiler is still at it uses more, and waits for it."""
HOT: Final = Load(30_000, 100, depth=100, properties={"acks": "all", "linger.ms": 0, "batch.num.messages": 1})
"""A JVM compiles what it has done some ten thousand times, and again what it has done more often."""
HEAT_S: Final = 90
"""Until its compiler has caught up: at rates that leave time, a latency of seconds is its own for so long."""

Turn = Mapping[str, float]
"""What was measured, by name. ``cpu_us`` is of all nodes, for each record."""


class Unit(NamedTuple):
    """How values of a name are shown."""

    unit: str
    shape: str = "{:,.0f}"


UNITS: Final = {
    "per_s": Unit("/s"),
    "cpu_us": Unit("us", "{:,.1f}"),
    "p50_ms": Unit("ms", "{:.2f}"),
    "p99_ms": Unit("ms", "{:.2f}"),
    "p999_ms": Unit("ms", "{:.2f}"),
    "read_per_s": Unit("/s"),
    "read_cpu_us": Unit("us", "{:.2f}"),
    "s": Unit("s", "{:.2f}"),
    "mb": Unit("MB"),
    "cores": Unit("cores", "{:.3f}"),
}


class Found(NamedTuple):
    """The turns of a load, theirs and ours, pair by pair. What is asked for is the name of what was measured."""

    theirs: list[Turn]
    ours: list[Turn]

    def figure(self, what: str, name: str, target: Target | None = None, *, ours: Target | None = None) -> Figure:
        """Ours to theirs, median of the pairs; or, where ``ours`` is given, our own median, which must reach that."""
        unit, shape = UNITS[name]
        values = [turn[name] for turn in self.ours]
        our, low, high = map(shape.format, (median(values), min(values), max(values)))
        their = median(turn[name] for turn in self.theirs)
        note = f"{our} {unit} ({low} to {high}) against {shape.format(their)}"
        compared = Compared(median(values), their, unit)
        if ours is not None:
            return Figure(what, median(values), unit, ours, note, compared)
        ratio = median(turn[name] / before[name] for before, turn in zip(self.theirs, self.ours, strict=True))
        return Figure(what, ratio, "", target, note, compared)


@contextmanager
def both_sides(run: Run, *, mock: bool = False) -> Iterator[list[Side]]:
    """Theirs and ours, hot; none, and a line that says why, where there is nothing to compare with."""
    with ExitStack() as stack:
        try:
            program()
            sides = stack.enter_context(running_sides(mock=mock))
        except NotHereError as error:
            run.say(f"not compared: {error}")
            sides = []
        for side in sides:
            heat(run, side, 1 if mock else 3)
        yield sides


def heat(run: Run, side: Side, copies: int = 3) -> None:
    """What each side does first, as fast as it can."""
    began_s = time.monotonic()
    with side.topic(copies) as topic:
        write(side.connecting, topic, PARTITIONS, HOT)
        while not run.quick and time.monotonic() - began_s < HEAT_S:
            write(side.connecting, topic, PARTITIONS, HOT)


def compare(run: Run, name: str, sides: list[Side], take: Callable[[Side], Turn], pairs: int = PAIRS) -> Found:
    """Turns until two of a side agree, then so many pairs."""
    for side in sides:
        warm(run, side, take)
    turns: dict[str, list[Turn]] = {side.name: [] for side in sides}
    for number in range(run.times(pairs)):
        for side in sides if number % 2 else reversed(sides):
            turns[side.name].append(take(side))
            run.say(f"{name}, {side.name}: {_said(turns[side.name][-1])}")
    theirs, ours = turns.values()
    return Found(theirs, ours)


def warm(run: Run, side: Side, take: Callable[[Side], Turn]) -> None:
    """Turns until two of them agree, or there were enough."""
    before = take(side)
    for _ in range(run.times(WARM_MAX) - 1):
        after = take(side)
        if _agree(before, after):
            return
        before = after


def _agree(before: Turn, after: Turn) -> bool:
    return all(
        abs(value - before[name]) < AGREES[what] * before[name]
        for name, value in after.items()
        if (what := name.removeprefix("read_")) in AGREES
    )


def _said(turn: Turn) -> str:
    return ", ".join(
        f"{name.rpartition('_')[0]} {UNITS[name].shape.format(value)} {UNITS[name].unit}".strip()
        for name, value in turn.items()
    )


# -- turns of records --------------------------------------------------------------------------------------------------


def written(side: Side, topic: str, load: Load, partitions: int = PARTITIONS, *, through: bool = False) -> Turn:
    """Write it; ``through`` a consumer, too."""
    before = side.cpu_seconds()

    def on_warm() -> None:
        nonlocal before
        before = side.cpu_seconds()

    seen = write(side.connecting, topic, partitions, load, on_warm, through=through)
    cpu_us = (side.cpu_seconds() - before) / load.records * 1e6
    return {"per_s": load.records / seen.seconds, "cpu_us": cpu_us, **quantiles(seen)}


def quantiles(seen: Written) -> Turn:
    """Of its latency."""
    return {"p50_ms": seen.ms(500), "p99_ms": seen.ms(990), "p999_ms": seen.ms(999)}


def in_new_topic(load: Load, copies: int = 3, *, through: bool = False) -> Callable[[Side], Turn]:
    """A turn that writes it to a new topic."""

    def take(side: Side) -> Turn:
        with side.topic(copies) as topic:
            return written(side, topic, load, through=through)

    return take


def written_and_read(load: Load) -> Callable[[Side], Turn]:
    """A turn that writes it to a new topic with three copies, and reads it while it is hot."""

    def take(side: Side) -> Turn:
        with side.topic(3) as topic:
            return {**written(side, topic, load), **was_read(side, topic, load.warm + load.records)}

    return take


def was_read(side: Side, topic: str, records: int, consumers: int = 1, *, again_s: float = READING_S) -> Turn:
    """Read them from the beginning, by each of so many consumers; again, while that took less than ``again_s``."""
    before, seconds, count = side.cpu_seconds(), 0.0, 0
    while not count or seconds < again_s:
        seconds += read(side.connecting, topic, PARTITIONS, records, consumers)
        count += records * consumers
    return {"read_per_s": count / seconds, "read_cpu_us": (side.cpu_seconds() - before) / count * 1e6}
