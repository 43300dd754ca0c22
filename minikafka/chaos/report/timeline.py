"""Faults over what the cluster did at the time: throughput, replicas in sync, elections; on one axis of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from minikafka.chaos.report.run import ChaosRun, Sample
from minikafka.plots import Format, short
from minikafka.plots.timeline import Moment, Span, in_lanes, lines_over_time, spans

SLOTS_MAX: Final = 240
_LABEL_LENGTH_MIN: Final = 5


def plots(run: ChaosRun) -> Iterator[tuple[str, str, str]]:
    """(title, words, SVG) of each, from top to bottom."""
    drawn = _Drawing(run)
    yield "Faults", "what was broken; each bar has its sentence", drawn.faults()
    yield "Throughput", "acknowledged records per second, all partitions", drawn.throughput()
    yield from drawn.of_samples()


class _Drawing:
    """The plots of a run; all have the same axis."""

    def __init__(self, run: ChaosRun) -> None:
        self._run = run
        lanes = defaultdict[str, list[Span]](list)
        for fault in run.faults:
            end_ms = run.last_ms if fault.end_ms is None else fault.end_ms
            tip = f"{fault.sentence}\n{_seconds(fault.begin_ms)} to {_end(fault.end_ms)}"
            lanes[fault.kind].append(Span(fault.begin_ms, end_ms, tip))
        self._lanes = lanes
        self._label_length = max(_LABEL_LENGTH_MIN, *map(len, lanes), 0)
        self._shades = merged([span for lane in lanes.values() for span in lane])

    def faults(self) -> str:
        lanes = [lane for name, found in self._lanes.items() for lane in in_lanes(name, found)]
        if not lanes:
            return "<p>There was none.</p>"
        return spans(lanes, self._run.last_ms, about="Faults by kind", label_length=self._label_length)

    def throughput(self) -> str:
        return self._lines("Acknowledged records per second", [*_rates(self._run.samples)])

    def of_samples(self) -> Iterator[tuple[str, str, str]]:
        samples = [sample for sample in self._run.samples if sample.partitions]
        if not samples:
            return
        replicas = max(len(state.replicas) for sample in samples for state in sample.partitions)
        fewest = [(each.t_ms, min(len(state.isr) for state in each.partitions)) for each in samples]
        under = [(each.t_ms, sum(len(p.isr) < len(p.replicas) for p in each.partitions)) for each in samples]
        yield (
            "In-sync replicas",
            f"of the partition that has the fewest, of {replicas}",
            self._lines("Fewest in-sync replicas", steps(fewest, "at least {} in sync"), whole=True),
        )
        yield (
            "Under-replicated partitions",
            f"of {max(len(each.partitions) for each in samples)}",
            self._lines("Under-replicated partitions", steps(under, "{} under-replicated"), whole=True),
        )
        elections = [*_elections(samples)]
        leaderless = [(each.t_ms, sum(state.leader is None for state in each.partitions)) for each in samples]
        without = f"; up to {most} without a leader" if (most := max(count for _, count in leaderless)) else ""
        yield (
            "Elections",
            f"leader epochs that began so far, all partitions: {elections[-1][1]:,} in the end{without}",
            self._lines("Leader epochs that began so far", steps(elections, "{} elections so far"), whole=True),
        )

    def _lines(self, about: str, moments: Sequence[Moment], *, form: Format = short, whole: bool = False) -> str:
        return lines_over_time(
            {"": moments},
            self._run.last_ms,
            about=about,
            label_length=self._label_length,
            shades=self._shades,
            form=form,
            whole=whole,
        )


def merged(found: Sequence[Span]) -> list[Span]:
    """Spans as shades: those that touch are one."""
    shades: list[Span] = []
    for span in sorted(found):
        if shades and span.begin_ms <= shades[-1].end_ms:
            last = shades[-1]
            tip = last.tip if span.tip in last.tip else f"{last.tip}\n{span.tip}"
            shades[-1] = Span(last.begin_ms, max(last.end_ms, span.end_ms), tip)
        else:
            shades.append(span)
    return shades


def steps(values: Sequence[tuple[int, int]], tip: str) -> list[Moment]:
    """Values that hold until the next one; only changes are drawn."""
    moments: list[Moment] = []
    for number, (at_ms, value) in enumerate(values):
        is_last = number == len(values) - 1
        if not moments or is_last or value != moments[-1].value:
            words = f"{_seconds(at_ms)}: {tip.format(value)}"
            if moments and value != moments[-1].value:
                moments.append(Moment(at_ms, moments[-1].value, words))
            moments.append(Moment(at_ms, value, words))
    return moments


def _rates(samples: Sequence[Sample]) -> Iterator[Moment]:
    every = max(1, -(-len(samples) // SLOTS_MAX))
    chosen = [*samples[::every], *samples[-1:]]
    for before, after in pairwise(chosen):
        length_ms = after.t_ms - before.t_ms
        if length_ms > 0:
            rate = (after.acknowledged - before.acknowledged) * 1000 / length_ms
            tip = f"{_seconds(before.t_ms)} to {_seconds(after.t_ms)}\n{rate:,.0f} records/s acknowledged"
            yield Moment((before.t_ms + after.t_ms) // 2, rate, tip)


def _elections(samples: Sequence[Sample]) -> Iterator[tuple[int, int]]:
    first: dict[str, int] = {}
    latest: dict[str, int] = {}
    for sample in samples:
        for state in sample.partitions:
            first.setdefault(state.partition, state.leader_epoch)
            latest[state.partition] = max(state.leader_epoch, latest.get(state.partition, state.leader_epoch))
        yield sample.t_ms, sum(latest.values()) - sum(first.values())


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.2f} s"


def _end(ms: int | None) -> str:
    return "the end of the run" if ms is None else _seconds(ms)
