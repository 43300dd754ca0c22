"""Plots are well-formed SVG in which marks are where their values are."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.spark.pipelines.report.plots import Line, Mark, bars, columns, lines, nice_ticks, short, short_bytes

VALUE = st.floats(min_value=0, max_value=1e15, allow_nan=False)


@given(st.floats(min_value=1e-6, max_value=1e15))
def test_ticks_are_few_and_reach_the_top(top: float) -> None:
    ticks = nice_ticks(top)
    assert 2 <= len(ticks) <= 6
    assert ticks[0] == 0
    assert ticks[-1] >= top * 0.99999
    assert ticks[-2] < top


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (0.25, "0.25"), (950, "950"), (1200, "1.2k"), (3e7, "30M"), (2e9, "2G")]
)
def test_short_numbers(value: float, words: str) -> None:
    assert short(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0 B"), (512, "512 B"), (1010, "1010 B"), (1536, "1.5 KiB"), (1 << 31, "2 GiB")]
)
def test_short_bytes(value: float, words: str) -> None:
    assert short_bytes(value) == words


@given(st.lists(VALUE, min_size=1, max_size=300))
def test_columns_are_well_formed_and_within(values: list[float]) -> None:
    svg = columns([Mark(value, "<a&b>", 'say "it"') for value in values], about="x", mean=1.0)
    tree = ElementTree.fromstring(svg)
    drawn = [each for each in tree if each.get("class") == "bar"]
    assert len(drawn) == sum(value > 0 for value in values)
    strips = [each for each in tree if each.get("class") == "strip"]
    assert [each.get("data-tip") for each in strips] == ['say "it"'] * len(values)
    for each in drawn:
        height = float(each.get("height") or "-1")
        assert 0 <= height <= 190


def test_a_line_is_broken_where_nothing_is() -> None:
    series = [Line("a", "one", [1.0, 2.0, None, 3.0]), Line("b", "two", [None, None, None, None])]
    tree = ElementTree.fromstring(lines(series, list("wxyz"), list("wxyz"), about="x"))
    assert len([each for each in tree if each.get("class") == "line"]) == 1
    assert len([each for each in tree if each.tag == "circle"]) == 1  # a value alone


def test_a_single_line_has_an_area() -> None:
    assert 'class="area"' in lines([Line("a", "one", [1.0, 2.0])], ["x", "y"], ["x", "y"], about="x")


def test_bars_are_as_long_as_their_values() -> None:
    tree = ElementTree.fromstring(bars([Mark(10, "a" * 99, "t"), Mark(5, "b", "t")], about="x"))
    long, half = (float(each.get("width") or 0) for each in tree if each.get("class") == "bar")
    assert long == pytest.approx(2 * half)
    assert "a" * 23 + "…" in "".join(tree.itertext())
