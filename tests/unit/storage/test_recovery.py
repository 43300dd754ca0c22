from __future__ import annotations

import os

import pytest
from at_once import delete_old_segments
from captured_logs import capture_logs
from storage_batches import NOW_MS, OpenLog, all_values, append, batch, read_all

from minikafka.records.batch import iter_batches
from minikafka.storage.disk import OsDisk
from minikafka.storage.log import Log


def log_path(directory: str, base: int = 0) -> str:
    return f"{directory}/{base:020d}.log"


@pytest.fixture
def written(open_log: OpenLog, disk: OsDisk, directory: str) -> bytes:
    """Four batches in one segment, as a killed process leaves them."""
    log = open_log()
    for at in range(4):
        append(log, b"%d" % at * 20, leader_epoch=at // 2)
    return disk.read_bytes(log_path(directory))


def ends(data: bytes) -> list[int]:
    return [position + header.size_in_bytes for position, header in iter_batches(data)]


@pytest.mark.spec("P1")
def test_a_torn_tail_is_cut_at_every_byte(open_log: OpenLog, disk: OsDisk, directory: str, written: bytes) -> None:
    for size in range(len(written) + 1):
        disk.write_bytes(log_path(directory), written[:size])
        log = open_log(clean=False)
        whole = [end for end in ends(written) if end <= size]
        assert log.corruption is None
        assert log.log_end_offset == len(whole)
        assert disk.size(log_path(directory)) == (whole[-1] if whole else 0)
        assert append(log, b"after", leader_epoch=5).base_offset == len(whole)


@pytest.mark.spec("P1")
@pytest.mark.parametrize("tail", [bytes(600), b"\xff" * 600, os.urandom(600)], ids=["zeros", "ones", "random"])
def test_a_tail_of_garbage_is_cut(open_log: OpenLog, disk: OsDisk, directory: str, written: bytes, tail: bytes) -> None:
    disk.write_bytes(log_path(directory), written + tail)
    log = open_log(clean=False)
    assert log.corruption is None
    assert read_all(log) == written


@pytest.mark.spec("P5")
def test_damage_with_valid_batches_behind_is_corruption(
    open_log: OpenLog, disk: OsDisk, directory: str, written: bytes
) -> None:
    first, second = ends(written)[:2]
    for at in [*range(first + 8, first + 12), *range(first + 16, second, 7)]:
        damaged = bytearray(written)
        damaged[at] ^= 0x10
        disk.write_bytes(log_path(directory), damaged)
        log = open_log(clean=False)
        assert log.corruption is not None, at
        assert log.corruption.offset == log.log_end_offset == 1
        assert log.corruption.kept_aside is not None
        assert disk.read_bytes(log.corruption.kept_aside) == bytes(damaged[first:])
        assert read_all(log) == written[:first]
        log.refetched()


@pytest.mark.spec("P5")
def test_damage_of_the_last_batch_is_corruption_only_below_the_recovery_point(
    open_log: OpenLog, disk: OsDisk, directory: str, written: bytes
) -> None:
    damaged = bytearray(written)
    damaged[-1] ^= 1
    disk.write_bytes(log_path(directory), damaged)
    torn = open_log(clean=False, recovery_point=3)
    assert torn.corruption is None
    assert torn.log_end_offset == 3
    disk.write_bytes(log_path(directory), damaged)
    corrupt = open_log(clean=False, recovery_point=4)
    assert corrupt.corruption is not None
    assert corrupt.log_end_offset == 3
    assert corrupt.recovery_point == 3


@pytest.mark.spec("P5")
def test_durable_records_that_are_missing_are_corruption(
    open_log: OpenLog, disk: OsDisk, directory: str, written: bytes
) -> None:
    disk.write_bytes(log_path(directory), written[: ends(written)[1]])
    log = open_log(clean=False, recovery_point=4)
    assert log.corruption is not None
    assert "missing" in log.corruption.why


@pytest.mark.spec("P5")
def test_the_mark_stays_over_restarts_until_the_replica_was_fetched_again(
    open_log: OpenLog, disk: OsDisk, directory: str, written: bytes
) -> None:
    damaged = bytearray(written)
    damaged[100] ^= 1
    disk.write_bytes(log_path(directory), damaged)
    open_log(clean=False).close()
    log = open_log()
    assert log.corruption is not None
    log.refetched()
    log.close()
    assert open_log().corruption is None


def test_damage_in_an_earlier_segment_keeps_the_later_ones_aside(
    open_log: OpenLog, disk: OsDisk, directory: str
) -> None:
    log = open_log(segment_bytes=250)
    for at in range(9):
        append(log, b"%d" % at * 30)
    bases = [segment.base_offset for segment in log.segments]
    path = log_path(directory, bases[1])
    data = bytearray(disk.read_bytes(path))
    data[-1] ^= 1
    disk.write_bytes(path, data)
    log = open_log(clean=False, segment_bytes=250)
    assert log.corruption is not None
    assert log.corruption.path == path
    assert [segment.base_offset for segment in log.segments] == bases[:2]
    assert log.log_end_offset == bases[2] - 1
    assert sorted(name for name in disk.listdir(directory) if "corrupt" in name) == [
        f"{base:020d}.log.corrupt" for base in bases[1:]
    ]


def test_a_segment_that_is_gone_is_corruption(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = open_log(segment_bytes=250)
    for at in range(9):
        append(log, b"%d" % at * 30)
    bases = [segment.base_offset for segment in log.segments]
    disk.unlink(log_path(directory, bases[2]))
    log = open_log(clean=False, segment_bytes=250)
    assert log.corruption is not None
    assert log.log_end_offset == bases[2]


@pytest.mark.parametrize("recovery_point", [0, 9])
def test_a_compacted_log_may_have_gaps_between_durable_segments(
    open_log: OpenLog, disk: OsDisk, directory: str, recovery_point: int
) -> None:
    compact = frozenset({"compact"})
    log = open_log(segment_bytes=250, cleanup_policy=compact)
    for at in range(9):
        append(log, b"%d" % at * 30)
    bases = [segment.base_offset for segment in log.segments]
    if recovery_point:  # as the cleaner finds them, and goes about it
        log.flush()
        log.segment_list.remove([bases[2]])
    for kind in (".log", ".index", ".timeindex"):
        disk.unlink(f"{directory}/{bases[2]:020d}{kind}")
    log = open_log(clean=False, segment_bytes=250, cleanup_policy=compact, recovery_point=recovery_point)
    if recovery_point:
        assert log.corruption is None
        assert log.log_end_offset == 9
    else:
        assert log.corruption is not None, "the cleaner rewrites what is durable only: this is a loss"
        assert log.log_end_offset == bases[2]


def test_only_segments_from_the_recovery_point_on_are_verified(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = open_log(segment_bytes=250)
    for at in range(9):
        append(log, b"%d" % at * 30)
    bases = [segment.base_offset for segment in log.segments]
    log.flush()
    data = bytearray(disk.read_bytes(log_path(directory)))
    data[100] ^= 1
    disk.write_bytes(log_path(directory), data)
    log = open_log(clean=False, recovery_point=bases[1] + 1, segment_bytes=250)
    assert log.corruption is None
    assert log.log_end_offset == 9


@pytest.mark.spec("E1")
@pytest.mark.parametrize("recovery_point", [0, 2, 4, 5, 7])
def test_epochs_above_the_recovery_point_are_found_in_the_batches(
    open_log: OpenLog, disk: OsDisk, directory: str, recovery_point: int
) -> None:
    log = open_log(segment_bytes=250)
    for at in range(9):
        append(log, b"%d" % at * 30, leader_epoch=at // 3)
        if at + 1 == recovery_point:
            log.flush()
    expected = log.epoch_entries
    assert expected == [(0, 0), (1, 3), (2, 6)]
    assert open_log(clean=False, recovery_point=recovery_point).epoch_entries == expected
    disk.write_bytes(f"{directory}/leader-epoch-checkpoint", b"nonsense")
    assert open_log(clean=False, recovery_point=recovery_point).epoch_entries == expected
    assert open_log(clean=True).epoch_entries == expected


@pytest.mark.spec("E1", "P5")
@pytest.mark.parametrize("recovery_point", [4, 5, 7, 8, 9, 11, 12])
@pytest.mark.parametrize("copied_at", [1, 3, 6])
def test_an_older_copy_of_the_epochs_is_not_believed(
    open_log: OpenLog, disk: OsDisk, directory: str, recovery_point: int, copied_at: int
) -> None:
    """It lacks an epoch that lies below the recovery point: another would seem to go on until that."""
    path = f"{directory}/leader-epoch-checkpoint"
    log = open_log(segment_bytes=300)
    for offset in range(12):
        append(log, b"%d" % offset * 30, leader_epoch=offset // 2)
        if offset == copied_at:
            log.flush()
            older = disk.read_bytes(path)
    log.flush()
    expected = log.epoch_entries
    disk.write_bytes(path, older)
    log = open_log(segment_bytes=300, clean=False, recovery_point=recovery_point)
    assert log.epoch_entries == expected
    assert log.corruption is None


@pytest.mark.parametrize("log_start_offset", [1, 5, 7, 12])
def test_epochs_that_went_with_records_contradict_nothing(open_log: OpenLog, log_start_offset: int) -> None:
    """The log begins in the middle of a segment: DeleteRecords, or a follower of a leader that rolled elsewhere.

    Or it begins at its end: of what is in the segment, the file says nothing.
    """
    log = open_log()
    for offset in range(12):
        append(log, b"%d" % offset * 30, leader_epoch=offset // 6)
    log.flush()
    assert log.maybe_increment_log_start_offset(log_start_offset)
    log.flush()
    expected = log.epoch_entries
    with capture_logs() as lines:
        log = open_log(clean=False, recovery_point=max(10, log_start_offset), log_start_offset=log_start_offset)
    assert not lines
    assert log.epoch_entries == expected
    assert log.corruption is None


def test_an_orderly_restart_reads_only_the_end(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(index_interval_bytes=500, segment_bytes=5000)
    for at in range(200):
        append(log, b"%d" % at * 20)
    log.close()
    read = 0
    pread = os.pread

    def counting_pread(fd: int, size: int, position: int) -> bytes:
        nonlocal read
        data = pread(fd, size, position)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting_pread)
    log = open_log()
    assert log.log_end_offset == 200
    assert read < 8000, "of 40 KB"


def test_a_damaged_end_after_an_orderly_stop_is_found(
    open_log: OpenLog, disk: OsDisk, directory: str, written: bytes
) -> None:
    log = open_log()
    log.close()
    disk.write_bytes(log_path(directory), written[:-1])
    log = open_log(clean=True, recovery_point=4)
    assert log.corruption is not None
    assert log.log_end_offset == 3


def test_a_log_that_ends_before_its_start_begins_anew_there(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a")
    log = open_log(clean=False, log_start_offset=10)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert append(log, b"b").base_offset == 10


def test_a_log_that_begins_anew_knows_no_producers_of_before(open_log: OpenLog) -> None:
    """Without power it lost what DeleteRecords had deleted, but for a snapshot of who wrote the half of it."""
    log = open_log()
    append(log, b"x", producer=(7, 0, 0))
    log.roll()
    append(log, b"x", producer=(7, 0, 1))
    log.delete_records(1, 2)
    assert delete_old_segments(log, 2, NOW_MS) == 1
    again = open_log(clean=False, log_start_offset=5)
    assert (again.log_start_offset, again.producers.entries) == (5, [])
    append(again, b"x", producer=(7, 0, 2))


def test_an_empty_directory_begins_at_its_log_start(open_log: OpenLog) -> None:
    assert open_log(log_start_offset=7).log_end_offset == 7


def test_files_that_were_given_up_are_removed(open_log: OpenLog, disk: OsDisk, directory: str, written: bytes) -> None:
    for name in ("00000000000000000009.log.deleted", "00000000000000000000.log.cleaned", "x.tmp"):
        disk.write_bytes(f"{directory}/{name}", b"x")
    disk.write_bytes(f"{directory}/00000000000000000000.index.swap", b"x")
    open_log(clean=False)
    assert not [name for name in disk.listdir(directory) if name.endswith((".deleted", ".cleaned", ".swap", ".tmp"))]
    assert all_values(open_log(clean=False)).keys() == {0, 1, 2, 3}


def test_offsets_or_epochs_that_come_again_are_damage(
    open_log: OpenLog, disk: OsDisk, directory: str, written: bytes
) -> None:
    first = written[: ends(written)[0]]
    disk.write_bytes(log_path(directory), written + first)
    log = open_log(clean=False)
    assert log.log_end_offset == 4
    late = bytes(batch(b"x", base_offset=4, leader_epoch=0))
    disk.write_bytes(log_path(directory), written + late)
    assert open_log(clean=False).log_end_offset == 4


def test_the_age_of_a_segment_survives_a_restart(open_log: OpenLog) -> None:
    def reopened(log: Log) -> Log:
        log.close()
        return open_log(segment_ms=1000)

    log = open_log(segment_ms=1000)
    append(log, b"a", timestamp=NOW_MS)
    log = reopened(log)
    append(log, b"b", timestamp=NOW_MS + 1000)
    assert len(log.segments) == 1
    append(log, b"c", timestamp=NOW_MS + 1001)
    assert len(log.segments) == 2
