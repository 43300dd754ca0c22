"""How far a micro-batch goes."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.source.limits import Patience, available, capped

sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=10)


def logs(found: list[int]) -> tuple[dict[TopicPartition, OffsetAndEpoch], dict[TopicPartition, OffsetAndEpoch]]:
    begins = {TopicPartition("a", index): OffsetAndEpoch(100 * index, 1) for index in range(len(found))}
    ends = {tp: OffsetAndEpoch(begins[tp].offset + size, 2) for tp, size in zip(begins, found, strict=True)}
    return begins, ends


@given(sizes, st.integers(1, 30_000))
def test_shares_are_in_proportion(found: list[int], offsets_max: int) -> None:
    begins, ends = logs(found)
    chosen = capped(begins, ends, offsets_max)
    total = sum(found)
    for tp, size in zip(begins, found, strict=True):
        taken = chosen[tp].offset - begins[tp].offset
        if total <= offsets_max:
            assert taken == size
            continue
        fair = Fraction(offsets_max * size, total)  # the naive twin
        assert 0 <= taken <= size
        assert taken == (0 if size == 0 else 1 if fair < 1 else int(fair))
    assert available(begins, chosen) <= offsets_max + len(found)


def test_what_gets_nothing_keeps_its_epoch() -> None:
    begins, ends = logs([0, 5])
    chosen = capped(begins, ends, None)
    assert chosen[TopicPartition("a", 0)] == (0, 1)
    assert chosen[TopicPartition("a", 1)] == (105, 2)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=6), st.integers(1, 300))
def test_everything_is_read_in_the_end(found: list[int], offsets_max: int) -> None:
    begins, ends = logs(found)
    for _ in range(sum(found) + 1):
        if not available(begins, ends):
            return
        begins = dict(capped(begins, ends, offsets_max))
    raise AssertionError("a batch took nothing")


def test_patience_waits_for_enough_or_for_long_enough() -> None:
    patience = Patience(100, 1_000)
    assert patience.is_worth_it(1, 50_000), "the first does not wait"
    assert not patience.is_worth_it(99, 50_999)
    assert patience.is_worth_it(100, 50_999)
    assert not patience.is_worth_it(0, 51_998)
    assert patience.is_worth_it(0, 51_999)
    assert Patience(None, 0).is_worth_it(0, 0)
