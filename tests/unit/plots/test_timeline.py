"""Plots over one axis of time: their times are at the same place, and spans are where they belong."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.plots.timeline import HEIGHT, WIDTH, Moment, Span, in_lanes, lines_over_time, spans

SVG = "{http://www.w3.org/2000/svg}"
UNTIL_MS = 60_000
SPANS = st.lists(
    st.tuples(st.integers(0, UNTIL_MS), st.integers(0, 9000), st.text()).map(
        lambda found: Span(found[0], min(found[0] + found[1], UNTIL_MS), found[2])
    ),
    min_size=1,
    max_size=20,
)


def paths(svg: str, kind: str) -> list[list[tuple[float, float]]]:
    """The corners of the quads of a kind, within the plot."""
    groups = [each for each in ElementTree.fromstring(svg).iter(SVG + "g") if each.get("class") == kind]
    lines = [next(each for each in group.iter(SVG + "path")).get("d") or "" for group in groups]
    return [[(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+)[ ,](-?[\d.]+)", line)] for line in lines]


def origin(svg: str) -> str:
    """Where the plot lies in the picture, from the left."""
    found = re.search(r'translate\(([\d.]+), [\d.]+\)" class="plot"', svg) or re.search(
        r'class="plot" transform="translate\(([\d.]+)', svg
    )
    assert found is not None
    return found[1]


@settings(max_examples=20, deadline=None)
@given(SPANS)
def test_spans_are_within_and_as_long_as_they_were(found: list[Span]) -> None:
    lanes = in_lanes("kind", found)
    svg = spans(lanes, UNTIL_MS, about="<a&b>", label_length=8)
    drawn = paths(svg, "span")
    assert len(drawn) == len(found)
    for quad in drawn:
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT * 10 for x, y in quad)
    groups = [each for each in ElementTree.fromstring(svg).iter(SVG + "g") if each.get("class") == "span"]
    assert all(each.find(SVG + "title") is not None for each in groups)


@given(SPANS)
def test_no_span_of_a_lane_lies_over_another(found: list[Span]) -> None:
    lanes = in_lanes("kind", found)
    assert sorted(span for _, lane in lanes for span in lane) == sorted(found)
    assert [name for name, _ in lanes[:2]] == ["kind", ""][: len(lanes)]
    for _, lane in lanes:
        assert all(before.end_ms <= after.begin_ms for before, after in pairwise(lane))


@pytest.mark.parametrize("top", [1, 2, 3, 5, 6, 7, 8, 60, 70])
def test_no_line_of_whole_numbers_leaves_its_plot(top: int) -> None:
    """Seven elections were drawn above a plot that ended at five: the next tick, 7.5, is no whole number."""
    moments = [Moment(0, 0, ""), Moment(UNTIL_MS, top, "")]
    svg = lines_over_time({"": moments}, UNTIL_MS, about="elections", label_length=3, whole=True)
    dots = re.findall(r'<circle cx="[\d.]+" cy="(-?[\d.]+)"', svg)
    assert len(dots) == len(moments)
    assert min(map(float, dots)) >= 0


def test_plots_of_one_length_of_labels_have_the_same_axis() -> None:
    fault = Span(15_000, 30_000, "a fault")
    above = spans([("a kind of fault", [fault])], UNTIL_MS, about="faults", label_length=15)
    below = [
        lines_over_time(
            {"": [Moment(0, 0.0, "0"), Moment(UNTIL_MS, top, "1")]},
            UNTIL_MS,
            about="values",
            label_length=15,
            shades=[fault],
        )
        for top in (1, 3, 250_000)
    ]
    assert len({origin(svg) for svg in (above, *below)}) == 1
    shown = [[x for x, _ in paths(svg, kind)[0]] for svg, kind in ((above, "span"), *((svg, "shade") for svg in below))]
    assert all(xs == shown[0] for xs in shown)
    begin, end = min(shown[0]), max(shown[0])
    assert 0.2 < (end - begin) / WIDTH < 0.25, "a quarter of the axis"


def test_a_line_has_a_dot_with_a_tip_for_each_moment_and_none_for_shades() -> None:
    moments = [Moment(0, 1.0, "one"), Moment(500, 2.0, "two"), Moment(1000, None, "gap")]
    svg = lines_over_time({"": moments}, 1000, about="x", label_length=5, shades=[Span(100, 200, "shade")])
    root = ElementTree.fromstring(svg)
    assert [each.text for each in root.iter(SVG + "title")].count("shade") == 1
    assert len([*root.iter(SVG + "circle")]) == 2
    assert 'class="series color-0"' in svg
