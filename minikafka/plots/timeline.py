"""Plots over one axis of time, to stand one above the other: their times are at the same place. Pure.

``lines_over_time`` draws values, with shades where something was in force; ``spans`` draws what that was, as bars in
named lanes. Both need ``STYLE``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import Element, SubElement

import pygal

from minikafka.plots.charts import COMMON, Format, nice_ticks, short, svg_of, text_of

STYLE: Final = """\
svg .x text { text-anchor: middle; }
svg.timeline .axis.y text { text-anchor: end; fill: var(--ink); }
svg.timeline .axis.x path { display: block; }
svg.timeline .axis .major.line { opacity: 0; }
svg.timeline .line { stroke-linejoin: miter; stroke-width: 1.5; }
svg.timeline .shade .line { fill: var(--two); fill-opacity: 0.13; stroke: none; }
svg.timeline .span .line { fill: var(--two); fill-opacity: 0.85; stroke: none; }
svg.timeline .span:hover .line { fill-opacity: 1; }
"""
WIDTH: Final = 1180
HEIGHT: Final = 128
_LANE: Final = 20
_AXIS: Final = 26  # height of the labels of times
_LEAST: Final = 0.003  # of the width: a span is at least so wide
_TICKS: Final = 12
_SERIES: Final = re.compile(r"\bserie-(\d+)\b")


class Moment(NamedTuple):
    """A value at a time, with its tip."""

    at_ms: int
    value: float | None
    tip: str


class Span(NamedTuple):
    """From a time to another, with its tip."""

    begin_ms: int
    end_ms: int
    tip: str


def lines_over_time(
    series: Mapping[str, Sequence[Moment]],
    until_ms: int,
    *,
    about: str,
    label_length: int,
    shades: Sequence[Span] = (),
    form: Format = short,
    whole: bool = False,
) -> str:
    """Lines by name; a single one has its area filled. ``whole``: of numbers that have no halves.

    ``label_length``: of labels at the left, in characters. Plots with the same one have the same axis of time.
    """
    top = max((moment.value or 0 for moments in series.values() for moment in moments), default=0)
    ticks = nice_ticks(top, 3)
    chart = _chart(HEIGHT, until_ms, ticks[-1])
    shown = [tick for tick in ticks if not whole or tick == int(tick)]
    chart.y_labels = [{"value": tick, "label": _padded(form(tick), label_length)} for tick in shown]
    chart.y_labels_major = [-1]
    for shade in shades:
        chart.add("", _quad(shade, 0, ticks[-1], until_ms), show_dots=False)
    for name, moments in series.items():
        points = [
            {"value": (moment.at_ms, moment.value), "tooltip": text_of(moment.tip)}
            for moment in moments
            if moment.value is not None
        ]
        chart.add(name, points, fill=len(series) == 1)
    return _drawn(chart, about, "shade", shades)


def spans(lanes: Sequence[tuple[str, Sequence[Span]]], until_ms: int, *, about: str, label_length: int) -> str:
    """A lane for each name, from top to bottom. ``label_length``: see :func:`lines_over_time`."""
    chart = _chart(len(lanes) * _LANE + _AXIS, until_ms, len(lanes))
    middles = [len(lanes) - number - 0.5 for number in range(len(lanes))]
    chart.y_labels = [
        {"value": middle, "label": _padded(name, label_length)}
        for middle, (name, _) in zip(middles, lanes, strict=True)
    ]
    chart.y_labels_major = [-1]
    bars = [(middle, span) for middle, (_, lane) in zip(middles, lanes, strict=True) for span in lane]
    for middle, span in bars:
        chart.add("", _quad(span, middle - 0.36, middle + 0.36, until_ms), show_dots=False)
    return _drawn(chart, about, "span", [span for _, span in bars])


def in_lanes(name: str, found: Sequence[Span]) -> list[tuple[str, list[Span]]]:
    """Lanes of one name, as many as it takes that none of its spans lies over another."""
    lanes: list[list[Span]] = []
    for span in sorted(found):
        free = next((lane for lane in lanes if lane[-1].end_ms <= span.begin_ms), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    return [(name if number == 0 else "", lane) for number, lane in enumerate(lanes)]


def _chart(height: int, until_ms: int, top: float) -> Any:
    chart = pygal.XY(
        **COMMON | {"width": WIDTH},
        height=height,
        xrange=(0, until_ms),
        range=(0, top),
        dots_size=4,
        truncate_label=-1,
        x_value_formatter=lambda ms: f"{ms / 1000:g} s",
    )
    chart.x_labels = [tick * 1000 for tick in nice_ticks(until_ms / 1000, _TICKS) if tick * 1000 <= until_ms]
    return chart


def _quad(span: Span, low: float, high: float, until_ms: int) -> list[tuple[float, float]]:
    begin = min(span.begin_ms, until_ms * (1 - _LEAST))
    end = min(max(span.end_ms, begin + until_ms * _LEAST), until_ms)
    return [(begin, low), (begin, high), (end, high), (end, low)]


def _padded(label: str, length: int) -> str:
    """The library reckons the room for labels by their lengths."""
    return text_of(label).rjust(length, "\u2007")


def _drawn(chart: Any, about: str, kind: str, drawn: Sequence[Span]) -> str:
    """The plot, in which the first series are spans of a kind, each with its tip."""

    def told(root: Element) -> Element:
        root.set("class", f"{root.get('class', '')} timeline")
        for group in root.iter():
            found = _SERIES.search(group.get("class") or "")
            if found is None:
                continue
            number = int(found[1])
            if number >= len(drawn):
                group.set("class", f"series color-{number - len(drawn)}")
            elif len(group):
                group.set("class", kind)
                SubElement(group, "title").text = text_of(drawn[number].tip)
            else:
                group.set("class", "")
        return root

    chart.add_xml_filter(told)
    return svg_of(chart, about)
