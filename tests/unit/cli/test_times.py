"""Times and time spans as words."""

from __future__ import annotations

import pytest
import typer

from minikafka.cli.times import parse_datetime, parse_duration, parse_moment


@pytest.mark.parametrize(
    ("word", "ms"),
    [
        ("1970-01-02T00:00:00", 86_400_000),
        ("1970-01-02T00:00:00.250", 86_400_250),
        ("1970-01-02T00:00:00Z", 86_400_000),
        ("1970-01-02T01:00:00.000+01:00", 86_400_000),
    ],
)
def test_a_time_is_in_utc_unless_it_says_otherwise(word: str, ms: int) -> None:
    assert parse_datetime(word) == ms


@pytest.mark.parametrize("word", ["yesterday", "1969-12-31T00:00:00", ""])
def test_no_time_is_refused(word: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_datetime(word)


@pytest.mark.parametrize(
    ("word", "seconds"),
    [
        ("P7D", 604_800),
        ("PT10M", 600),
        ("PT1H30M", 5400),
        ("P1DT2H3M4.5S", 93_784.5),
        ("PT0S", 0),
        ("90m", 5400),
        ("1d2h3m4.5s", 93_784.5),
    ],
)
def test_a_span_of_time(word: str, seconds: float) -> None:
    assert parse_duration(word) == seconds * 1000


@pytest.mark.parametrize("word", ["", "P", "PT", "P1DT", "1x", "P1Y", "PT1.5H", "-PT1H", "h", "5"])
def test_no_span_of_time_is_refused(word: str) -> None:
    with pytest.raises(typer.BadParameter, match="PT1H30M"):
        parse_duration(word)


@pytest.mark.parametrize(
    ("word", "ms"), [("250", 250), ("1970-01-02", 86_400_000), ("PT1S", 9_000), ("2s", 8_000), ("1d", 0)]
)
def test_a_moment_is_a_time_or_that_long_ago(word: str, ms: int) -> None:
    assert parse_moment(word, "--from-timestamp", 10_000) == ms


@pytest.mark.parametrize("word", ["", "soon", "-5", "9" * 19 + "9", "1969-01-01"])
def test_no_moment_is_refused(word: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_moment(word, "--from-timestamp", 10_000)
