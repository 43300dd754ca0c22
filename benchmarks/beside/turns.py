"""The sides take turns with the same load, and what each did is compared turn by turn."""

from __future__ import annotations

from statistics import median
from typing import Final, NamedTuple

from benchmarks.apache_kafka import NotHereError
from benchmarks.beside.generator import Load, program, read, write
from benchmarks.beside.sides import PARTITIONS, Side, running_sides
from benchmarks.report import Run

WARM: Final = 3
PAIRS: Final = 7


class Turn(NamedTuple):
    """Of one load: records a second, CPU microseconds of the brokers for each, and the latency."""

    written_per_s: float
    written_cpu_us: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    read_per_s: float = 0.0
    read_cpu_us: float = 0.0

    def __str__(self) -> str:
        written = f"{self.written_per_s:,.0f} records/s at {self.written_cpu_us:.0f} us of CPU"
        latency = f"p50 {self.p50_ms:.2f}, p99 {self.p99_ms:.2f}, p99.9 {self.p999_ms:.2f} ms"
        is_read = f"; read {self.read_per_s:,.0f}/s at {self.read_cpu_us:.1f} us" if self.read_per_s else ""
        return f"{written}, {latency}{is_read}"


class Found(NamedTuple):
    """The turns of a load, theirs and ours, pair by pair. What is asked for is a field of :class:`Turn`."""

    theirs: list[Turn]
    ours: list[Turn]

    def ratio(self, field: str) -> float:
        """Ours to theirs, median of the pairs."""
        pairs = zip(self._all("theirs", field), self._all("ours", field), strict=True)
        return median(our / their for their, our in pairs)

    def our(self, field: str) -> float:
        """Median of ours."""
        return median(self._all("ours", field))

    def note(self, field: str, shape: str = "{:,.0f}") -> str:
        """The medians, and the spread of ours."""
        ours = self._all("ours", field)
        our, low, high = map(shape.format, (median(ours), min(ours), max(ours)))
        return f"{our} ({low} to {high}) against {shape.format(median(self._all('theirs', field)))}"

    def _all(self, side: str, field: str) -> list[float]:
        return [getattr(turn, field) for turn in getattr(self, side)]


def compare(
    run: Run, loads: dict[str, Load], *, copies: int = 3, reading: bool = False, mock: bool = False
) -> dict[str, Found]:
    """Each load on both sides; nothing, and a line that says why, where there is nothing to compare with."""
    try:
        program()
        with running_sides(mock=mock) as sides:
            return {name: _compared(run, name, load, sides, copies, reading) for name, load in loads.items()}
    except NotHereError as error:
        run.say(f"not compared: {error}")
        return {}


def _compared(run: Run, name: str, load: Load, sides: list[Side], copies: int, reading: bool) -> Found:
    for _ in range(run.times(WARM)):  # until JVMs have compiled what they need
        for side in sides:
            _turn(side, load, copies, reading)
    turns: dict[str, list[Turn]] = {side.name: [] for side in sides}
    for number in range(run.times(PAIRS)):
        for side in sides if number % 2 else reversed(sides):
            turns[side.name].append(_turn(side, load, copies, reading))
            run.say(f"{name}, {side.name}: {turns[side.name][-1]}")
    theirs, ours = turns.values()
    return Found(theirs, ours)


def _turn(side: Side, load: Load, copies: int, reading: bool) -> Turn:
    with side.topic(copies) as topic:
        before = side.cpu_seconds()

        def on_warm() -> None:
            nonlocal before
            before = side.cpu_seconds()

        written = write(side.connecting, topic, PARTITIONS, load, on_warm)
        cpu_us = (side.cpu_seconds() - before) / load.records * 1e6
        latency = (written.ms(permille) for permille in (500, 990, 999))
        turn = Turn(load.records / written.seconds, cpu_us, *latency)
        if not reading:
            return turn
        before, count = side.cpu_seconds(), load.warm + load.records
        seconds = read(side.connecting, topic, PARTITIONS, count)
        return turn._replace(read_per_s=count / seconds, read_cpu_us=(side.cpu_seconds() - before) / count * 1e6)
