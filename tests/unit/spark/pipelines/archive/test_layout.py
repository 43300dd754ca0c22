from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikafka.spark.pipelines.archive.layout import (
    DAYS_MAX,
    DAYS_MIN,
    DataFile,
    commit_name,
    date_of,
    parse_commit_name,
    snapshot_name,
)


def test_a_file_is_named_after_its_offsets() -> None:
    file = DataFile("orders", "2026-11-21", 3, 1000, 1999, 1000, 4711)
    assert file.path == "topic=orders/date=2026-11-21/00003-00000000000000001000-00000000000000001999.parquet"


@given(st.integers(-(2**40), 2**40))
def test_any_day_has_a_date_of_ten_characters(days: int) -> None:
    assert len(date_of(days)) == 10
    assert date_of(DAYS_MIN) <= date_of(days) <= date_of(DAYS_MAX)


def test_days_around_the_epoch() -> None:
    assert [date_of(days) for days in (-1, 0, 1)] == ["1969-12-31", "1970-01-01", "1970-01-02"]


def test_names_of_commits() -> None:
    assert parse_commit_name(commit_name(7)) == (7, False)
    assert parse_commit_name(snapshot_name(64)) == (64, True)
    assert parse_commit_name(f".{commit_name(7)}.0815") is None
    assert sorted([commit_name(100), commit_name(20)]) == [commit_name(20), commit_name(100)]
