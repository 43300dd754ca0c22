"""Columns, lines and bars as SVG. A page needs ``STYLE``, and the colours that it names as variables. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import Element

import pygal
from pygal.style import Style

STYLE: Final = """\
svg { display: block; width: 100%; height: auto; margin-top: 8px; font: 11px system-ui, sans-serif; }
svg text { fill: var(--soft); stroke: none; text-anchor: middle; font-variant-numeric: tabular-nums; }
svg .vertical .axis.y text, svg .horizontal .axis.y text { text-anchor: end; }
svg .background { fill: none; }
svg .axis path { stroke: var(--grid); fill: none; }
svg .vertical .axis.x path, svg .horizontal .axis path { display: none; }
svg .axis .major.line { stroke: var(--ink); stroke-dasharray: 4 4; opacity: 0.6; }
svg .color-0, svg .legend:nth-child(1) rect { fill: var(--one); stroke: var(--one); }
svg .color-1, svg .legend:nth-child(2) rect { fill: var(--two); stroke: var(--two); }
svg .rect { stroke: none; }
svg .rect:hover { fill-opacity: 0.8; }
svg .line { fill-opacity: 0.14; stroke-width: 2; stroke-linejoin: round; }
svg .nofill { fill: none; }
svg .dot:not([data-lone], :hover) { opacity: 0; }
svg .horizontal .axis.y text, svg text.value { fill: var(--ink); font-size: 12px; }
svg text.value { text-anchor: start; }
svg .legend text { text-anchor: start; }
"""
WIDTH: Final = 560
HEIGHT: Final = 220
_ROW: Final = 26
_LABELS_MAX: Final = 8
_NAME_LENGTH_MAX: Final = 24
_NOT_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Format = Callable[[float], str]


class Mark(NamedTuple):
    """One value, with its axis label and its tip."""

    value: float | None
    label: str
    tip: str


def nice_ticks(top: float, count: int = 4) -> list[float]:
    """Round numbers from 0 to at least ``top``, about ``count`` of them, and the 0."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= rough * 0.999999)
    return [step * number for number in range(math.ceil(top / step * 0.999999) + 1)]


def short(value: float) -> str:
    """``0``, ``0.25``, ``950``, ``1.2k``, ``30M``."""
    for size, suffix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def short_bytes(value: float) -> str:
    """``512 B``, ``1.5 KiB``, ``23 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024 or unit == "PiB":
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def columns(marks: Sequence[Mark], *, about: str, form: Format = short, mean: float | None = None) -> str:
    """A column for each mark, from left to right; ``mean`` draws a line across."""
    return _over_an_axis(pygal.Bar, {"": marks}, about, form, mean, rounded_bars=2)


def lines(series: Mapping[str, Sequence[Mark]], *, about: str, form: Format = short) -> str:
    """Lines over equal steps, by name; a None breaks a line. A single one has its area filled."""
    fills = len(series) == 1
    return _over_an_axis(
        pygal.Line, series, about, form, fill=fills, show_legend=not fills, allow_interruptions=True, dots_size=4
    )


def bars(marks: Sequence[Mark], *, about: str, form: Format = short, name_length_max: int = _NAME_LENGTH_MAX) -> str:
    """A lying bar for each mark, from top to bottom, its label before and its value behind it."""
    longest = max((mark.value or 0.0 for mark in marks), default=0.0) or 1.0
    chart = pygal.HorizontalBar(
        **COMMON,
        height=max(len(marks), 1) * _ROW + 8,
        style=Style(label_font_size=13),  # what the room for names is reckoned by
        rounded_bars=2,
        range=(0, longest * 1.2),
        formatter=form,
        print_values=True,
        print_values_position="top",
        truncate_label=-1,
        show_x_labels=False,
    )
    names = [text_of(mark.label) for mark in reversed(marks)]
    chart.x_labels = [name if len(name) <= name_length_max else f"{name[: name_length_max - 1]}…" for name in names]
    chart.add("", _points([*reversed(marks)]))
    return svg_of(chart, about)


COMMON: Final[dict[str, Any]] = {
    "width": WIDTH,
    "css": (),
    "js": (),
    "margin": 4,
    "margin_right": 22,
    "show_legend": False,
    "disable_xml_declaration": True,
}


def _over_an_axis(
    chart_class: type[Any],
    series: Mapping[str, Sequence[Mark]],
    about: str,
    form: Format,
    mean: float | None = None,
    **look: Any,
) -> str:
    """A chart with labels below, as many as fit, and round numbers at the left."""
    values = [mark.value for marks in series.values() for mark in marks if mark.value is not None]
    top = max([*values, mean or 0.0])
    unit = 1024.0 ** max(0, math.floor(math.log(top, 1024))) if form is short_bytes and top >= 1 else 1.0
    ticks = [tick * unit for tick in nice_ticks(top / unit)]
    chart = chart_class(**COMMON | look, height=HEIGHT, range=(0, ticks[-1]), legend_at_bottom=True, truncate_label=-1)
    labels = [text_of(mark.label) for mark in next(iter(series.values()))]
    every = -(-len(labels) // _LABELS_MAX)
    chart.x_labels = [label if number % every == 0 else "" for number, label in enumerate(labels)]
    shown = [tick for tick in ticks if mean is None or abs(tick - mean) > 0.06 * ticks[-1]]
    chart.y_labels = [{"value": tick, "label": form(tick)} for tick in shown]
    chart.y_labels_major = [-1 if mean is None else mean]  # without one the library chooses some
    if mean is not None:
        chart.y_labels.append({"value": mean, "label": "mean"})
    for name, marks in series.items():
        chart.add(name, _points(marks))
    return svg_of(chart, about)


def _points(marks: Sequence[Mark]) -> list[dict[str, Any]]:
    """Values as the library takes them. One that no line reaches shows its dot."""
    values = [None, *(mark.value for mark in marks), None]
    is_lone = [before is after is None for before, after in zip(values, values[2:], strict=False)]
    return [
        {"value": mark.value, "tooltip": text_of(mark.tip), "node": {"data-lone": ""} if lone else {}}
        for mark, lone in zip(marks, is_lone, strict=True)
    ]


def text_of(words: str) -> str:
    """The words without characters that XML has not, such as most control characters."""
    return _NOT_XML.sub("\ufffd", words)


def svg_of(chart: Any, about: str) -> str:
    """The chart without ids, comments, and what only the library's own script and style read."""

    def bare(root: Element) -> Element:
        for parent in list(root.iter()):
            for child in list(parent):
                if child.tag in ("defs", "desc") or callable(child.tag) or (parent is root and child.tag == "title"):
                    parent.remove(child)  # callable: a comment
        root.attrib.pop("id")
        root.set("role", "img")
        root.set("aria-label", about)
        return root

    chart.add_xml_filter(bare)
    return str(chart.render(is_unicode=True))
