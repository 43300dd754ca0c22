from __future__ import annotations

import pytest
from storage_batches import NOW_MS, OpenLog, all_values, append

from minikafka.storage.log import Log

DAY_MS = 24 * 3600 * 1000
NEVER = {"retention_ms": -1}


@pytest.fixture
def daily(open_log: OpenLog) -> Log:
    """Five segments of one batch each, a day apart, the last one active; equal in size."""
    log = open_log(retention_ms=3 * DAY_MS)
    for day in range(5):
        append(log, b"%d" % day, timestamp=NOW_MS + day * DAY_MS)
        log.roll()
    append(log, b"5", timestamp=NOW_MS + 5 * DAY_MS)
    return log


def configure(log: Log, **settings: object) -> None:
    log.config = type(log.config)(**settings)  # type: ignore[arg-type]


def test_segments_older_than_the_retention_go(daily: Log) -> None:
    assert daily.delete_old_segments(6, NOW_MS + 3 * DAY_MS) == 0
    assert daily.delete_old_segments(6, NOW_MS + 5 * DAY_MS) == 2
    assert daily.log_start_offset == 2
    assert list(all_values(daily)) == [2, 3, 4, 5]
    assert daily.delete_old_segments(6, NOW_MS + 5 * DAY_MS) == 0


def test_nothing_at_or_above_the_high_watermark_goes(daily: Log) -> None:
    assert daily.delete_old_segments(1, NOW_MS + 100 * DAY_MS) == 1
    assert daily.log_start_offset == 1


def test_a_clock_that_jumps_ahead_leaves_the_active_segment(daily: Log) -> None:
    assert daily.delete_old_segments(6, NOW_MS + 10_000 * DAY_MS) == 5
    assert all_values(daily) == {5: b"5"}


def test_a_clock_that_jumps_back_deletes_nothing(daily: Log) -> None:
    assert daily.delete_old_segments(6, 0) == 0


def test_a_newer_segment_does_not_go_before_an_older_one(open_log: OpenLog) -> None:
    log = open_log(retention_ms=DAY_MS)
    for timestamp in (NOW_MS + 10 * DAY_MS, NOW_MS, NOW_MS):
        append(log, b"x", timestamp=timestamp)
        log.roll()
    assert log.delete_old_segments(3, NOW_MS + 5 * DAY_MS) == 0


def test_the_log_is_kept_at_least_as_large_as_asked_for(daily: Log) -> None:
    size = daily.segments[0].size
    configure(daily, retention_ms=-1, retention_bytes=3 * size)
    assert daily.delete_old_segments(6, NOW_MS) == 3
    assert daily.size_in_bytes == 3 * size
    configure(daily, retention_ms=-1, retention_bytes=2 * size + 1)
    assert daily.delete_old_segments(6, NOW_MS) == 0
    configure(daily, retention_ms=-1, retention_bytes=0)
    assert daily.delete_old_segments(6, NOW_MS) == 2


def test_what_lies_below_the_log_start_goes_whatever_the_policy(daily: Log) -> None:
    configure(daily, cleanup_policy=frozenset({"compact"}), retention_ms=1)
    assert daily.delete_old_segments(6, NOW_MS + 100 * DAY_MS) == 0
    daily.maybe_increment_log_start_offset(3)
    assert daily.delete_old_segments(6, NOW_MS + 100 * DAY_MS) == 3
    assert daily.log_start_offset == 3


def test_no_limits_keep_everything(daily: Log) -> None:
    configure(daily, retention_ms=-1)
    assert daily.delete_old_segments(6, NOW_MS + 10_000 * DAY_MS) == 0


@pytest.mark.parametrize("clean", [True, False])
def test_deletion_survives_a_restart(daily: Log, open_log: OpenLog, clean: bool) -> None:
    daily.delete_old_segments(6, NOW_MS + 5 * DAY_MS)
    if clean:
        daily.close()
    log = open_log(clean=clean)
    assert (log.log_start_offset, log.log_end_offset) == (2, 6)
    assert log.corruption is None
