from __future__ import annotations

import errno
from pathlib import Path

import pytest
from at_once import delete_old_segments, offset_for_timestamp
from storage_batches import NOW_MS, OpenLog, all_values, append

from minikafka.errors import ErrorCode, KafkaError
from minikafka.storage.disk import OsDisk
from minikafka.storage.log import Log
from minikafka.storage.retention import RetentionClock

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
    assert delete_old_segments(daily, 6, NOW_MS + 3 * DAY_MS) == 0
    assert delete_old_segments(daily, 6, NOW_MS + 5 * DAY_MS) == 2
    assert daily.log_start_offset == 2
    assert list(all_values(daily)) == [2, 3, 4, 5]
    assert delete_old_segments(daily, 6, NOW_MS + 5 * DAY_MS) == 0


def test_many_segments_go_in_portions(open_log: OpenLog) -> None:
    """2,000 at once took 0.4 s of the loop."""
    log = open_log(segment_bytes=300)
    for _ in range(60):
        append(log, b"x" * 200)
    configure(log, retention_bytes=0)
    before = len(log.segments)
    deleted = []
    while (job := log.prepare_deletion(log.log_end_offset, NOW_MS)) is not None:
        job.run()
        deleted.append(log.complete_deletion(job))
    assert before == 60
    assert deleted == [25, 25, 10]
    assert log.log_start_offset == log.log_end_offset


@pytest.mark.spec("P3")
@pytest.mark.parametrize("was_killed", [False, True])
def test_producers_go_on_whose_last_batches_went(open_log: OpenLog, *, was_killed: bool) -> None:
    """Finding: not each roll writes a snapshot, and after a restart an older one refused what they sent next."""
    settings = {"segment_bytes": 300, "retention_ms": DAY_MS}
    log, sequences = open_log(**settings), dict.fromkeys(range(20), 0)
    for producer_id in [*range(20), *range(20), *range(6)]:
        append(log, b"x" * 60, producer=(producer_id, 0, sequences[producer_id]))
        sequences[producer_id] += 1
    assert max(log.snapshots.offsets()) < log.active_base_offset, "no roll was without a snapshot"
    assert delete_old_segments(log, log.log_end_offset, NOW_MS + 2 * DAY_MS) == 23
    end = log.log_end_offset
    if not was_killed:
        log.close()
    again = open_log(clean=not was_killed, was_killed=was_killed, recovery_point=end, log_start_offset=end, **settings)
    for producer_id, sequence in sequences.items():
        append(again, b"y", producer=(producer_id, 0, sequence))


def test_what_goes_may_be_damaged(open_log: OpenLog) -> None:
    """Then what is known of the producers is that of an older snapshot, or nothing."""
    log = open_log(segment_bytes=300, retention_ms=DAY_MS)
    for sequence in range(9):
        append(log, b"x" * 60, producer=(7, 0, sequence))
    log.snapshots.remove(below=log.log_end_offset)
    Path(log.segments[0].path(".log")).write_bytes(b"?" * log.segments[0].size)
    assert delete_old_segments(log, log.log_end_offset, NOW_MS + 2 * DAY_MS) == 5
    assert log.snapshots.offsets() in ([], [log.log_end_offset])


def test_nothing_at_or_above_the_high_watermark_goes(daily: Log) -> None:
    assert delete_old_segments(daily, 1, NOW_MS + 100 * DAY_MS) == 1
    assert daily.log_start_offset == 1


def test_the_active_segment_goes_when_all_of_it_is_old(daily: Log) -> None:
    assert delete_old_segments(daily, 5, NOW_MS + 100 * DAY_MS) == 5, "its end is not committed"
    assert delete_old_segments(daily, 6, NOW_MS + 100 * DAY_MS) == 1
    assert (daily.log_start_offset, daily.log_end_offset, daily.size_in_bytes) == (6, 6, 0)
    assert delete_old_segments(daily, 6, NOW_MS + 100 * DAY_MS) == 0
    append(daily, b"6", timestamp=NOW_MS + 100 * DAY_MS)
    assert all_values(daily) == {6: b"6"}


def test_an_emptied_segment_goes_and_holds_nothing_back(daily: Log) -> None:
    for at in (0, 1):
        with open(daily.segments[at].path(".log"), "wb"):
            daily.segments[at].size = 0
    assert delete_old_segments(daily, 6, NOW_MS) == 2
    assert delete_old_segments(daily, 6, NOW_MS + 5 * DAY_MS + 1) == 1


def test_a_segment_without_times_is_as_old_as_the_next_with_one(open_log: OpenLog) -> None:
    log = open_log(retention_ms=DAY_MS)
    for timestamp in (-1, -1, NOW_MS, -1, NOW_MS + 5 * DAY_MS):
        append(log, b"x", timestamp=timestamp)
        log.roll()
    assert delete_old_segments(log, 5, NOW_MS) == 0
    assert delete_old_segments(log, 5, NOW_MS + 2 * DAY_MS) == 3
    assert delete_old_segments(log, 5, NOW_MS + 7 * DAY_MS) == 2


