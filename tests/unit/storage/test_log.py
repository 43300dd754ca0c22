from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import pairwise

import pytest
from at_once import delete_old_segments, offset_for_timestamp
from storage_batches import NOW_MS, OpenLog, all_values, append, batch, headers_in, read_all, stage, values_in

from minikafka.errors import ErrorCode, KafkaError
from minikafka.records.batch import HEADER_SIZE, crc_is_valid, parse_header, set_log_append_time
from minikafka.records.build import rebuild_batch
from minikafka.records.keys import iter_keys
from minikafka.records.read import iter_records
from minikafka.storage.disk import OsDisk, OsFile
from minikafka.storage.log import IllegalLogState, Log, StorageFailure


def code_of(act: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        act()
    return caught.value.code


# -- appending as a leader ------------------------------------------------------------------------------------------


@pytest.mark.spec("R1")
def test_offsets_run_on_and_the_log_end_is_behind_the_last(open_log: OpenLog) -> None:
    log = open_log()
    assert append(log, b"a", b"b")[:2] == (0, 1)
    assert append(log, b"c")[:2] == (2, 2)
    assert log.log_end_offset == 3
    assert all_values(log) == {0: b"a", 1: b"b", 2: b"c"}


def test_what_is_staged_is_invisible_until_it_is_committed_with_one_write(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    calls: list[int] = []
    writev = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, buffers: (calls.append(len(buffers)), writev(fd, buffers))[1])
    infos = [stage(log, batch(b"%d" % at), leader_epoch=3) for at in range(4)]
    assert log.log_end_offset == 0
    assert log.size_in_bytes == 0
    log.commit()
    assert [info.base_offset for info in infos] == [0, 1, 2, 3]
    assert log.log_end_offset == 4
    assert calls == [4]


def test_a_stored_batch_has_the_leaders_epoch_and_a_valid_checksum(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"first")
    append(log, b"second", leader_epoch=7)
    data = log.read(1, 1000).read()
    header = parse_header(data)
    assert (header.base_offset, header.leader_epoch) == (1, 7)
    assert crc_is_valid(data, 0, header)


def test_reading_commits_what_is_staged(open_log: OpenLog) -> None:
    log = open_log()
    stage(log, batch(b"a"))
    assert values_in(log.read(0, 1000).read()) == {0: b"a"}


def test_the_broker_may_stamp(open_log: OpenLog) -> None:
    log = open_log(log_append_time=True)
    info = append(log, b"a", b"b", timestamp=5, wall_ms=NOW_MS)
    assert info.log_append_time == NOW_MS
    data = log.read(0, 1000).read()
    assert crc_is_valid(data, 0, parse_header(data))
    assert {record.timestamp for record in iter_records(data)} == {NOW_MS}
    assert offset_for_timestamp(open_log(log_append_time=False), NOW_MS) == (NOW_MS, 0, 0)


def test_a_batch_larger_than_a_segment_is_refused(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=200)
    assert code_of(lambda: append(log, b"x" * 200)) is ErrorCode.RECORD_LIST_TOO_LARGE
    append(log, b"x")
    assert log.log_end_offset == 1


def test_epochs_never_fall(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", leader_epoch=4)
    with pytest.raises(IllegalLogState, match="epoch"):
        append(log, b"b", leader_epoch=3)
    with pytest.raises(IllegalLogState, match="epoch"):
        log.begin_epoch(3)


# -- segments -------------------------------------------------------------------------------------------------------


def test_a_full_segment_is_rolled_also_between_staged_batches(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300)
    for at in range(9):
        stage(log, batch(b"%d" % at * 40))
    log.commit()
    assert len(log.segments) > 3
    assert all(segment.size <= 300 for segment in log.segments)
    assert list(all_values(log)) == list(range(9))
    assert [segment.next_offset for segment in log.segments][:-1] == [segment.base_offset for segment in log.segments][
        1:
    ]


def stamped(timestamp: int) -> bytearray:
    """A batch whose header has any timestamp: the builder makes -1 of all negative ones."""
    data = batch(b"a")
    set_log_append_time(data, 0, timestamp)
    return data


@pytest.mark.parametrize("unstamped", [None, -1, -(2**62)])
def test_segments_roll_by_age_of_their_first_batch(open_log: OpenLog, unstamped: int | None) -> None:
    """Its timestamp; the time of its append, if it has none. What is older than the first batch stays."""
    log = open_log(segment_ms=1000)
    for after_ms in (0, 1000, 1001, 0, 2001, 2002):
        time_ms = NOW_MS + after_ms
        stage(log, stamped(time_ms if unstamped is None else unstamped), wall_ms=time_ms)
        log.commit()
    assert [segment.base_offset for segment in log.segments] == [0, 2, 5]


def sent(offsets: range) -> memoryview:
    """Batches, each 400 ms after the one before."""
    batches = (batch(b"x", timestamp=NOW_MS + 400 * at, base_offset=at, leader_epoch=0) for at in offsets)
    return memoryview(b"".join(map(bytes, batches)))


def test_old_records_get_the_segments_that_they_had(open_log: OpenLog) -> None:
    """A replica that begins anew fetches all of them now. In one segment, retention would keep all of them."""
    log = open_log(segment_ms=1000)
    for begin, end in pairwise((0, 2, 3, 6, 9, 10)):  # an answer has records of one segment, or of a part of it
        log.append_as_follower(sent(range(begin, end)), wall_ms=NOW_MS + 10_000)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]


def test_what_the_cleaner_has_merged_stays_together(open_log: OpenLog) -> None:
    """An answer of a MiB began 12,000 segments in one turn of the loop, 0.9 ms each: the new replica was fenced."""
    log = open_log(segment_ms=1000)
    for begin, end in pairwise((0, 100, 200)):
        log.append_as_follower(sent(range(begin, end)), wall_ms=NOW_MS + 10_000)
    assert [segment.base_offset for segment in log.segments] == [0, 100]


def test_jitter_rolls_segments_early_each_at_a_time_of_its_own(open_log: OpenLog) -> None:
    log = open_log(segment_ms=1000, segment_jitter_ms=500)
    for at in range(200):
        append(log, b"a", timestamp=NOW_MS + 100 * at)
    bases = [segment.base_offset for segment in log.segments]
    lengths = {after - before for before, after in pairwise(bases)}
    assert lengths <= {6, 7, 8, 9, 10, 11}
    assert len(lengths) > 2


def test_a_restart_changes_nothing_in_when_segments_roll(open_log: OpenLog) -> None:
    """All partitions of a node rolled together after it: the jitter was forgotten."""
    bases = []
    for restarts in (False, True):
        log = open_log(segment_ms=1000, segment_jitter_ms=500)
        for at in range(60):
            append(log, b"a", timestamp=NOW_MS + 100 * at)
            if restarts:
                log.close()
                log = open_log(segment_ms=1000, segment_jitter_ms=500)
        bases.append([segment.base_offset for segment in log.segments])
        log.truncate_fully_and_start_at(0)
        log.close()
    assert bases[0] == bases[1]
    assert len(bases[0]) > 4


@pytest.mark.parametrize("unstamped", [-1, -(2**62)])
def test_after_a_restart_the_age_of_a_batch_without_a_timestamp_is_not_known(open_log: OpenLog, unstamped: int) -> None:
    log = open_log(segment_ms=1000)
    stage(log, stamped(unstamped))
    log.commit()
    log.close()
    log = open_log(segment_ms=1000)
    for after_ms in (0, 1000, 1001):
        append(log, b"a", timestamp=NOW_MS + after_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_a_segment_of_a_compacted_log_is_closed_when_it_is_to_be_compacted(open_log: OpenLog) -> None:
    for policy, count in (("compact", 2), ("delete", 1)):
        log = open_log(cleanup_policy=frozenset({policy}), max_compaction_lag_ms=1000)
        append(log, b"a", timestamp=NOW_MS)
        append(log, b"b", timestamp=NOW_MS + 1001)
        assert len(log.segments) == count
        log.truncate_fully_and_start_at(0)
        log.close()


def test_segments_roll_before_an_offset_or_an_index_overflows(open_log: OpenLog) -> None:
    log = open_log(index_interval_bytes=0, segment_index_bytes=36)
    for at in range(7):
        append(log, b"%d" % at)
    assert [segment.base_offset for segment in log.segments] == [0, 5], "four entries of eight bytes"
    far = batch(b"x", base_offset=2**31 + 10, leader_epoch=0)
    log.append_as_follower(memoryview(far))
    assert log.active_base_offset == 2**31 + 10
    assert values_in(log.read(7, 1000).read()) == {2**31 + 10: b"x"}


def test_segments_roll_before_an_index_of_times_overflows(open_log: OpenLog) -> None:
    """Its entries have twelve bytes, and the last one is for the end of the segment."""
    log = open_log(index_interval_bytes=0, segment_index_bytes=39)
    for at in range(9):
        append(log, b"%d" % at, timestamp=NOW_MS + at)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]


def test_rolling_an_empty_segment_does_nothing(open_log: OpenLog) -> None:
    log = open_log()
    log.roll()
    append(log, b"a")
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1]


