"""Rates over a sliding window, and how long they stay above a bound."""

from __future__ import annotations

import pytest

from minikafka.timing import WindowedRate


def test_nothing_waits_for_nothing() -> None:
    assert WindowedRate().wait_ms(1, 0) == 0


def test_the_wait_ends_when_the_rate_has_fallen_to_the_bound() -> None:
    rate = WindowedRate()
    rate.record(5000, 0)
    assert rate.wait_ms(1000, 0) == 5000
    assert rate.wait_ms(1000, 4000) == 1000
    assert rate.wait_ms(1000, 5000) == 0
    assert rate.wait_ms(2000, 2400) == pytest.approx(100)


def test_nobody_waits_for_what_will_be_forgotten() -> None:
    rate = WindowedRate(window_count=3, window_ms=100)
    rate.record(1 << 30, 0)
    assert rate.wait_ms(1, 0) == 300
    assert rate.wait_ms(1, 300) == 0


@pytest.mark.parametrize("chunk", [100, 10_000, 40_000])
def test_whoever_waits_as_told_gets_the_bound(chunk: int) -> None:
    rate, sent, now_ms = WindowedRate(), 0, 0.0
    while now_ms < 60_000:
        rate.record(chunk, round(now_ms))
        sent += chunk
        now_ms += max(1.0, rate.wait_ms(10_000, round(now_ms)))
    assert sent == pytest.approx(600_000, rel=0.05)