def test_a_wall_clock_that_jumps_ahead_is_followed_slowly() -> None:
    clock = RetentionClock()
    assert clock.read(NOW_MS, 0) == NOW_MS
    assert clock.read(NOW_MS + 1000, 1000) == NOW_MS + 1000
    year = NOW_MS + 365 * DAY_MS
    assert clock.read(year, 2000) == NOW_MS + 3000
    assert clock.read(year, 62_000) == NOW_MS + 123_000
    assert clock.read(NOW_MS + 63_000, 63_000) == NOW_MS + 63_000, "the clock was set right"
    assert clock.read(0, 64_000) == 0


def test_damage_met_by_retention_marks_the_replica(daily: Log, open_log: OpenLog) -> None:
    daily.close()
    log = open_log(retention_ms=3 * DAY_MS)
    for kind in (".log", ".timeindex"):
        path = Path(log.segments[0].path(kind))
        path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(KafkaError) as caught:
        delete_old_segments(log, 6, NOW_MS + 5 * DAY_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.corruption is not None
    assert not log.is_offline


def test_an_index_that_cannot_be_read_is_made_again(
    daily: Log, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    daily.close()
    log = open_log(retention_ms=3 * DAY_MS)

    def fail(_disk: OsDisk, path: str) -> bytes:
        raise OSError(errno.EIO, "gone", path)

    monkeypatch.setattr(OsDisk, "read_bytes", fail)
    assert delete_old_segments(log, 6, NOW_MS + 5 * DAY_MS) == 2
    assert offset_for_timestamp(log, NOW_MS + 3 * DAY_MS) == (NOW_MS + 3 * DAY_MS, 3, 0)
    assert log.corruption is None


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_shortage_is_not_taken_for_damage(
    daily: Log, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    daily.close()
    log = open_log(retention_ms=3 * DAY_MS)

    def fail(_disk: OsDisk, path: str, _data: object = None) -> bytes:
        raise OSError(error, "short of something", path)

    with monkeypatch.context() as short:
        for name in ("read_bytes", "open_read", "write_bytes", "open_append"):
            short.setattr(OsDisk, name, fail)
        for act in (lambda: delete_old_segments(log, 6, NOW_MS + 5 * DAY_MS), lambda: log.read(0, 100), log.roll):
            with pytest.raises(KafkaError) as caught:
                act()
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        short.setattr(OsDisk, "fsync_path", fail)
        flush = log.prepare_flush()
        cut = log.prepare_truncation(3)
        assert cut is not None
        cut.run()
        assert cut.must_repeat
        flush.run()
    assert (log.corruption, log.failure) == (None, None)
    cut.run()
    assert not cut.must_repeat
    log.complete_cut(cut)
    append(log, b"new", leader_epoch=1)
    assert list(all_values(log)) == [0, 1, 2, 3]
    log.roll()
    log.flush()


def test_a_clock_that_jumps_back_deletes_nothing(daily: Log) -> None:
    assert delete_old_segments(daily, 6, 0) == 0


def test_a_newer_segment_does_not_go_before_an_older_one(open_log: OpenLog) -> None:
    log = open_log(retention_ms=DAY_MS)
    for timestamp in (NOW_MS + 10 * DAY_MS, NOW_MS, NOW_MS):
        append(log, b"x", timestamp=timestamp)
        log.roll()
    assert delete_old_segments(log, 3, NOW_MS + 5 * DAY_MS) == 0


def test_the_log_is_kept_at_least_as_large_as_asked_for(daily: Log) -> None:
    size = daily.segments[0].size
    configure(daily, retention_ms=-1, retention_bytes=3 * size)
    assert delete_old_segments(daily, 6, NOW_MS) == 3
    assert daily.size_in_bytes == 3 * size
    configure(daily, retention_ms=-1, retention_bytes=2 * size + 1)
    assert delete_old_segments(daily, 6, NOW_MS) == 0
    configure(daily, retention_ms=-1, retention_bytes=0)
    assert delete_old_segments(daily, 6, NOW_MS) == 3
    assert daily.log_start_offset == 6


def test_what_lies_below_the_log_start_goes_whatever_the_policy(daily: Log) -> None:
    configure(daily, cleanup_policy=frozenset({"compact"}), retention_ms=1)
    assert delete_old_segments(daily, 6, NOW_MS + 100 * DAY_MS) == 0
    daily.maybe_increment_log_start_offset(3)
    assert delete_old_segments(daily, 6, NOW_MS + 100 * DAY_MS) == 3
    assert daily.log_start_offset == 3


def test_a_log_without_a_policy_keeps_everything(daily: Log) -> None:
    configure(daily, cleanup_policy=frozenset(), retention_ms=1, retention_bytes=1)
    assert delete_old_segments(daily, 6, NOW_MS + 100 * DAY_MS) == 0
    assert not daily.config.is_compacted


def test_no_limits_keep_everything(daily: Log) -> None:
    configure(daily, retention_ms=-1)
    assert delete_old_segments(daily, 6, NOW_MS + 10_000 * DAY_MS) == 0


@pytest.mark.parametrize("clean", [True, False])
def test_deletion_survives_a_restart(daily: Log, open_log: OpenLog, clean: bool) -> None:
    delete_old_segments(daily, 6, NOW_MS + 5 * DAY_MS)
    if clean:
        daily.close()
    log = open_log(clean=clean)
    assert (log.log_start_offset, log.log_end_offset) == (2, 6)
    assert log.corruption is None
