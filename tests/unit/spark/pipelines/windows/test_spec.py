"""Keys, windows and aggregates from the words of a command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.spark.pipelines.running import PipelineError
from minikafka.spark.pipelines.windows.spec import Emit, Named, Windows, format_duration, parse_duration, parse_named


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("sum(json.amount) AS total", Named("total", "sum(json.amount)")),
        ("sum(json.amount) as `the total`", Named("the total", "sum(json.amount)")),
        ("sum(json.amount)", Named("sum_amount", "sum(json.amount)")),
        ("count(*)", Named("count", "count(*)")),
        ("json.user", Named("user", "json.user")),
        ("json.address.city", Named("address_city", "json.address.city")),
        ("value", Named("value", "value")),
        ("CAST(key AS INT)", Named("CAST_key_AS_INT", "CAST(key AS INT)")),
        ("CAST(key AS INT) AS number", Named("number", "CAST(key AS INT)")),
        ("'eu'", Named("eu", "'eu'")),
        ("*", Named("agg", "*")),
    ],
)
def test_an_expression_has_a_name(text: str, named: Named) -> None:
    assert parse_named(text, "--agg") == named


@pytest.mark.parametrize(
    ("text", "duration_ms"), [("500ms", 500), ("10s", 10_000), (" 5 m ", 300_000), ("1h", 3_600_000), ("0s", 0)]
)
def test_a_length_of_time_is_a_number_and_a_unit(text: str, duration_ms: int) -> None:
    assert parse_duration(text, "--window") == duration_ms


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_is_read_as_it_was_written(duration_ms: int) -> None:
    assert parse_duration(format_duration(duration_ms), "--window") == duration_ms


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"window": "10"}, "--window 10: a duration is a number with a unit"),
        ({"window": "0s"}, "--window 0s: it must be longer than 0"),
        ({"window": "999999999d"}, "--window 999999999d: it must not be longer than 36500d"),
        ({"window": "-1s"}, "--window -1s: a duration"),
        ({"window": "10s", "slide": "11s"}, "--slide 11s is longer than --window 10s"),
        ({"window": "10s", "watermark": "soon"}, "--watermark soon: a duration"),
        ({"window": "10s", "emit": "all"}, "--emit all: it is one of update, final"),
        ({"window": "10s", "key": [" "]}, "--key is empty; give a Spark SQL expression, for example 'json.user'"),
        ({"window": "10s", "agg": ["sum(a)", "sum( a )"]}, "--agg 'sum( a )' would be called sum_a, and so is another"),
        (
            {"window": "10s", "key": ["Count"]},
            "--agg 'count(*)' would be called count, and so is another: --key 'Count'",
        ),
        ({"window": "10s", "key": ["key AS window_start"]}, "every result has it"),
    ],
)
def test_what_is_wrong_is_said_with_its_option(words: dict[str, str], complaint: str) -> None:
    with pytest.raises(PipelineError) as refused:
        Windows.parse(**words)  # type: ignore[arg-type]
    assert complaint in str(refused.value)


def test_windows_without_more_words_count_and_do_not_overlap() -> None:
    windows = Windows.parse(window="10s")
    assert windows.slide_ms == windows.window_ms == windows.watermark_ms == 10_000
    assert windows.aggregates == (Named("count", "count(*)"),)
    assert windows.emit is Emit.UPDATE
    assert not windows.reads_json
    assert not windows.reads_headers


@pytest.mark.parametrize(
    ("expression", "fields", "is_whole"),
    [
        ("json.user", {"user"}, False),
        ("sum(json.amount * json . `unit price`)", {"amount", "unit price"}, False),
        ("json.address.city", {"address"}, False),
        ("to_json(json)", set(), True),
        ("concat('json.user', key)", set(), False),
        ("jsonish.user", set(), False),
        ("value.json", set(), False),
    ],
)
def test_which_fields_of_json_are_read(expression: str, fields: set[str], is_whole: bool) -> None:
    windows = Windows.parse(window="10s", key=[f"{expression} AS it"])
    assert windows.json_fields == fields
    assert windows.reads_whole_json == is_whole
    assert windows.reads_json == bool(fields or is_whole)


def test_json_is_read_wherever_an_expression_is() -> None:
    assert Windows.parse(window="1s", time="json.at").json_fields == {"at"}
    assert Windows.parse(window="1s", where="json.ok").json_fields == {"ok"}
    assert Windows.parse(window="1s", schema="a INT").reads_json
    assert Windows.parse(window="1s", agg=["max(size(headers))"]).reads_headers
