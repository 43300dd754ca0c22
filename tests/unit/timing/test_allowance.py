"""A bound that holds in the long run."""

from __future__ import annotations

import heapq

import pytest

from minikafka.timing import Allowance


def test_what_is_within_the_bound_waits_for_nothing() -> None:
    allowance = Allowance(1000)
    assert [allowance.spend(100, 1000, now_ms) for now_ms in range(0, 10_000, 100)] == [0.0] * 100


def test_debt_goes_down_at_the_bound() -> None:
    allowance = Allowance(1000)
    assert allowance.spend(5000, 1000, 0) == 4000
    assert allowance.spend(0, 1000, 3000) == 1000
    assert allowance.spend(500, 1000, 3000) == 1500
    assert allowance.spend(0, 1000, 5000) == 0


def test_no_more_than_a_window_of_an_idle_time_is_made_up_for() -> None:
    allowance = Allowance(1000)
    assert allowance.spend(1000, 1000, 60_000) == 0
    assert allowance.spend(1, 1000, 60_000) == 1


def test_nobody_waits_longer_than_an_hour() -> None:
    allowance = Allowance(1000)
    assert allowance.spend(1, 1e-300, 0) == 3_600_000
    assert allowance.spend(1, 1e300, 3_600_000) == 0


@pytest.mark.parametrize(
    ("clients", "size", "bound"),
    [
        (1, 1_000_000, 10_000),
        (20, 1_000_000, 1_000_000),
        (100, 1_000_000, 1_000_000),
        (100, 10_000, 10_000),
        (1, 16, 9),
    ],
)
def test_whoever_waits_as_told_gets_the_bound(clients: int, size: int, bound: int) -> None:
    """Large requests and many connections got up to ten times as much when what was spent was forgotten."""
    allowance, spent, seconds = Allowance(1000), 0, 600
    due = [(0.0, client) for client in range(clients)]
    while due[0][0] < seconds * 1000:
        at_ms, client = heapq.heappop(due)
        spent += size
        heapq.heappush(due, (at_ms + max(1.0, allowance.spend(size, bound, round(at_ms))), client))
    assert spent <= bound * (seconds + 1) + clients * size
    assert spent >= bound * seconds * 0.98
