"""Columns, lines and bars as SVG. Colours are names of the page's style sheet, so plots follow light and dark. Pure.

The page shows the ``data-tip`` of the mark under the pointer. Every mark has a strip of the whole height for that, so
that thin ones can be hit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby
from typing import Final, NamedTuple

WIDTH: Final = 560
HEIGHT: Final = 220
_LEFT: Final = 52
_RIGHT: Final = 12
_TOP: Final = 14
_BOTTOM: Final = 26
_TICKS: Final = 4
_LABELS_MAX: Final = 7
_COLUMN_MAX: Final = 56.0
_ROW: Final = 26
_ROW_NAMES: Final = 170
_ROW_NUMBERS: Final = 96

Format = Callable[[float], str]


class Mark(NamedTuple):
    """One value, with its axis label and its tip."""

    value: float
    label: str
    tip: str


class Line(NamedTuple):
    """A line with its name and the name of its colour."""

    name: str
    colour: str
    values: Sequence[float | None]


def nice_ticks(top: float, count: int = _TICKS) -> list[float]:
    """Round numbers from 0 to at least ``top``, about ``count`` of them, and the 0."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= rough * 0.999999)
    return [step * number for number in range(math.ceil(top / step * 0.999999) + 1)]


def short(value: float) -> str:
    """``0``, ``0.25``, ``950``, ``1.2k``, ``30M``."""
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def short_bytes(value: float) -> str:
    """``512 B``, ``1.5 KiB``, ``23 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def columns(marks: Sequence[Mark], *, about: str, form: Format = short, mean: float | None = None) -> str:
    """A column for each mark, from left to right; ``mean`` draws a line across."""
    top = max([mark.value for mark in marks] + [mean or 0.0])
    frame = _Frame(top, len(marks), form)
    gap = max(min(2.0, frame.step * 0.15), frame.step - _COLUMN_MAX)
    parts = [frame.grid(), frame.labels([mark.label for mark in marks])]
    for number, mark in enumerate(marks):
        if mark.value > 0:
            left, y = frame.x(number) + gap / 2, frame.y(mark.value)
            parts.append(_bar(left, y, frame.step - gap, frame.bottom - y))
    if mean is not None and len(marks) > 1:
        y = frame.y(mean)
        parts.append(f'<line class="mean" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="note" x="{WIDTH - _RIGHT}" y="{y - 4:.1f}" text-anchor="end">mean</text>')
    parts.append(frame.strips([mark.tip for mark in marks]))
    return _svg(HEIGHT, about, parts)


def lines(
    series: Sequence[Line], labels: Sequence[str], tips: Sequence[str], *, about: str, form: Format = short
) -> str:
    """Lines over equal steps; a None breaks a line. A single line has its area filled."""
    top = max((value for line in series for value in line.values if value is not None), default=0.0)
    frame = _Frame(top, len(labels), form)
    parts = [frame.grid(), frame.labels(labels)]
    for line in series:
        for run in _runs(line.values):
            points = [(frame.x(number + 0.5), frame.y(value)) for number, value in run]
            if len(points) == 1:
                (x, y) = points[0]
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" style="fill:var(--{line.colour})"/>')
                continue
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            if len(series) == 1:
                closed = f"M{points[0][0]:.1f} {frame.bottom}L{path}L{points[-1][0]:.1f} {frame.bottom}Z"
                parts.append(f'<path class="area" style="fill:var(--{line.colour})" d="{closed}"/>')
            parts.append(f'<path class="line" style="stroke:var(--{line.colour})" d="M{path}"/>')
    parts.append(frame.strips(tips))
    return _svg(HEIGHT, about, parts)


def bars(marks: Sequence[Mark], *, about: str, form: Format = short) -> str:
    """A lying bar for each mark, from top to bottom, its label before and its value behind it."""
    longest = max((mark.value for mark in marks), default=0.0) or 1.0
    room = WIDTH - _ROW_NAMES - _ROW_NUMBERS
    parts = []
    for number, mark in enumerate(marks):
        y, length = number * _ROW, max(mark.value / longest * room, 1.0)
        label = mark.label if len(mark.label) <= 24 else f"{mark.label[:23]}…"
        name = f'<text class="name" x="{_ROW_NAMES - 10}" y="{y + 17}" text-anchor="end">{escape(label)}</text>'
        bar = _bar(_ROW_NAMES, y + 5, length, _ROW - 10)
        told = f'<text class="value" x="{_ROW_NAMES + length + 8:.1f}" y="{y + 17}">{escape(form(mark.value))}</text>'
        parts.append(name + bar + told + _strip(0, y, WIDTH, _ROW, mark.tip))
    return _svg(max(len(marks), 1) * _ROW, about, parts)


class _Frame:
    """The axes of a plot, and the positions of values."""

    def __init__(self, top: float, count: int, form: Format) -> None:
        unit = 1024.0 ** max(0, math.floor(math.log(top, 1024))) if form is short_bytes and top >= 1 else 1.0
        self.ticks = [tick * unit for tick in nice_ticks(top / unit)]
        self.count = max(count, 1)
        self.form = form
        self.bottom = HEIGHT - _BOTTOM
        self.step = (WIDTH - _LEFT - _RIGHT) / self.count

    def x(self, number: float) -> float:
        """Begin of a step; of 0.5 the middle of the first."""
        return _LEFT + number * self.step

    def y(self, value: float) -> float:
        """Distance of a value from the top."""
        return self.bottom - value / self.ticks[-1] * (self.bottom - _TOP)

    def grid(self) -> str:
        """Ticks with their lines."""
        parts = []
        for tick in self.ticks:
            y = self.y(tick)
            kind = "axis" if tick == 0 else "grid"
            parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            words = escape(self.form(tick))
            parts.append(f'<text class="tick" x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{words}</text>')
        return "".join(parts)

    def labels(self, labels: Sequence[str]) -> str:
        """Evenly spaced labels below, as many as fit."""
        every = max(1, -(-len(labels) // _LABELS_MAX))
        y = HEIGHT - 8
        return "".join(
            f'<text class="tick" x="{self.x(number + 0.5):.1f}" y="{y}" text-anchor="middle">{escape(label)}</text>'
            for number, label in enumerate(labels)
            if number % every == 0
        )

    def strips(self, tips: Sequence[str]) -> str:
        """The strips with tips."""
        height = self.bottom - _TOP
        return "".join(_strip(self.x(number), _TOP, self.step, height, tip) for number, tip in enumerate(tips))


def _bar(x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="bar" {_place(x, y, width, height)} rx="{min(3.0, width / 2, height / 2):.1f}"/>'


def _strip(x: float, y: float, width: float, height: float, tip: str) -> str:
    """A transparent area that shows the tip."""
    return f'<rect class="strip" {_place(x, y, width, height)} data-tip="{escape(tip)}"/>'


def _place(x: float, y: float, width: float, height: float) -> str:
    return f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The runs without None."""
    runs = (run for is_there, run in groupby(enumerate(values), lambda each: each[1] is not None) if is_there)
    return [[(number, value) for number, value in run if value is not None] for run in runs]


def _svg(height: int, about: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(about)}">{"".join(parts)}</svg>'
