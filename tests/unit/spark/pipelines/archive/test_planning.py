from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import TopicPartition
from minikafka.spark.pipelines.archive.layout import DataFile
from minikafka.spark.pipelines.archive.planning import (
    Part,
    beginnings,
    check_parts,
    groups_to_compact,
    missing_ranges,
    share,
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
    assert beginnings({}, {A: Extent(0, 10), B: Extent(5, 5)}) == {A: (0, 0), B: (5, 5)}
    assert beginnings({A: 10, B: 5}, {A: Extent(0, 10), B: Extent(7, 9), C: Extent(3, 4)}) == {C: (0, 0)}
    with pytest.raises(PipelineError, match="orders-1 from 5 to 6, orders-2 from 0 to 2; --skip-lost"):
        missing_ranges({B: 5, C: 0}, {B: Extent(7, 9), C: Extent(3, 4)})


def test_deleted_offsets_are_told_of_or_skipped() -> None:
    with pytest.raises(PipelineError, match="orders-0 from 4 to 6; --skip-lost"):
        missing_ranges({A: 4}, {A: Extent(7, 10)})
    assert missing_ranges({A: 4}, {A: Extent(7, 10)}, skip_lost=True) == {A: (7, 10)}
    assert missing_ranges({A: 4}, {A: Extent(7, 7)}, skip_lost=True) == {}


def test_a_topic_that_ends_too_early_is_another() -> None:
    with pytest.raises(PipelineError, match="orders-0 ends at offset 3, but was archived up to 4"):
        missing_ranges({A: 4}, {A: Extent(0, 3)}, skip_lost=True)


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


def file_of(number: int, size_bytes: int, date: str = "2026-11-21", partition: int = 0) -> DataFile:
    return DataFile("orders", date, partition, number * 10, number * 10 + 9, 10, size_bytes)


def test_few_files_stay_and_many_are_put_together() -> None:
    files = [file_of(number, 10) for number in range(8)]
    assert groups_to_compact(files[:7], files_min=8) == []
    assert groups_to_compact(reversed(files), files_min=8) == [tuple(files)]


def test_days_and_partitions_stay_apart() -> None:
    files = [
        file_of(n, 10, date, partition) for date in ("2026-11-21", "2026-11-22") for partition in (0, 1) for n in (1, 2)
    ]
    groups = groups_to_compact(files, files_min=2)
    assert len(groups) == 4
    assert all(len({(file.date, file.partition) for file in group}) == 1 for group in groups)


def test_a_full_group_does_not_wait_for_more() -> None:
    files = [file_of(number, 40) for number in range(5)]
    assert groups_to_compact(files, files_min=8, target_bytes=100) == [tuple(files[:2]), tuple(files[2:4])]


def test_a_heavy_head_waits_until_the_others_have_grown() -> None:
    head, small = file_of(0, 1000), [file_of(number, 10) for number in range(1, 9)]
    assert groups_to_compact([head, *small], files_min=8) == [tuple(small)]
    grown = [file_of(number, 200) for number in range(1, 9)]
    assert groups_to_compact([head, *grown], files_min=8) == [(head, *grown)]


@given(st.lists(st.integers(1, 10), min_size=1, max_size=300))
def test_each_record_is_copied_a_logarithmic_number_of_times(sizes: list[int]) -> None:
    """Files come one after another, as with --follow."""
    files: list[DataFile] = []
    copied = 0
    for number, size_bytes in enumerate(sizes):
        files.append(file_of(number, size_bytes))
        for group in groups_to_compact(files, files_min=4):
            copied += sum(file.size_bytes for file in group)
            merged = group[0]._replace(last_offset=group[-1].last_offset, size_bytes=sum(f.size_bytes for f in group))
            files = sorted([*(file for file in files if file not in group), merged], key=lambda f: f.first_offset)
    assert copied <= sum(sizes) * (2 + sum(sizes).bit_length())
    assert len(files) <= 4 * (1 + sum(sizes).bit_length())
