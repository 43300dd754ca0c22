from __future__ import annotations

import pytest

from minikafka.replication.quota import UNLIMITED, ReplicationQuota

pytestmark = pytest.mark.spec("R7")


def test_without_a_bound_nothing_exceeds_it() -> None:
    quota = ReplicationQuota()
    quota.record(1 << 50, 0)
    assert not quota.is_exceeded(0)
    assert not quota.is_limited


def test_more_than_the_bound_in_one_window_exceeds_it() -> None:
    quota = ReplicationQuota(rate=1000)
    quota.record(1000, 0)
    assert not quota.is_exceeded(0)
    quota.record(1, 0)
    assert quota.is_exceeded(999)


def test_the_rate_falls_as_time_passes() -> None:
    quota = ReplicationQuota(rate=1000)
    quota.record(5000, 0)
    assert quota.is_exceeded(4999)
    assert not quota.is_exceeded(5000)


def test_old_windows_are_forgotten() -> None:
    quota = ReplicationQuota(rate=1, window_count=3, window_ms=100)
    quota.record(1 << 30, 0)
    assert quota.is_exceeded(299)
    assert not quota.is_exceeded(300)


def test_memory_is_bounded() -> None:
    quota = ReplicationQuota(rate=1)
    for now_ms in range(0, 1_000_000, 10):
        quota.record(1, now_ms)
    assert len(quota._samples) <= 12


def test_a_bound_may_change_at_any_time() -> None:
    quota = ReplicationQuota()
    quota.record(10_000, 0)
    quota.rate = 100
    assert quota.is_exceeded(50_00)
    quota.rate = UNLIMITED
    assert not quota.is_exceeded(50_00)


@pytest.mark.parametrize("chunk", [100, 1_000, 30_000])
def test_whoever_waits_while_it_is_exceeded_keeps_the_rate(chunk: int) -> None:
    """A sender that sends whenever it may gets the bound, whatever the size of what it sends."""
    quota, sent, seconds = ReplicationQuota(rate=10_000), 0, 60
    for now_ms in range(0, seconds * 1000, 10):
        if not quota.is_exceeded(now_ms):
            quota.record(chunk, now_ms)
            sent += chunk
    assert sent == pytest.approx(10_000 * seconds, rel=0.25)
