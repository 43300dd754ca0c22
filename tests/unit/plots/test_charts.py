"""Plots are well-formed SVG in which marks are where their values are."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.plots.charts import HEIGHT, Mark, bars, columns, lines, nice_ticks, short, short_bytes

VALUE = st.floats(min_value=0, max_value=1e18, allow_nan=False)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str, tag: str, css: str = "") -> list[Element]:
    """The elements of a plot with a tag, and a class."""
    return [each for each in ElementTree.fromstring(svg).iter(SVG + tag) if css in (each.get("class") or "")]


def marks_of(*values: float | None) -> list[Mark]:
    return [Mark(value, "x", "tip") for value in values]


@given(st.floats(min_value=1e-6, max_value=1e18))
def test_ticks_are_few_and_reach_the_top(top: float) -> None:
    ticks = nice_ticks(top)
    assert 2 <= len(ticks) <= 6
    assert ticks[0] == 0
    assert ticks[-1] >= top * 0.99999
    assert ticks[-2] < top


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (0.25, "0.25"), (950, "950"), (1200, "1.2k"), (3e7, "30M"), (2e9, "2G"), (5e15, "5P")],
)
def test_short_numbers(value: float, words: str) -> None:
    assert short(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0 B"), (512, "512 B"), (1010, "1010 B"), (1536, "1.5 KiB"), (1 << 31, "2 GiB"), (1 << 50, "1 PiB")],
)
def test_short_bytes(value: float, words: str) -> None:
    assert short_bytes(value) == words


@settings(max_examples=30)
@given(st.lists(st.tuples(VALUE, st.text(), st.text()), min_size=1, max_size=50))
def test_columns_are_well_formed_and_within(values: list[tuple[float, str, str]]) -> None:
    svg = columns([Mark(*each) for each in values], about="<a&b>", mean=1.0)
    heights = [float(each.get("height") or "-1") for each in drawn(svg, "rect", "rect")]
    assert len(heights) == len(values)
    assert all(0 <= height <= HEIGHT for height in heights)


def test_a_mark_has_a_tip_that_is_text_whatever_is_in_it() -> None:
    assert 'say "it" <b>\x00' not in (svg := columns([Mark(1, "<a&b>", 'say "it" <b>\x00')], about="x"))
    assert 'say "it" <b>\ufffd' in [title.text for title in drawn(svg, "title")]
    assert "<a&b>" in [label.text for label in drawn(svg, "text")]


def test_a_plot_has_no_script_style_or_address() -> None:
    svg = lines({"a": marks_of(1, 2)}, about="x")
    assert {each.tag.removeprefix(SVG) for each in ElementTree.fromstring(svg).iter()} <= {
        *("svg", "g", "rect", "path", "text", "title", "circle")
    }
    assert "http" not in re.sub('xmlns(:xlink)?="[^"]+"', "", svg)


def test_few_labels_are_shown_and_a_tick_makes_room_for_the_mean() -> None:
    svg = columns([Mark(number, f"p{number}", "") for number in range(101)], about="x", mean=50.0)
    labels = [each.text for each in drawn(svg, "text") if each.text]
    assert labels[:5] == ["0", "25", "75", "100", "mean"]
    assert labels[5:] == ["p0", "p13", "p26", "p39", "p52", "p65", "p78", "p91"]
    assert len(drawn(svg, "path", "major")) == 1


def test_a_line_is_broken_where_nothing_is() -> None:
    svg = lines({"a": marks_of(1, 2, None, 3), "b": marks_of(None, None, None, None)}, about="x")
    assert len(drawn(svg, "path", "line reactive nofill")) == 1
    assert [each.get("data-lone") for each in drawn(svg, "circle", "dot")] == [None, None, ""]  # a value alone
    assert [each.text for each in drawn(svg, "text")][-2:] == ["a", "b"]


def test_a_single_line_has_an_area_and_no_legend() -> None:
    svg = lines({"a": marks_of(1, 2)}, about="x")
    assert [each.get("class") for each in drawn(svg, "path", "reactive")] == ["line reactive"]
    assert "a" not in [each.text for each in drawn(svg, "text")]


def test_bars_are_as_long_as_their_values() -> None:
    svg = bars([Mark(10, "a" * 99, "t"), Mark(5, "b", "t")], about="x")
    half, long = (float(each.get("width") or 0) for each in drawn(svg, "rect", "rect"))
    assert long == pytest.approx(2 * half)
    words = [each.text for each in drawn(svg, "text")]
    assert {"a" * 23 + "…", "b", "10", "5"} <= set(words)