# -- appending as a follower ----------------------------------------------------------------------------------------


@pytest.mark.spec("R11")
def test_a_follower_keeps_the_leaders_bytes(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=400)
    sent = b"".join(bytes(batch(b"%d" % at * 50, b"2", base_offset=2 * at, leader_epoch=at // 3)) for at in range(10))
    info = log.append_as_follower(memoryview(sent), wall_ms=NOW_MS)
    assert (info.base_offset, info.last_offset) == (0, 19)
    assert read_all(log) == sent
    assert len(log.segments) > 2
    assert log.epoch_entries == [(0, 0), (1, 6), (2, 12), (3, 18)]


@pytest.mark.spec("R11")
@pytest.mark.parametrize("base", [0, 2])
def test_a_follower_refuses_what_does_not_continue_its_log(open_log: OpenLog, base: int) -> None:
    log = open_log()
    append(log, b"a", b"b", b"c")
    with pytest.raises(IllegalLogState, match="ends at 3"):
        log.append_as_follower(memoryview(batch(b"x", base_offset=base, leader_epoch=1)))
    good = batch(b"x", base_offset=3, leader_epoch=1)
    with pytest.raises(IllegalLogState):
        log.append_as_follower(memoryview(bytes(good + batch(b"y", base_offset=base, leader_epoch=1))))
    assert log.log_end_offset == 3
    assert log.epoch_entries == [(0, 0)]


@pytest.mark.spec("R11")
def test_a_follower_refuses_epochs_that_fall(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", leader_epoch=5)
    falling = bytes(batch(b"b", base_offset=1, leader_epoch=6) + batch(b"c", base_offset=2, leader_epoch=5))
    for sent in (falling, bytes(batch(b"b", base_offset=1, leader_epoch=4))):
        with pytest.raises(IllegalLogState, match="epoch"):
            log.append_as_follower(memoryview(sent))
    assert log.log_end_offset == 1


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_gaps_upward_are_taken_also_of_a_topic_that_is_not_compacted_any_more(open_log: OpenLog, policy: str) -> None:
    log = open_log(cleanup_policy=frozenset({policy}))
    append(log, b"a")
    log.append_as_follower(memoryview(batch(b"x", base_offset=7, leader_epoch=0)))
    assert log.log_end_offset == 8
    assert values_in(log.read(3, 1000).read()) == {7: b"x"}
    with pytest.raises(IllegalLogState):
        log.append_as_follower(memoryview(batch(b"x", base_offset=6, leader_epoch=0)))


@pytest.mark.spec("R26")
@pytest.mark.parametrize(
    ("base_offset", "last_offset_delta", "is_cleaned"), [(1, 0, False), (2, 0, True), (1, 1, True), (1 << 31, 0, True)]
)
def test_a_follower_sees_that_its_leader_has_cleaned(
    open_log: OpenLog, base_offset: int, last_offset_delta: int, is_cleaned: bool
) -> None:
    """A replica that was added when the topic was not compacted any more did not know it. After an unclean election it
    kept what the cleaner had left of the records before the cut, and could lead with that."""
    sent = batch(b"x", base_offset=base_offset, leader_epoch=0)
    header = parse_header(sent)
    body = bytes(sent[HEADER_SIZE:])
    rebuilt = rebuild_batch(header._replace(last_offset_delta=last_offset_delta), body, iter_keys(body, header))
    log = open_log()
    append(log, b"first")
    log.append_as_follower(memoryview(rebuilt))
    assert log.log_end_offset == base_offset + last_offset_delta + 1
    assert log.is_cleaned == is_cleaned
    assert open_log(clean=False, was_killed=True).is_cleaned == is_cleaned, "also before the next checkpoint"


def test_a_batch_cut_off_by_the_fetch_is_left_out(open_log: OpenLog) -> None:
    log = open_log()
    whole = bytes(batch(b"a", base_offset=0, leader_epoch=0))
    for cut in range(len(whole)):
        part = bytes(batch(b"b", base_offset=log.log_end_offset + 1, leader_epoch=0))[:cut]
        first = bytes(batch(b"a", base_offset=log.log_end_offset, leader_epoch=0))
        info = log.append_as_follower(memoryview(first + part))
        assert info.base_offset == info.last_offset == log.log_end_offset - 1
    assert code_of(lambda: log.append_as_follower(memoryview(whole[:-1]))) is ErrorCode.CORRUPT_MESSAGE, (
        "a leader sends one"
    )


@pytest.mark.spec("P5")
def test_a_batch_of_an_epoch_after_that_of_the_fetch_is_damaged(open_log: OpenLog) -> None:
    log = open_log()
    sent = memoryview(batch(b"a", base_offset=0, leader_epoch=4 + 2**20))
    assert code_of(lambda: log.append_as_follower(sent, leader_epoch=4)) is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.latest_epoch) == (0, -1)


@pytest.mark.spec("P5")
def test_a_damaged_batch_from_the_leader_is_refused_with_all_that_came_with_it(open_log: OpenLog) -> None:
    log = open_log()
    good = bytes(batch(b"a", base_offset=0, leader_epoch=0))
    for at in range(17, len(good)):
        bad = bytearray(batch(b"a", base_offset=1, leader_epoch=0))
        bad[at] ^= 1
        assert code_of(lambda bad=bad: log.append_as_follower(memoryview(good + bytes(bad)))) is (
            ErrorCode.CORRUPT_MESSAGE
        )
    assert log.log_end_offset == 0


# -- reading --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ten(open_log: OpenLog) -> Log:
    """Ten batches of two records; every batch has the same size."""
    log = open_log()
    for at in range(10):
        append(log, b"%d" % at, b"x")
    return log


@pytest.mark.spec("R15")
def test_reads_end_on_a_batch_boundary_within_the_limits(ten: Log) -> None:
    size = ten.size_in_bytes // 10
    assert list(values_in(ten.read(0, 3 * size).read())) == [0, 1, 2, 3, 4, 5]
    assert list(values_in(ten.read(0, 3 * size + size - 1).read())) == [0, 1, 2, 3, 4, 5]
    assert list(values_in(ten.read(3, size).read())) == [2, 3]
    assert list(values_in(ten.read(4, 1 << 30, max_offset=8).read())) == [4, 5, 6, 7]
    assert list(values_in(ten.read(4, 1 << 30, max_offset=9).read())) == [4, 5, 6, 7]
    assert len(ten.read(4, 1 << 30, max_offset=4)) == 0


@pytest.mark.spec("R15")
def test_one_batch_comes_even_if_larger_than_the_limit_when_asked_for(ten: Log) -> None:
    assert list(values_in(ten.read(6, 1).read())) == [6, 7]
    assert list(values_in(ten.read(6, 0).read())) == [6, 7]
    assert len(ten.read(6, 1, min_one_batch=False)) == 0


def test_reading_outside_of_the_log(ten: Log) -> None:
    assert len(ten.read(20, 1000)) == 0
    assert code_of(lambda: ten.read(21, 1000)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code_of(lambda: ten.read(-1, 1000)) is ErrorCode.OFFSET_OUT_OF_RANGE
    ten.maybe_increment_log_start_offset(5)
    assert code_of(lambda: ten.read(4, 1000)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert list(values_in(ten.read(5, 1).read())) == [4, 5]


def test_a_slice_is_a_region_of_a_file(ten: Log) -> None:
    region = ten.read(4, 1 << 30, max_offset=8)
    fd = region.fileno()
    assert fd is not None
    assert os.pread(fd, region.size, region.position) == region.read()
    region.release()
    assert region.read() == b""


def test_a_read_never_crosses_a_segment(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=250)
    for at in range(9):
        append(log, b"%d" % at * 30)
    ends = [segment.next_offset for segment in log.segments]
    assert list(values_in(log.read(0, 1 << 30).read())) == list(range(ends[0]))


@pytest.mark.parametrize("clean", [True, False])
def test_cold_reads_find_the_same_batches_as_hot_ones(open_log: OpenLog, clean: bool) -> None:
    log = open_log(index_interval_bytes=200)
    for at in range(100):
        append(log, b"%d" % at * (at % 7), b"x")
    hot = {
        (start, limit): log.read(start, limit).read() for start in range(0, 200, 7) for limit in (1, 500, 2000, 10**6)
    }
    log.close()
    log = open_log(clean=clean, index_interval_bytes=200)
    for (start, limit), data in hot.items():
        cold = log.read(start, limit).read()
        assert data.startswith(cold)
        assert cold
        assert headers_in(cold)[0].base_offset == start - start % 2


def test_slices_in_flight_survive_deletion_of_their_segment(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = open_log(segment_bytes=250)
    for at in range(9):
        append(log, b"%d" % at * 30)
    region = log.read(0, 1 << 30)
    data = region.read()
    log.maybe_increment_log_start_offset(8)
    delete_old_segments(log, 9, NOW_MS)
    assert not disk.exists(f"{directory}/{0:020d}.log")
    assert region.read() == data
    log.truncate_fully_and_start_at(0)
    append(log, b"new")
    assert region.read() == data


@pytest.mark.spec("D5")
def test_bytes_between_offsets(ten: Log) -> None:
    size = ten.size_in_bytes // 10
    assert ten.bytes_between(4, 8) == 2 * size
    assert ten.bytes_between(0, 20) == 10 * size
    assert ten.bytes_between(8, 8) == 0
    assert ten.bytes_between(9, 4) == 0
    ten.roll()
    append(ten, b"behind")
    assert ten.bytes_between(0, 21) == ten.size_in_bytes


@pytest.mark.spec("P5")
@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:80] + bytes([data[80] ^ 1]) + data[81:], lambda data: bytes(len(data)), lambda data: data[:40]],
    ids=["a bit", "zeros", "cut off"],
)
def test_damaged_bytes_are_not_served_and_mark_the_replica(
    open_log: OpenLog, disk: OsDisk, damage: Callable[[bytes], bytes]
) -> None:
    log = open_log(segment_bytes=400)
    for at in range(9):
        append(log, b"%d" % at * 30)
    log.close()
    path = log.segments[1].path(".log")
    disk.write_bytes(path, damage(disk.read_bytes(path)))
    log = open_log(segment_bytes=400)
    base = log.segments[1].base_offset
    assert code_of(lambda: log.read(base, 1 << 30)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.corruption is not None
    assert log.corruption.offset == base
    assert values_in(log.read(0, 1 << 30).read())
    assert not log.is_offline
    assert open_log(segment_bytes=400).corruption is not None, "a restart does not make it whole"
    log.truncate_to(base)
    assert append(log, b"fetched again").base_offset == base
    log.refetched()
    log.close()
    log = open_log(segment_bytes=400)
    assert log.corruption is None
    assert list(all_values(log).values())[base:] == [b"fetched again"]


# -- cutting --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R13")
def test_truncation_cuts_at_a_batch(ten: Log) -> None:
    assert not ten.truncate_to(20)
    assert not ten.truncate_to(25)
    assert ten.truncate_to(14)
    assert ten.log_end_offset == 14
    assert ten.truncate_to(9), "an offset inside a batch takes the batch with it"
    assert ten.log_end_offset == 8
    assert append(ten, b"new").base_offset == 8
    assert all_values(ten)[8] == b"new"


@pytest.mark.spec("R13")
def test_restarting_at_the_leaders_log_start(ten: Log, open_log: OpenLog) -> None:
    ten.truncate_fully_and_start_at(100)
    assert (ten.log_start_offset, ten.log_end_offset, ten.recovery_point) == (100, 100, 100)
    assert ten.latest_epoch == -1
    assert append(ten, b"new").base_offset == 100
    assert all_values(ten) == {100: b"new"}
    assert all_values(open_log(clean=False)) == {100: b"new"}


def test_truncating_before_the_log_restarts_it_there(open_log: OpenLog) -> None:
    log = open_log()
    log.truncate_fully_and_start_at(50)
    append(log, b"a")
    log.truncate_to(20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)


def test_truncating_over_segments(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = open_log(segment_bytes=250)
    for at in range(20):
        append(log, b"%d" % at * 30)
    log.truncate_to(7)
    assert list(all_values(log)) == list(range(7))
    append(log, b"new")
    assert list(all_values(open_log(clean=False, segment_bytes=250))) == list(range(8))
    assert not any(".deleted" in name for name in disk.listdir(directory))


def test_deleting_records(ten: Log) -> None:
    assert ten.delete_records(6, 12) == 6
    assert ten.delete_records(4, 12) == 6
    assert ten.delete_records(-1, 12) == 12
    assert code_of(lambda: ten.delete_records(13, 12)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code_of(lambda: ten.delete_records(-2, 12)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code_of(lambda: ten.maybe_increment_log_start_offset(21)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not ten.maybe_increment_log_start_offset(3)


# -- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_takes_the_log_offline_and_shows_nothing(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    log = open_log()
    append(log, b"a")

    def fail(_file: OsFile, _buffers: object) -> None:
        raise OSError(number, os.strerror(number))

    stage(log, batch(b"lost"))
    with monkeypatch.context() as patch:
        patch.setattr(OsFile, "append", fail)
        with pytest.raises(StorageFailure, match="append"):
            log.commit()
    assert log.log_end_offset == 1
    assert log.is_offline
    for act in (log.commit, lambda: append(log, b"b"), lambda: log.read(0, 10), lambda: log.truncate_to(0), log.flush):
        assert code_of(act) is ErrorCode.KAFKA_STORAGE_ERROR
    assert all_values(open_log(clean=False)) == {0: b"a"}


def test_a_write_that_failed_half_way_is_cut_off_by_recovery(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    append(log, b"a")
    append_whole = OsFile.append

    def fail_half_way(file: OsFile, buffers: list[bytes]) -> None:
        append_whole(file, [buffers[0][:50]])
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(OsFile, "append", fail_half_way)
        with pytest.raises(StorageFailure):
            append(log, b"b")
    log = open_log(clean=False)
    assert all_values(log) == {0: b"a"}
    assert log.corruption is None
    assert append(log, b"c").base_offset == 1


@pytest.mark.spec("P1")
def test_what_a_full_disk_took_in_part_goes_at_once(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start does not take it for a write that a kill interrupted, for which it would not vouch for the log."""
    log = open_log()
    append(log, b"a")
    size, append_whole = log.size_in_bytes, OsFile.append

    def fail_half_way(file: OsFile, buffers: list[bytes]) -> None:
        append_whole(file, [buffers[0][:50]])
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(OsFile, "append", fail_half_way)
        with pytest.raises(StorageFailure) as raised:
            append(log, b"b")
    assert raised.value.is_full
    assert os.stat(log.segments.active.path(".log")).st_size == size


@pytest.mark.spec("R15")
def test_a_read_of_what_was_not_verified_yet_is_short(open_log: OpenLog) -> None:
    log = open_log()
    for _ in range(5):
        append(log, b"x" * 400_000)
    log.close()
    log = open_log()
    first = log.read(0, 10 << 20)
    assert len(headers_in(first.read())) == 2
    assert len(headers_in(log.read(2, 10 << 20).read())) == 2
    assert len(headers_in(log.read(0, 10 << 20).read())) == 2, "what lies behind is still to be verified"
    assert len(headers_in(log.read(4, 10 << 20).read())) == 1
    assert len(headers_in(log.read(0, 10 << 20).read())) == 5
