"""Ranges, split into tasks."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.source.ranges import OffsetRange, ranges_between, split_ranges


def make(*sizes: int) -> list[OffsetRange]:
    begins = {TopicPartition("a", index): OffsetAndEpoch(1_000 * index, 3) for index in range(len(sizes))}
    ends = {tp: OffsetAndEpoch(begins[tp].offset + size, 5) for tp, size in zip(begins, sizes, strict=True)}
    return ranges_between(begins, ends, {"t": "id"})


def shown(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(range_.tp.partition, range_.start.offset, range_.end.offset) for range_ in ranges]


def test_ranges_with_nothing_in_them_are_left_out() -> None:
    assert shown(make(0, 5, -2)) == [(1, 1000, 1005)]


def test_no_range_is_larger_than_wanted() -> None:
    assert shown(split_ranges(make(10, 3), offsets_max=4)) == [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 1000, 1003)]


def test_large_ranges_are_split_in_proportion() -> None:
    found = split_ranges(make(100, 300, 10), ranges_min=5)
    assert shown(found) == [(0, 0, 100), (1, 1000, 1100), (1, 1100, 1200), (1, 1200, 1300), (2, 2000, 2010)]


def test_of_two_limits_the_one_that_splits_more_counts() -> None:
    assert len(split_ranges(make(100), ranges_min=3, offsets_max=10)) == 10
    assert len(split_ranges(make(100), ranges_min=20, offsets_max=10)) == 20


@given(st.lists(st.integers(0, 900), max_size=8), st.none() | st.integers(1, 40), st.none() | st.integers(1, 300))
def test_every_offset_is_in_one_range(sizes: list[int], ranges_min: int | None, offsets_max: int | None) -> None:
    whole = make(*sizes)
    found = split_ranges(whole, ranges_min=ranges_min, offsets_max=offsets_max)
    naive = [(range_.tp, offset) for range_ in whole for offset in range(range_.start.offset, range_.end.offset)]
    assert [(part.tp, offset) for part in found for offset in range(part.start.offset, part.end.offset)] == naive
    assert all(part.size > 0 for part in found)
    if offsets_max is not None:
        assert all(part.size <= offsets_max for part in found)
    if ranges_min is not None and sum(sizes) >= ranges_min * 4:
        assert len(found) >= ranges_min * 2 // 3, "about as many as wanted"


@given(st.integers(1, 500), st.integers(1, 50))
def test_parts_are_of_equal_size_and_bear_epochs(size: int, parts: int) -> None:
    (whole,) = make(size)
    found = list(whole.split(parts))
    assert len(found) == min(size, parts)
    assert max(part.size for part in found) - min(part.size for part in found) <= 1
    assert found[0].start == whole.start
    assert all(part.end.epoch == 5 and part.topic_id == whole.topic_id for part in found)
    assert pickle.loads(pickle.dumps(found)) == found
