"""Slots of time and bins of sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikafka.spark.pipelines.report.measures import Bin, Measures, PartitionReport, Slots, size_edges, trimmed

A_TIME = st.integers(min_value=0, max_value=4_102_444_800_000)


@given(A_TIME, A_TIME, st.integers(min_value=1, max_value=200))
def test_slots_cover_their_range_and_are_not_too_many(one: int, other: int, count_max: int) -> None:
    first_ms, last_ms = sorted((one, other))
    slots = Slots.over(first_ms, last_ms, count_max)
    assert slots.count <= count_max
    assert slots.begin_ms(0) <= first_ms
    assert last_ms < slots.begin_ms(slots.count)
    assert slots.begin_ms(slots.count - 1) <= last_ms or slots.step_ms == 1 or slots.count == count_max


def test_slots_have_usual_lengths() -> None:
    assert Slots.over(0, 3_600_000, 120) == Slots(0, 60_000, 61)
    assert Slots.over(1_700_000_000_123, 1_700_000_000_123, 120) == Slots(1_700_000_000_123, 1, 1)


@given(st.integers(min_value=0, max_value=1 << 40))
def test_every_size_has_a_bin(size: int) -> None:
    edges = size_edges(size)
    assert edges == sorted(set(edges))
    assert edges[0] <= size < edges[-1]


def test_bins_grow_by_halves() -> None:
    assert size_edges(30) == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32]


def test_empty_bins_at_the_ends_are_left_out() -> None:
    bins = [Bin(0, 1, 0), Bin(1, 2, 3), Bin(2, 3, 0), Bin(3, 4, 1), Bin(4, 6, 0)]
    assert trimmed(bins) == tuple(bins[1:4])
    assert trimmed(bins[:1]) == ()


def test_gaps_are_offsets_without_records() -> None:
    assert PartitionReport(0, 10, 30, Measures(records=15)).gaps == 5
