"""The page is one file that fetches nothing, whatever is in the topic."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from minikafka.cli.pipeline.report import spark_line
from minikafka.spark.pipelines.report.measures import Bin, Measures, Often, PartitionReport, Slots, TopicReport
from minikafka.spark.pipelines.report.page import full_time, time_label, to_html

HOUR_MS = 3_600_000
START_MS = 1_767_225_600_000  # 2026-01-01

SOME = Measures(records=10, key_bytes=50, value_bytes=1000, keys=3, first_ms=START_MS, last_ms=START_MS + HOUR_MS)
REPORT = TopicReport(
    topic="orders",
    cluster_id="a-cluster",
    made_ms=START_MS,
    total=SOME,
    partitions=(PartitionReport(0, 0, 12, SOME), PartitionReport(1, 5, 5)),
    slots=Slots(START_MS, HOUR_MS, 3),
    over_time=(SOME, Measures(), SOME),
    earlier=1,
    later=2,
    sizes=(Bin(4, 6, 9), Bin(6, 8, 1)),
    hot_keys=(Often("<script>alert(1)</script>", 7),),
    header_names=(Often("trace, <b>", 5),),
)
EMPTY = TopicReport("orders", "a", START_MS, Measures(), (PartitionReport(0, 0, 0),), Slots(0, 1, 1), (Measures(),), 0, 0, (), (), ())  # fmt: skip # noqa: E501


class Tags(HTMLParser):
    """Opens and closes as the page does, and looks for what would be fetched."""

    void = ("meta", "rect", "line", "path", "circle", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {name for name, _ in attrs} & {"src", "href"}
        self.seen.append(tag)
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.void:
            assert self.open.pop() == tag


@pytest.mark.parametrize("report", [REPORT, EMPTY])
def test_the_page_is_whole_and_fetches_nothing(report: TopicReport) -> None:
    page = to_html(report)
    tags = Tags(page)
    assert tags.open == []
    assert "script" not in tags.seen
    assert not re.search(r"https?://|@import|url\(", re.sub('xmlns(:xlink)?="[^"]+"', "", page))
    assert "prefers-color-scheme: dark" in page


def test_plots_are_there_when_there_are_records() -> None:
    assert Tags(to_html(REPORT)).seen.count("svg") == 8
    assert Tags(to_html(EMPTY)).seen.count("svg") == 0
    assert "no records" in to_html(EMPTY)
    assert "3 records lie outside" in to_html(REPORT)


def test_skew_is_the_fullest_over_the_mean() -> None:
    assert REPORT.skew == 2.0
    assert EMPTY.skew == 1.0
    assert "2.00× the mean" in to_html(REPORT)


@pytest.mark.parametrize(
    ("range_ms", "label"),
    [
        (2_000, "00.250"),
        (60_000, "00:00:00"),
        (8 * HOUR_MS, "00:00"),
        (30 * HOUR_MS, "01 00:00"),
        (100 * HOUR_MS, "Jan 01"),
        (50_000 * HOUR_MS, "2026-01"),
    ],
)
def test_labels_of_time_tell_moments_apart(range_ms: int, label: str) -> None:
    assert time_label(START_MS + 250, range_ms) == label


def test_times_in_full() -> None:
    assert full_time(START_MS) == "2026-01-01 00:00:00"
    assert full_time(START_MS + 7) == "2026-01-01 00:00:00.007"
    assert full_time(-1) == "1969-12-31 23:59:59.999"


@pytest.mark.parametrize("ms", [10**15, -(10**15)])
def test_times_without_a_date_are_told_as_such(ms: int) -> None:
    """Any producer may send one: one record, and no report was made of its topic."""
    far = replace(SOME, first_ms=min(ms, 0), last_ms=max(ms, 0))
    page = to_html(replace(REPORT, total=far, slots=Slots(ms, HOUR_MS, 3)))
    assert f"{ms} ms" in page


def test_a_line_of_blocks() -> None:
    assert spark_line([0, 1, 8, 4]) == " ▁█▄"
    assert spark_line([]) == ""
    assert len(spark_line([1] * 1000)) <= 60
