"""Filters: what is not read, and that nothing is left out that passes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.source.filters import filtered
from minikafka.spark.source.ranges import OffsetRange, ranges_between

PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
KINDS = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, In]
PASSES = dict(
    zip(
        KINDS,
        (
            lambda row, value: row == value,
            lambda row, value: row == value,
            lambda row, value: row > value,
            lambda row, value: row >= value,
            lambda row, value: row < value,
            lambda row, value: row <= value,
            lambda row, values: row in values,
        ),
        strict=True,
    )
)


@pytest.fixture
def ranges(logs: Any) -> list[OffsetRange]:
    """Offsets 0 to 9 of three partitions; the record at offset n has the time n s."""
    for tp in PARTITIONS:
        logs.put(tp, 0, (3, 10))
        logs.times[tp] = {number * 1000: number for number in range(10)}
    return ranges_between(dict.fromkeys(PARTITIONS, OffsetAndEpoch(0, 2)), logs.offsets(PARTITIONS, -1), {})


def shown(ranges: list[OffsetRange]) -> list[tuple[str, int, int]]:
    return [(str(each.tp), each.start.offset, each.end.offset) for each in ranges]


def at(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def test_ranges_that_cannot_pass_are_not_read(ranges: list[OffsetRange], logs: Any) -> None:
    assert shown(filtered(ranges, [EqualTo(("partition",), 1)], logs)) == [("a-1", 0, 10)]
    assert shown(filtered(ranges, [In(("topic",), ("b", "c"))], logs)) == [("b-0", 0, 10)]
    filters = [GreaterThanOrEqual(("offset",), 4), LessThanOrEqual(("offset",), 5), LessThan(("partition",), 0)]
    assert shown(filtered(ranges, filters[:2], logs)) == [("a-0", 4, 6), ("a-1", 4, 6), ("b-0", 4, 6)]
    assert filtered(ranges, [EqualTo(("partition",), 7)], logs) == []
    assert filtered(ranges, [EqualTo(("offset",), 10)], logs) == []


def test_a_cut_bound_has_the_epoch_of_the_end(ranges: list[OffsetRange], logs: Any) -> None:
    (cut,) = filtered(ranges, [EqualTo(("topic",), "b"), EqualTo(("offset",), 4)], logs)
    assert (cut.start, cut.end) == (OffsetAndEpoch(4, 3), OffsetAndEpoch(5, 3))


def test_a_time_cuts_off_the_beginning_only(ranges: list[OffsetRange], logs: Any) -> None:
    assert shown(filtered(ranges, [GreaterThan(("timestamp",), at(6.0004))], logs))[0] == ("a-0", 6, 10)
    assert shown(filtered(ranges, [LessThan(("timestamp",), at(6))], logs))[0] == ("a-0", 0, 10)
    assert shown(filtered(ranges, [EqualTo(("timestamp",), at(6))], logs))[0] == ("a-0", 6, 10)
    assert filtered(ranges, [GreaterThan(("timestamp",), at(10))], logs) == []
    assert len(filtered(ranges, [GreaterThan(("timestamp",), at(-5))], logs)) == 3, "-1 and -2 have a meaning for logs"


def test_other_filters_cut_nothing(ranges: list[OffsetRange], logs: Any) -> None:
    others: list[Filter] = [
        EqualTo(("key",), b"x"),
        IsNotNull(("offset",)),
        Not(EqualTo(("partition",), 0)),
        EqualTo(("offset", "field"), 3),
        EqualNullSafe(("offset",), None),
    ]
    assert filtered(ranges, others, logs) == ranges


@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.sampled_from(["partition", "offset"]), st.integers(-1, 11)), max_size=4
    )
)
def test_every_row_that_passes_is_read(drawn: list[tuple[Any, str, int]]) -> None:
    filters = [kind((column,), (value, value + 2) if kind is In else value) for kind, column, value in drawn]
    whole = ranges_between(
        dict.fromkeys(PARTITIONS, OffsetAndEpoch(0, 2)), dict.fromkeys(PARTITIONS, OffsetAndEpoch(10, 3)), {}
    )
    read = [
        (each.tp.partition, offset)
        for each in filtered(whole, filters, None)  # type: ignore[arg-type]  # no time, so nobody is asked
        for offset in range(each.start.offset, each.end.offset)
    ]
    for row in [(tp.partition, offset) for tp in PARTITIONS for offset in range(10)]:
        if all(PASSES[type(each)](row[each.attribute[0] == "offset"], each.value) for each in filters):
            assert row in read
    assert all(0 <= offset < 10 for _, offset in read)
