from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from at_once import delete_old_segments, offset_for_timestamp
from storage_batches import NOW_MS, OpenLog, all_values, append

from minikafka.storage.disk import DiskSpace, OsDisk, OsFile
from minikafka.storage.log import StorageFailure


def test_a_flush_moves_the_recovery_point_to_the_end_it_was_prepared_for(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a")
    job = log.prepare_flush()
    append(log, b"b")
    thread = threading.Thread(target=job.run)
    thread.start()
    thread.join()
    assert log.recovery_point == 0
    log.complete_flush(job)
    assert log.recovery_point == 1
    log.flush()
    assert log.recovery_point == 2


def test_overlapping_flushes_never_move_it_back(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a")
    first = log.prepare_flush()
    append(log, b"b")
    second = log.prepare_flush()
    second.run()
    first.run()
    log.complete_flush(second)
    log.complete_flush(first)
    assert log.recovery_point == 2


def test_a_flush_that_the_log_was_cut_under_moves_nothing(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a")
    append(log, b"b")
    job = log.prepare_flush()
    job.run()
    log.truncate_to(1)
    append(log, b"c")
    log.complete_flush(job)
    assert log.recovery_point == 0


def test_a_failed_fsync_is_final(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log()
    append(log, b"a")
    job = log.prepare_flush()

    def fail(_file: OsFile) -> None:
        raise OSError(errno.EIO, "gone")

    with monkeypatch.context() as patch:
        patch.setattr(OsFile, "fsync", fail)
        job.run()
    with pytest.raises(StorageFailure, match="flush"):
        log.complete_flush(job)
    assert log.is_offline
    with pytest.raises(StorageFailure):
        log.flush()
    assert log.recovery_point == 0


def test_a_segment_deleted_under_a_flush_does_not_fail_it(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=250)
    for at in range(9):
        append(log, b"%d" % at * 30)
    job = log.prepare_flush()
    log.maybe_increment_log_start_offset(9)
    assert delete_old_segments(log, 9, NOW_MS) > 0
    job.run()
    log.complete_flush(job)
    assert log.recovery_point == 9


def test_a_flush_is_due_when_a_segment_was_rolled_or_a_setting_asks_for_it(open_log: OpenLog) -> None:
    log = open_log(flush_messages=2, flush_ms=1000)
    assert not log.flush_due(NOW_MS)
    job = log.prepare_flush()
    job.run()
    log.complete_flush(job, now_ms=NOW_MS)
    append(log, b"a")
    assert not log.flush_due(NOW_MS + 999)
    assert log.flush_due(NOW_MS + 1000)
    append(log, b"b")
    assert log.flush_due(NOW_MS)
    log.flush()
    assert not log.flush_due(NOW_MS + 1000)
    append(log, b"c")
    log.roll()
    assert log.flush_due(NOW_MS)


def test_everything_below_the_recovery_point_is_on_disk(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = open_log(segment_bytes=250)
    for at in range(9):
        append(log, b"%d" % at * 30, leader_epoch=at // 4)
    log.flush()
    names = disk.listdir(directory)
    for segment in log.segments.closed:
        assert f"{segment.base_offset:020d}.index" in names
        assert f"{segment.base_offset:020d}.timeindex" in names
    assert disk.read_bytes(f"{directory}/leader-epoch-checkpoint") == b"0\n3\n0 0\n1 4\n2 8\ncrc32c 52e5be4a\n"


def test_a_roll_neither_syncs_nor_writes_indexes(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log()
    append(log, b"a")
    log.flush()
    written: list[str] = []
    write_bytes = OsDisk.write_bytes

    def write(disk: OsDisk, path: str, data: bytes) -> None:
        written.append(path.rpartition(".")[2])
        write_bytes(disk, path, data)

    with monkeypatch.context() as patch:
        patch.setattr(OsDisk, "write_bytes", write)
        patch.setattr(OsDisk, "fsync_path", lambda *_: pytest.fail("a sync on the loop"))
        log.roll()
        append(log, b"b")
        assert written == ["snapshot"]
        assert offset_for_timestamp(log, NOW_MS) == (NOW_MS, 0, 0)
    assert log.flush_due(NOW_MS)
    log.flush()
    assert {path.rpartition(".")[2] for path in log.disk.listdir(log.directory)} >= {"index", "timeindex"}
    assert not log.flush_due(NOW_MS)


def room_of(path: str) -> int:
    return os.stat(path).st_blocks * 512


@pytest.fixture
def _can_reserve(disk: OsDisk, tmp_path: Path) -> None:
    path = tmp_path / "probe"
    path.touch()
    disk.reserve(str(path), 1 << 20)
    if not room_of(str(path)):
        pytest.skip("the file system takes no room in advance")


@pytest.mark.usefixtures("_can_reserve")
def test_a_segment_has_its_room_from_its_beginning_and_keeps_what_it_needs(open_log: OpenLog, directory: str) -> None:
    log = open_log(preallocate=True, segment_bytes=1 << 20)
    first, second = (f"{directory}/{offset:020}.log" for offset in (0, 1))
    assert log.flush_due(NOW_MS)
    log.flush()
    assert not log.flush_due(NOW_MS)
    append(log, b"a")
    assert (room_of(first), os.path.getsize(first)) == (1 << 20, log.size_in_bytes)
    log.roll()
    log.flush()
    assert room_of(first) < 1 << 16
    assert (room_of(second), os.path.getsize(second)) == (1 << 20, 0)
    append(log, b"b")
    log.close()
    assert room_of(second) < 1 << 16
    again = open_log(preallocate=True, segment_bytes=1 << 20)
    assert all_values(again) == {0: b"a", 1: b"b"}
    again.close()
    assert room_of(second) < 1 << 16


@pytest.mark.usefixtures("_can_reserve")
def test_room_of_a_log_that_was_killed_is_given_back(open_log: OpenLog, directory: str) -> None:
    log = open_log(preallocate=True, segment_bytes=1 << 20)
    append(log, b"a")
    log.flush()
    log.roll()
    again = open_log(clean=False, was_killed=True)
    assert all_values(again) == {0: b"a"}
    again.flush()
    assert room_of(f"{directory}/{0:020}.log") < 1 << 16


def test_nobody_takes_the_room_that_others_need(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.touch()
    monkeypatch.setattr(OsDisk, "space", lambda _disk, _path: DiskSpace(total=1 << 30, usable=(10 << 20) - 1))
    disk.reserve(str(path), 1 << 20)
    assert room_of(str(path)) == 0
    disk.reserve(str(tmp_path / "gone"), 1)  # by retention, meanwhile
    disk.give_back(str(tmp_path / "gone"))
