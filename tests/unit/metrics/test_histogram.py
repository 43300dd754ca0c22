from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metrics.histogram import Histogram

BOUNDS = (1.0, 2.0, 5.0)


@given(st.lists(st.floats(0, 10)))
def test_it_counts_as_one_counts_by_hand(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.note(value)
    by_hand = [(f"{bound:g}", sum(value <= bound for value in values)) for bound in BOUNDS]
    assert list(histogram.cumulative()) == [*by_hand, ("+Inf", len(values))]
    assert histogram.count == len(values)
    assert histogram.total == pytest.approx(sum(values))


def test_bounds_ascend() -> None:
    with pytest.raises(AssertionError, match="do not ascend"):
        Histogram((2.0, 1.0))


def test_values_that_are_alike_are_noted_at_once() -> None:
    one_by_one, at_once = Histogram((1, 5)), Histogram((1, 5))
    for value in (3, 3, 7):
        one_by_one.note(value)
    at_once.note(3, 2)
    at_once.note(7)
    assert (at_once.counts, at_once.total) == (one_by_one.counts, one_by_one.total)
