from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive.planning import (
    STEPS_BYTES,
    TARGET_BYTES,
    Part,
    beginnings,
    check_parts,
    days_to_compact,
    diverged,
    missing_ranges,
    share,
    suspects,
)
from minikafka.spark.pipelines.running import PipelineError
from minikafka.spark.pipelines.topics import Extent

A, B, C = (TopicPartition("orders", partition) for partition in range(3))


def test_offsets_that_the_lake_lacks_are_planned() -> None:
    found = {A: Extent(0, 10), B: Extent(5, 8), C: Extent(3, 3)}
    assert missing_ranges({A: 4, B: 5, C: 3}, found) == {A: (4, 10), B: (5, 8)}
    assert missing_ranges({A: 10, B: 8, C: 3}, found) == {}


def test_a_partition_begins_where_it_was_first_seen() -> None:
    """What comes and goes between two looks at it is missed: at one that was empty, or was not there."""
    assert beginnings({}, {A: Extent(0, 10), B: Extent(5, 5)}) == {A: 0, B: 5}
    assert beginnings({A: 10, B: 5}, {A: Extent(0, 10), B: Extent(7, 9), C: Extent(3, 4)}) == {C: 0}
    with pytest.raises(PipelineError, match="orders-1 from 5 to 6, orders-2 from 0 to 2; --skip-lost"):
        missing_ranges({B: 5, C: 0}, {B: Extent(7, 9), C: Extent(3, 4)})


def test_deleted_offsets_are_told_of_or_skipped() -> None:
    with pytest.raises(PipelineError, match="orders-0 from 4 to 6; --skip-lost"):
        missing_ranges({A: 4}, {A: Extent(7, 10)})
    assert missing_ranges({A: 4}, {A: Extent(7, 10)}, skip_lost=True) == {A: (7, 10)}
    assert missing_ranges({A: 4}, {A: Extent(7, 7)}, skip_lost=True) == {}


def test_logs_that_may_be_others_are_asked() -> None:
    ends = {A: OffsetAndEpoch(10, 3), B: OffsetAndEpoch(10, 3), C: OffsetAndEpoch(10, 3)}
    found = {A: Extent(0, 12), B: Extent(0, 12), C: Extent(0, 9)}
    assert suspects(ends, found, {A: 3, B: 4, C: 3}).keys() == {B, C}


def test_what_has_diverged() -> None:
    ends = {A: OffsetAndEpoch(10, 3), B: OffsetAndEpoch(10, NO_EPOCH), C: OffsetAndEpoch(10, 3)}
    found = {A: Extent(0, 20), B: Extent(0, 7), C: Extent(0, 7)}
    assert diverged(ends, found, {A: OffsetAndEpoch(4, 2)}) == {A: (4, 2), B: (7, NO_EPOCH)}
    assert diverged(ends, found, {C: OffsetAndEpoch(-1, -1)})[C] == (0, -1), "nothing in common"


ranges = st.dictionaries(
    st.sampled_from([A, B, C]),
    st.tuples(st.integers(0, 100), st.integers(1, 10_000)).map(lambda of: Extent(of[0], of[0] + of[1])),
)


@given(ranges, st.integers(1, 5_000))
def test_shares_come_to_an_end_and_are_in_proportion(missing: dict[TopicPartition, Extent], most: int) -> None:
    total = sum(end - start for start, end in missing.values())
    shared = share(missing, most)
    assert shared.keys() == missing.keys()
    for tp, (start, end) in shared.items():
        assert missing[tp].start == start < end <= missing[tp].end
    assert sum(end - start for start, end in shared.values()) <= min(total, most + len(missing))


def test_parts_that_overlap_or_exceed_the_plan_are_refused() -> None:
    planned = {A: Extent(0, 100), B: Extent(7, 9)}
    check_parts(planned, [Part(A, 50, 99), Part(B, 7, 7), Part(A, 3, 49)])
    for wrong in ([Part(A, 0, 100)], [Part(B, 6, 7)], [Part(A, 0, 50), Part(A, 50, 60)]):
        with pytest.raises(AssertionError, match="orders-"):
            check_parts(planned, wrong)


def test_days_with_enough_small_files_are_compacted() -> None:
    small = [1_000] * 7
    assert days_to_compact({"a": small}, files_min=8) == {}
    assert days_to_compact({"a": small, "b": [*small, 2_000]}, files_min=8) == {"b": 32 << 10}
    assert days_to_compact({"a": [30_000] * 8}, files_min=8) == {"a": 256 << 10}
    assert days_to_compact({"a": [TARGET_BYTES] * 8}, files_min=8) == {}


@given(st.lists(st.integers(1_000, 3_000_000), min_size=1, max_size=200), st.integers(2, 8))
def test_each_record_is_copied_a_few_times(sizes: list[int], files_min: int) -> None:
    """Files come one after another, as with --follow; adjacent ones are put together as far as they fit.

    A file between a quarter of a step and the step is copied with small ones. All but one of them are not small for the
    step below, an eighth as large: so each time it grows by ``files_min - 1`` times 1/32 of the step, or more.
    """
    files: list[int] = []
    copied = 0
    for size_bytes in sizes:
        files.append(size_bytes)
        if target_bytes := days_to_compact({"day": files}, files_min=files_min).get("day"):
            merged: list[list[int]] = []
            for each in files:
                if merged and each < target_bytes and sum(merged[-1]) + each <= target_bytes:
                    merged[-1].append(each)
                else:
                    merged.append([each])
            copied += sum(sum(bin_) for bin_ in merged if len(bin_) > 1)
            files = [sum(bin_) for bin_ in merged]
    assert copied <= sum(sizes) * (2 + 24 // (files_min - 1)) * len(STEPS_BYTES)
    assert len(files) <= 2 * files_min * len(STEPS_BYTES) + 2 * sum(sizes) // (TARGET_BYTES // 4)
