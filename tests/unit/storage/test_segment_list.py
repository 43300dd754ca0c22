"""Findings 2 and 3 of the last attack on damage: a log knows which segments it has."""

from __future__ import annotations

from itertools import pairwise

import pytest
from at_once import complete_compaction, delete_old_segments
from captured_logs import capture_logs
from crc32c import crc32c
from storage_batches import NOW_MS, OpenLog, all_values, append

from minikafka.records.batch import iter_batches
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk
from minikafka.storage.known_aborted import KnownAborted
from minikafka.storage.log import Log
from minikafka.storage.segment import Segment
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segment_list import SEGMENTS_FILE, UNKNOWN_SIZE, Listed, SegmentList, parse_segments
from minikafka.storage.segments import Segments

BYTES = 250  # of a segment: a few batches
COMPACTED = LogConfig(segment_bytes=4 * BYTES, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
KINDS = (".log", ".index", ".timeindex")
STOPS = ["stopped", "killed", "power lost"]


def filled(log: Log, count: int = 9) -> Log:
    for at in range(count):
        append(log, b"%d" % at * 30, keys=(b"%d" % (at % 2),))
    return log


def bases_of(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def listed(disk: OsDisk, directory: str) -> set[int]:
    return set(SegmentList(disk, directory).durable)


def stop(log: Log, how: str) -> None:
    log.flush()
    if how == "stopped":
        log.close()


def reopened(open_log: OpenLog, how: str, **known: int) -> Log:
    return open_log(clean=how == "stopped", was_killed=how == "killed", segment_bytes=BYTES, **known)


def lose(disk: OsDisk, directory: str, base: int) -> None:
    for kind in KINDS:
        disk.unlink(f"{directory}/{base:020d}{kind}")


def lose_list(disk: OsDisk, directory: str, how: str) -> None:
    path = f"{directory}/{SEGMENTS_FILE}"
    if how == "removed":
        disk.unlink(path)
    else:
        disk.write_bytes(path, disk.read_bytes(path).replace(b"1", b"2", 1) + b"?")


@pytest.mark.spec("P5")
@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("at", [0, 1, -2, -1])
@pytest.mark.parametrize("recovery_point", [0, 9])
def test_a_segment_that_is_missing_as_a_whole_is_missed(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, at: int, recovery_point: int
) -> None:
    log = filled(open_log(segment_bytes=BYTES))
    whole, bases = all_values(log), bases_of(log)
    stop(log, how)
    lose(disk, directory, bases[at])
    log = reopened(open_log, how, recovery_point=recovery_point)
    assert log.corruption is not None
    assert log.corruption.offset == bases[at]
    stop(log, how)
    log = reopened(open_log, how, recovery_point=recovery_point)
    assert log.corruption is not None, "a restart does not make it whole"
    log.truncate_to(bases[at])
    for offset, value in whole.items():
        if offset >= log.log_end_offset:
            append(log, value or b"")
    log.refetched()
    stop(log, how)
    log = reopened(open_log, how)
    assert (log.corruption, all_values(log)) == (None, whole)


@pytest.mark.spec("P5")
@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("at", [0, 1, 2, -2])
@pytest.mark.parametrize("list_is", ["removed", "damaged"])
def test_a_segment_is_missed_that_goes_with_the_list(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, at: int, list_is: str
) -> None:
    """Of the same node, while it was down: a list that is missing told nothing."""
    log = filled(open_log(segment_bytes=BYTES))
    bases = bases_of(log)
    stop(log, how)
    lose_list(disk, directory, list_is)
    assert reopened(open_log, how, recovery_point=9).corruption is None, "the list alone says nothing of the log"
    lose_list(disk, directory, list_is)
    lose(disk, directory, bases[at])
    log = reopened(open_log, how, recovery_point=9)
    assert log.corruption is not None
    assert log.corruption.offset == bases[at]


@pytest.mark.spec("P5")
@pytest.mark.parametrize("how", ["killed", "power lost"])
def test_the_first_segment_is_missed_before_there_is_a_list(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str
) -> None:
    """Lost right after the first roll: no flush came between, so that nothing but the files tells of the log."""
    log = filled(open_log(), 3)
    log.roll()
    append(log, b"later")
    assert SEGMENTS_FILE not in disk.listdir(directory)
    lose(disk, directory, 0)
    log = reopened(open_log, how)
    assert log.corruption is not None
    assert log.corruption.offset == 0


@pytest.mark.parametrize("how", STOPS)
def test_a_log_that_begins_where_its_leader_does_lacks_nothing(open_log: OpenLog, how: str) -> None:
    """No checkpoint says so yet, nor does an epoch: its list does."""
    log = open_log(segment_bytes=BYTES)
    log.truncate_fully_and_start_at(50)
    if how == "stopped":
        stop(log, how)
    log = reopened(open_log, how)
    assert (log.corruption, log.log_start_offset, log.log_end_offset) == (None, 50, 50)
    filled(log)
    if how == "stopped":
        stop(log, how)
    log = reopened(open_log, how)
    assert (log.corruption, log.log_start_offset, log.log_end_offset) == (None, 50, 59)


def test_a_log_that_begins_anew_behind_its_beginning_says_so(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    """Its files are gone, and with them its list. The checkpoint of its start may go next."""
    log = open_log(clean=False, log_start_offset=50)
    assert (log.log_start_offset, listed(disk, directory)) == (50, set())
    append(log, b"a")
    log = open_log(clean=False)
    assert (log.corruption, log.log_start_offset, log.log_end_offset) == (None, 50, 51)


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_log_whose_first_segment_went_has_a_list(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, is_flushed: bool
) -> None:
    """Else what retention took would be missed: neither the start nor the epochs of the log may be written yet."""
    log = open_log(segment_bytes=100 * BYTES, retention_ms=1)
    filled(log).flush()
    assert delete_old_segments(log, 9, NOW_MS + 10**9) == 1
    append(log, b"later")
    if is_flushed or how == "stopped":
        stop(log, how)
    log = reopened(open_log, how, recovery_point=0)
    assert (log.corruption, log.log_start_offset) == (None, 9)


@pytest.mark.spec("P5")
def test_what_a_roll_since_the_last_flush_left_has_no_gap(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    """The cleaner rewrites what was flushed only."""
    log = filled(open_log(segment_bytes=BYTES), 3)
    log.flush()
    before = len(log.segments)
    filled(log)
    bases = bases_of(log)
    assert len(bases) >= before + 3
    lose(disk, directory, bases[before + 1])
    log = reopened(open_log, "killed", recovery_point=3)
    assert log.corruption is not None
    assert log.corruption.offset == bases[before + 1]


@pytest.mark.parametrize("how", STOPS)
def test_what_retention_took_is_not_missed(open_log: OpenLog, disk: OsDisk, directory: str, how: str) -> None:
    log = filled(open_log(segment_bytes=BYTES))
    log.flush()
    third = bases_of(log)[2]
    log.maybe_increment_log_start_offset(third)
    job = log.prepare_deletion(9, NOW_MS)
    assert job is not None
    log.flush()  # meanwhile, in another thread
    job.run()
    log.flush()
    assert listed(disk, directory) == set(bases_of(log)[2:]), "no flush lists what is to go"
    assert log.complete_deletion(job) == 2
    stop(log, how)
    log = reopened(open_log, how)
    assert (log.corruption, log.log_start_offset) == (None, third)


@pytest.mark.parametrize("how", STOPS)
def test_what_lies_below_the_log_start_is_not_missed(open_log: OpenLog, disk: OsDisk, directory: str, how: str) -> None:
    log = filled(open_log(segment_bytes=BYTES))
    bases = bases_of(log)
    stop(log, how)
    lose(disk, directory, bases[0])
    assert reopened(open_log, how, log_start_offset=bases[1]).corruption is None


def test_retention_leaves_alone_what_was_cut_meanwhile(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    for cut in (2, 5, 9):
        log = filled(open_log(segment_bytes=BYTES))
        log.flush()
        log.maybe_increment_log_start_offset(bases_of(log)[2])
        job = log.prepare_deletion(9, NOW_MS)
        assert job is not None
        log.truncate_to(cut)
        job.run()
        log.complete_deletion(job)
        assert log.segments[0].base_offset <= log.log_start_offset <= log.log_end_offset == cut
        log.flush()
        assert {*listed(disk, directory), log.active_base_offset} == set(bases_of(log))
        assert reopened(open_log, "killed").corruption is None
        log.truncate_fully_and_start_at(0)


def test_no_segment_goes_during_a_cut(open_log: OpenLog) -> None:
    log = filled(open_log(segment_bytes=BYTES))
    log.maybe_increment_log_start_offset(bases_of(log)[2])
    job = log.prepare_deletion(9, NOW_MS)
    assert job is not None
    job.run()
    cut = log.prepare_truncation(8)
    assert cut is not None
    assert log.complete_deletion(job) == 0
    cut.run()
    log.complete_cut(cut)
    assert delete_old_segments(log, 8, NOW_MS) == 2


@pytest.mark.parametrize("how", STOPS)
def test_what_was_cut_off_is_not_missed(open_log: OpenLog, disk: OsDisk, directory: str, how: str) -> None:
    log = filled(open_log(segment_bytes=BYTES))
    log.flush()
    log.truncate_to(1)
    assert listed(disk, directory) == {0}
    stop(log, how)
    log = reopened(open_log, how)
    assert (log.corruption, log.log_end_offset) == (None, 1)
    filled(log).truncate_fully_and_start_at(50)
    assert listed(disk, directory) == set()
    stop(log, how)
    log = reopened(open_log, how, log_start_offset=50)
    assert (log.corruption, log.log_start_offset, log.log_end_offset) == (None, 50, 50)


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("is_completed", [False, True])
def test_what_the_cleaner_merged_is_not_missed(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, is_completed: bool
) -> None:
    log = filled(open_log(segment_bytes=BYTES), 20)
    log.config = COMPACTED
    log.flush()
    before = bases_of(log)
    job = log.plan_compaction(20, NOW_MS)
    assert job is not None
    while not job.step():
        pass
    assert log.prepare_swap(job)
    log.flush()
    job.publish()
    log.flush()
    if is_completed:
        assert complete_compaction(log, job)
        assert len(log.segments) < len(before)
        known = all_values(log)
        stop(log, how)
    log = reopened(open_log, how if is_completed else "killed", recovery_point=20)
    assert log.corruption is None
    assert len(log.segments) < len(before)
    assert not is_completed or all_values(log) == known
    log.flush()
    assert listed(disk, directory) == set(bases_of(log))
    lose(disk, directory, bases_of(log)[-2])
    assert reopened(open_log, "killed", recovery_point=20).corruption is not None


def test_segments_that_stay_after_all_are_listed_again(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = filled(open_log(segment_bytes=BYTES), 20)
    log.config = COMPACTED
    log.flush()
    job = log.plan_compaction(20, NOW_MS)
    assert job is not None
    while not job.step():
        pass
    assert log.prepare_swap(job)
    job.publish()
    assert listed(disk, directory) < set(bases_of(log))
    log.truncate_to(19)
    assert not complete_compaction(log, job)
    assert log.flush_due(NOW_MS)
    log.flush()
    assert listed(disk, directory) == set(bases_of(log))


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"00000000\n0\n1\n7\n"])
def test_a_list_that_cannot_be_read_tells_nothing_and_is_made_anew(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, content: bytes | None
) -> None:
    log = filled(open_log(segment_bytes=BYTES))
    whole = all_values(log)
    stop(log, how)
    path = f"{directory}/{SEGMENTS_FILE}"
    assert listed(disk, directory) == set(bases_of(log))
    disk.unlink(path)
    if content is not None:
        disk.write_bytes(path, content)
    with capture_logs() as lines:
        log = reopened(open_log, how)
    assert [line["path"] for line in lines] == [path] * (content is not None)
    assert (log.corruption, all_values(log)) == (None, whole)
    assert log.flush_due(NOW_MS)
    log.flush()
    assert listed(disk, directory) == set(bases_of(log))


def segments(disk: OsDisk, *bases: int) -> Segments:
    cache = SegmentCache()
    return Segments([Segment(disk, "", base, cache=cache, index_interval_bytes=1, size=base + 1) for base in bases])


def store(list_: SegmentList, segments: Segments) -> None:
    listing = list_.prepare_store(segments)
    listing.store()
    list_.stored(listing)


def test_every_flipped_bit_of_a_list_is_noticed(disk: OsDisk, directory: str) -> None:
    store(SegmentList(disk, directory), segments(disk, 0, 12, 345))
    path = f"{directory}/{SEGMENTS_FILE}"
    data = disk.read_bytes(path)
    assert listed(disk, directory) == {0, 12, 345}
    for at in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        disk.write_bytes(path, flipped)
        assert listed(disk, directory) in (set(), {0, 12, 345}), at


def test_a_log_of_one_segment_has_no_list(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = open_log()
    append(log, b"a")
    log.flush()
    log.close()
    assert SEGMENTS_FILE not in disk.listdir(directory)


def test_a_flush_that_was_overtaken_lists_nothing_that_went(disk: OsDisk, directory: str) -> None:
    list_ = SegmentList(disk, directory)
    store(list_, segments(disk, 0, 10))
    late = list_.prepare_store(segments(disk, 0, 10, 20))
    removal = list_.take_off([0])
    removal.store()
    assert listed(disk, directory) == {10}, "20 may not be durable yet"
    late.store()
    assert listed(disk, directory) == {10}
    list_.stored(late)
    list_.gone(removal)
    list_.remove([30])
    assert listed(disk, directory) == {10}, "what went is not listed again"
    left = segments(disk, 10, 20)
    assert list_.is_stale(left)
    store(list_, left)
    assert listed(disk, directory) == {10, 20}
    assert not list_.is_stale(left)


def test_a_segment_whose_name_is_not_durable_is_not_listed(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = filled(open_log(segment_bytes=BYTES), 3)
    log.flush()
    durable = listed(disk, directory)
    filled(log)
    assert all(one < other for one, other in pairwise(bases_of(log)))
    log.maybe_increment_log_start_offset(bases_of(log)[1])
    assert delete_old_segments(log, 12, NOW_MS) == 1
    assert listed(disk, directory) == durable - {0}


@pytest.mark.spec("P5")
@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("recovery_point", [0, 9])
def test_the_end_of_a_segment_is_missed_that_was_cut_between_two_batches(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, recovery_point: int
) -> None:
    """Its size tells; the batches look whole."""
    log = filled(open_log(segment_bytes=BYTES))
    base = bases_of(log)[1]
    stop(log, how)
    path = f"{directory}/{base:020d}.log"
    data = disk.read_bytes(path)
    *_, (last, _header) = iter_batches(data)
    disk.write_bytes(path, data[:last])
    log = reopened(open_log, how, recovery_point=recovery_point)
    assert log.corruption is not None
    assert log.corruption.offset == base


@pytest.mark.parametrize("how", STOPS)
def test_the_size_of_a_segment_that_was_cut_is_forgotten(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str
) -> None:
    log = filled(open_log(segment_bytes=BYTES))
    log.flush()
    base = bases_of(log)[1]
    assert SegmentList(disk, directory).size_of(base) == log.segments[1].size
    log.truncate_to(base + 1)
    assert SegmentList(disk, directory).size_of(base) == UNKNOWN_SIZE
    stop(log, how)
    log = reopened(open_log, how)
    assert (log.corruption, log.log_end_offset) == (None, base + 1)
    filled(log)
    stop(log, how)
    assert reopened(open_log, how).corruption is None


@pytest.mark.spec("P6")
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_an_empty_file_among_the_listed_ones_is_no_segment(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str
) -> None:
    log = filled(open_log(segment_bytes=BYTES))
    first, second, third, *_ = bases_of(log)
    log.maybe_increment_log_start_offset(second)
    assert delete_old_segments(log, 9, NOW_MS) == 1
    stop(log, how)
    for stray in (first, third - 1):
        disk.write_bytes(f"{directory}/{stray:020d}.log", b"")
    with capture_logs() as lines:
        log = reopened(open_log, how, recovery_point=9)
    assert len(lines) == 2
    assert (log.corruption, log.log_start_offset, log.log_end_offset) == (None, second, 9)


def test_a_roll_looks_at_each_segment_once(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 20,000 of them a flush after a roll took 40 ms of the loop."""
    log = filled(open_log(segment_bytes=BYTES))
    log.flush()
    log.roll()
    looked_at: list[KnownAborted] = []
    monkeypatch.setattr(KnownAborted, "checksum", property(lambda one: looked_at.append(one) or 0))
    log.flush()
    assert not log.flush_due(0)
    assert looked_at == [one.known_aborted for one in log.segments.closed]


@pytest.mark.parametrize(
    ("row", "known"), [("0 70", Listed(70)), ("0 70 5", Listed(70, 5)), ("0", None), ("0 7 5 1", None)]
)
def test_a_list_of_another_version_is_read_or_damaged(row: str, known: Listed | None) -> None:
    """One that only a later version can read must not keep a node from starting."""
    content = f"0\n1\n{row}\n".encode()
    data = f"{crc32c(content):08x}\n".encode() + content
    if known is None:
        with pytest.raises(ValueError, match="values"):
            parse_segments(data)
    else:
        assert parse_segments(data) == {0: known}
