from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest
from at_once import complete_compaction, delete_old_segments, offset_for_timestamp
from simulator.killed import Killed
from storage_batches import NOW_MS, OpenLog, all_values, append, batch, headers_in, read_all, stage
from storage_machine import Machine

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression, TopicPartition
from minikafka.records.batch import HEADER_SIZE, BatchHeader, iter_batches, parse_header, write_header
from minikafka.records.control import EndTxnMarker, build_end_txn_marker, parse_end_txn_marker
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.storage import compaction, snapshots
from minikafka.storage.compaction import CompactionJob
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import File, OsDisk
from minikafka.storage.errors import EndsMayBeGone
from minikafka.storage.key_map import KeyMap
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log, LogHooks
from minikafka.storage.producer_state import ProducerEntry, ProducerState
from minikafka.storage.scan import scan_headers
from minikafka.storage.segment_names import TRANSACTION_INDEX_SUFFIX

COMPACT = {"cleanup_policy": frozenset({"compact"}), "min_cleanable_dirty_ratio": 0.0, "segment_bytes": 600}
DAY_MS = 24 * 3600 * 1000


def put(log: Log, key: bytes, value: bytes | None, *, epoch: int = 0, **how: object) -> None:
    data = batch(value, keys=(key,), **how)  # type: ignore[arg-type]
    stage(log, data, leader_epoch=epoch)
    log.commit()


def clean(log: Log, wall_ms: int = NOW_MS) -> bool:
    log.flush()
    job = log.plan_compaction(log.log_end_offset, wall_ms)
    if job is None:
        return False
    return run(job, log)


def run(job: CompactionJob, log: Log) -> bool:
    while not job.step():
        pass
    if not log.prepare_swap(job):
        return False
    job.publish()
    return complete_compaction(log, job)


def pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    data = read_all(log)
    return [
        (record.offset, record.key, record.value)
        for position, header in iter_batches(data)
        if not header.is_control
        for record in iter_records(data, position, header)
    ]


def latest(written: list[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, bytes | None]:
    return {key: value for _offset, key, value in written}


def test_many_segments_are_replaced_in_portions(open_log: OpenLog) -> None:
    """The files of 2,000 were renamed in one turn of the loop, 0.4 s."""
    log = open_log(**COMPACT)
    written = [(at, b"k%d" % at, b"x" * 200) for at in range(300)]
    for _at, key, value in written:
        put(log, key, value)
    log.flush()
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    while not job.step():
        pass
    assert log.prepare_swap(job)
    job.publish()
    portions = 0
    for _ in log.completing_compaction(job):
        portions += 1
        assert pairs(log) == written
        if portions == 2:
            put(log, b"more", b"meanwhile")
            written.append((300, b"more", b"meanwhile"))
    assert portions >= 2
    assert pairs(log) == written
    assert not log.segment_list._removals


def test_no_more_segments_are_merged_into_one_than_a_turn_replaces(open_log: OpenLog) -> None:
    """With small ``segment.ms``, thousands of records had a segment each, and all of these were renamed in one turn."""
    log = open_log(**COMPACT | {"segment_bytes": 1 << 20})
    for at in range(2 * compaction.SEGMENTS_AT_ONCE + 20):
        put(log, b"k%d" % at, b"x")
        log.roll()
    log.flush()
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    while not job.step():
        pass
    assert log.prepare_swap(job)
    job.publish()
    before, most = len(log.segments), 0
    for _ in log.completing_compaction(job):
        most, before = max(most, before - len(log.segments)), len(log.segments)
    assert most == compaction.SEGMENTS_AT_ONCE - 1
    assert [segment.base_offset for segment in log.segments] == [0, 50, 100, 120]


def test_what_retention_takes_away_under_the_cleaner_is_no_damage(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had another name when the cleaner came to open it, and the whole replica was marked as damaged."""
    log = open_log(**COMPACT | {"cleanup_policy": frozenset({"compact", "delete"})})
    log._hooks = log._hooks._replace(discard=lambda _paths, _delay_ms: None)  # they stay for a while
    for at in range(10):
        put(log, b"k%d" % at, b"x" * 200)
    log.flush()
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    open_read, taken = OsDisk.open_read, []

    def open_late(disk: OsDisk, path: str) -> File:
        if not taken:
            log.maybe_increment_log_start_offset(log.segments[1].base_offset)
            taken.append(delete_old_segments(log, log.log_end_offset, NOW_MS))
        return open_read(disk, path)

    monkeypatch.setattr(OsDisk, "open_read", open_late)
    assert not run(job, log)
    assert taken == [1]
    assert log.corruption is None


def test_retention_takes_away_nothing_that_the_cleaner_is_replacing(open_log: OpenLog) -> None:
    """The next start finished the swap, and took what retention had deleted behind it for lost."""
    log = open_log(**COMPACT | {"cleanup_policy": frozenset({"compact", "delete"})})
    for at in range(10):
        put(log, b"k%d" % at, b"x" * 200)
    log.flush()
    log.maybe_increment_log_start_offset(log.segments[1].base_offset)
    job, deletion = log.plan_compaction(10, NOW_MS), log.prepare_deletion(10, NOW_MS)
    assert job is not None
    assert deletion is not None
    while not job.step():
        pass
    assert log.prepare_swap(job)
    deletion.run()
    job.publish()
    assert log.complete_deletion(deletion) == 0
    assert delete_old_segments(log, 10, NOW_MS) == 0
    assert complete_compaction(log, job)
    assert delete_old_segments(log, 10, NOW_MS) > 0
    assert not log.segment_list._removals


@pytest.mark.parametrize("clean", [True, False])
def test_a_node_that_stops_between_two_portions_loses_no_segment(open_log: OpenLog, clean: bool) -> None:
    """The next start finishes the swap."""
    log = open_log(**COMPACT)
    for at in range(400):
        put(log, b"k%d" % (at // 2), b"x" * 200)
    before = latest(pairs(log))
    log.flush()
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    while not job.step():
        pass
    assert log.prepare_swap(job)
    job.publish()
    steps = log.completing_compaction(job)
    next(steps)
    steps.close()
    put(log, b"last", b"one")
    log.flush()
    if clean:
        log.close()
    again = open_log(clean=clean, **COMPACT)
    assert again.corruption is None
    assert latest(pairs(again)) == before | {b"last": b"one"}


def test_the_last_value_of_each_key_stays_at_its_offset(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    for at in range(40):
        put(log, b"k%d" % (at % 5), b"%d" % at)
    before = pairs(log)
    active = log.active_base_offset
    assert clean(log)
    after = pairs(log)
    assert set(after) <= set(before)
    assert latest(after) == latest(before)
    closed = [entry for entry in after if entry[0] < active]
    assert len({key for _, key, _ in closed}) == len(closed) == 5
    assert log.log_end_offset == 40
    for offset in range(40):
        found = log.read(offset, 1).read()
        assert headers_in(found)[0].last_offset >= offset


def test_batches_lose_only_the_superseded_records(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    append(log, b"old", b"kept", keys=(b"a", b"b"))
    append(log, b"new", keys=(b"a",))
    log.roll()
    assert clean(log)
    assert pairs(log) == [(1, b"b", b"kept"), (2, b"a", b"new")]
    assert [(header.base_offset, header.last_offset) for header in headers_in(read_all(log))] == [(0, 1), (2, 2)]


def test_a_tombstone_stays_for_its_retention_after_it_was_first_cleaned(open_log: OpenLog) -> None:
    log = open_log(**COMPACT, delete_retention_ms=DAY_MS)
    put(log, b"a", b"value")
    put(log, b"a", None)
    put(log, b"b", b"value")
    log.roll()
    assert clean(log, NOW_MS)
    assert pairs(log) == [(1, b"a", None), (2, b"b", b"value")]
    for wall_ms, expected in ((NOW_MS + DAY_MS - 1, [1, 2]), (NOW_MS + DAY_MS, [2])):
        put(log, b"c%d" % wall_ms, b"x")
        log.roll()
        assert clean(log, wall_ms)
        assert [offset for offset, _, _ in pairs(log) if offset < 3] == expected


def test_only_closed_durable_segments_below_the_high_watermark_are_cleaned(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    put(log, b"a", b"1")
    put(log, b"a", b"2")
    assert log.plan_compaction(2, NOW_MS) is None, "active"
    log.roll()
    assert log.plan_compaction(2, NOW_MS) is None, "not flushed"
    log.flush()
    assert log.plan_compaction(1, NOW_MS) is None, "above the high watermark"
    assert log.plan_compaction(2, NOW_MS) is not None
    log.config = LogConfig()
    assert log.plan_compaction(2, NOW_MS) is None, "cleanup.policy=delete"


def test_a_log_is_cleaned_when_enough_of_it_is_dirty(open_log: OpenLog) -> None:
    settings = COMPACT | {"min_cleanable_dirty_ratio": 0.5}
    log = open_log(**settings)
    for at in range(4):
        put(log, b"%d" % at, b"x")
    log.roll()
    assert clean(log)
    assert log.first_dirty_offset == 4
    assert not clean(log)
    for at in range(3):
        put(log, b"n%d" % at, b"x")
    log.roll()
    assert not clean(log), "3 of 7"
    put(log, b"n4", b"x")
    log.roll()
    assert clean(log), "4 of 8"


def test_young_and_overdue_segments(open_log: OpenLog) -> None:
    log = open_log(**COMPACT, min_compaction_lag_ms=1000)
    put(log, b"a", b"1")
    log.roll()
    assert not clean(log, NOW_MS + 999)
    assert clean(log, NOW_MS + 1000)
    settings = COMPACT | {"min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 1000}
    log.config = LogConfig(**settings)  # type: ignore[arg-type]
    put(log, b"a", b"2")
    put(log, b"a", b"3", timestamp=NOW_MS + 999)  # the segment is overdue with its first record, not with its last
    log.roll()
    assert not clean(log, NOW_MS + 1000)
    assert clean(log, NOW_MS + 1001)


@pytest.mark.parametrize(
    ("limits", "known", "begins"),
    [
        ({}, [False, False], [False, False]),
        ({"max_compaction_lag_ms": 1000}, [False, False], [True, False]),
        ({"min_compaction_lag_ms": 1}, [True, True], [False, False]),
        ({"min_compaction_lag_ms": 1000}, [True, False], [False, False]),
        ({"min_compaction_lag_ms": 1, "max_compaction_lag_ms": 1000}, [True, True], [True, False]),
    ],
)
def test_the_ages_that_tell_whether_a_pass_is_due_are_read_in_a_thread(
    open_log: OpenLog, limits: dict[str, int], known: list[bool], begins: list[bool]
) -> None:
    """After a restart without an index the event loop read whole segments for their ages: 27 s of a GiB."""
    log = open_log(**COMPACT)
    for key in (b"a", b"b"):
        put(log, key, b"1")
        log.roll()
    log.close()
    log = open_log(recovery_point=2, **COMPACT, **limits)
    job = log.prepare_compaction(NOW_MS + 5)
    assert (job is None) == (not limits)

    def are_read() -> tuple[list[bool], list[bool]]:
        closed = log.segments.closed
        return [segment.knows_age for segment in closed], [segment.knows_first_timestamp for segment in closed]

    if job is not None:
        assert are_read() == ([False, False], [False, False])
        job.run()
        log.complete_read(job)
        assert log.prepare_compaction(NOW_MS + 5) is None
    assert are_read() == (known, begins)
    log.plan_compaction(2, NOW_MS + 5)
    assert are_read() == (known, begins), "nothing else is read"


@pytest.mark.spec("P3")
@pytest.mark.parametrize("restart_clean", [True, False])
def test_the_last_batch_of_a_producer_stays_even_if_empty(open_log: OpenLog, restart_clean: bool) -> None:
    log = open_log(**COMPACT)
    put(log, b"a", b"1", producer=(7, 0, 0))
    put(log, b"a", b"2", producer=(7, 0, 1))
    put(log, b"a", b"3")
    log.roll()
    assert clean(log)
    assert [(header.base_offset, header.record_count) for header in headers_in(read_all(log))] == [(1, 0), (2, 1)]
    if restart_clean:
        log.close()
    log = open_log(clean=restart_clean, **COMPACT)
    assert append(log, b"x", producer=(7, 0, 1)).duplicate
    assert append(log, b"x", producer=(7, 0, 2)).base_offset == 3


@pytest.mark.spec("T26")
def test_an_aborted_transaction_supersedes_nothing_and_a_committed_one_does(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    put(log, b"a", b"1")
    put(log, b"b", b"1")
    for producer_id, key, commit in ((7, b"a", False), (8, b"b", True)):
        put(log, key, b"in transaction", producer=(producer_id, 0, 0), is_transactional=True)
        stage(log, build_end_txn_marker(producer_id, 0, EndTxnMarker(commit, 0), timestamp=NOW_MS))
        log.commit()
    log.roll()
    assert clean(log)
    assert pairs(log) == [(0, b"a", b"1"), (4, b"b", b"in transaction")]
    assert sum(header.is_control for header in headers_in(read_all(log))) == 2


def aborted(log: Log, producer_id: int, *values: bytes, key: bytes = b"a", epoch: int = 0) -> None:
    for at, value in enumerate(values):
        put(log, key, value, producer=(producer_id, epoch, at), is_transactional=True)
    stage(log, build_end_txn_marker(producer_id, epoch, EndTxnMarker(False, 0), timestamp=NOW_MS))
    log.commit()


def offsets(log: Log) -> list[int]:
    return [header.base_offset for header in headers_in(read_all(log))]


def index_of(log: Log) -> list[tuple[int, int, int]]:
    return [(one.producer_id, one.first_offset, one.last_offset) for each in log.segments for one in each.aborted]


@pytest.mark.spec("T26")
def test_a_marker_goes_after_its_transaction_as_a_tombstone_does(open_log: OpenLog) -> None:
    log = open_log(**COMPACT, delete_retention_ms=1_000)
    aborted(log, 7, b"1", b"2")  # to 2
    aborted(log, 7, b"3", epoch=1)  # to 4: of this epoch the last batch has to stay, or its marker
    stage(log, build_end_txn_marker(7, 2, EndTxnMarker(True, 0), timestamp=NOW_MS))
    put(log, b"b", b"x")  # 6
    log.roll()
    assert (offsets(log), index_of(log)) == ([0, 1, 2, 3, 4, 5, 6], [(7, 0, 2), (7, 3, 4)])
    steps = []
    for number, wall_ms in enumerate((NOW_MS, NOW_MS + 500, NOW_MS + 1_499, NOW_MS + 1_500)):
        put(log, b"c%d" % number, b"x")  # something is dirty
        log.roll()
        assert clean(log, wall_ms)
        steps.append([offset for offset in offsets(log) if offset < 7])
    assert steps == [
        [2, 4, 5, 6],  # the records go first: who read them may not have read the markers yet
        [2, 4, 5, 6],  # the markers of nothing get their horizon; the last one had it from the beginning
        [2, 4, 5, 6],
        [5, 6],  # the marker with the producer's epoch has no record left
    ]
    assert index_of(log) == []
    (last,) = (header for header in headers_in(read_all(log)) if header.base_offset == 5)
    assert (last.is_control, last.record_count, last.producer_epoch) == (True, 0, 2)
    log.close()
    log = open_log(**COMPACT, clean=False)
    entry = log.producers.get(7)
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
    assert entry is None or entry.current_txn_first_offset == -1


@pytest.mark.spec("T26")
def test_a_marker_stays_with_the_last_batch_of_its_producer(open_log: OpenLog) -> None:
    log = open_log(**COMPACT, delete_retention_ms=0)
    aborted(log, 7, b"1", b"2")
    log.roll()
    for number in range(3):
        put(log, b"c%d" % number, b"x")
        log.roll()
        assert clean(log, NOW_MS + number)
        assert offsets(log)[:2] == [1, 2], "without it the transaction would be open again"
        assert index_of(log) == [(7, 0, 2)]
    assert log.segments[0].path(TRANSACTION_INDEX_SUFFIX).rpartition("/")[2] in log.disk.listdir(log.directory)


@pytest.mark.spec("T26")
def test_a_marker_without_its_record_tells_the_epoch_of_its_producer(open_log: OpenLog) -> None:
    """It was kept for that, and nobody read it: a replica that had fetched it let an old producer write."""
    log = open_log(**COMPACT, delete_retention_ms=0)
    stage(log, build_end_txn_marker(7, 1, EndTxnMarker(False, 0), timestamp=NOW_MS))
    for number in range(3):
        put(log, b"key", b"%d" % number)
        log.roll()
        assert clean(log, NOW_MS + number)
    (marker, _last) = headers_in(read_all(log))
    assert (marker.is_control, marker.producer_epoch, marker.record_count) == (True, 1, 0)
    follower = Log.open(Machine().disk, "/orders-0", log.topic_partition, LogConfig(**COMPACT))
    follow(follower, log)
    with pytest.raises(KafkaError) as refused:
        put(follower, b"key", b"of epoch 0", producer=(7, 0, 0))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.spec("T28")
@pytest.mark.parametrize("then", ["nothing", "another transaction"])
def test_a_follower_comes_back_when_its_open_transaction_is_cleaned_away(open_log: OpenLog, then: str) -> None:
    """It was open for ever there, or its aborted records became part of the next one."""
    log = open_log(**COMPACT, delete_retention_ms=1_000)
    follower = Log.open(
        Machine().disk, "/orders-0", log.topic_partition, LogConfig(**COMPACT, delete_retention_ms=1_000)
    )
    put(log, b"a", b"1", producer=(7, 0, 0), is_transactional=True)
    follow(follower, log)
    follower.begin_following()
    bumps = then == "nothing"
    stage(log, build_end_txn_marker(7, int(bumps), EndTxnMarker(False, 0), timestamp=NOW_MS))
    if then == "another transaction":
        put(log, b"b", b"2", producer=(7, 0, 1), is_transactional=True)
        stage(log, build_end_txn_marker(7, 0, EndTxnMarker(True, 0), timestamp=NOW_MS))
    for number in range(4):
        put(log, b"c", b"%d" % number, producer=(8, 0, number))
        log.roll()
        assert clean(log, NOW_MS + 2_000 * number)
    assert 0 not in offsets(log)
    with pytest.raises(EndsMayBeGone) as gone:
        follow(follower, log)
    assert gone.value.offset == 0
    follower.truncate_to(0)
    follow(follower, log)
    assert read_all(follower) == read_all(log)
    assert follower.last_stable_offset(follower.log_end_offset) == follower.log_end_offset


@pytest.mark.spec("T28")
def test_a_transaction_whose_end_comes_before_what_was_cleaned_is_in_no_doubt(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    follower = Log.open(Machine().disk, "/orders-0", log.topic_partition, LogConfig(**COMPACT))
    put(log, b"a", b"1", producer=(7, 0, 0), is_transactional=True)
    follow(follower, log)
    follower.begin_following()
    stage(log, build_end_txn_marker(7, 1, EndTxnMarker(True, 0), timestamp=NOW_MS))
    put(log, b"b", b"1", producer=(8, 0, 0), is_transactional=True)
    for number in range(3):
        put(log, b"c", b"%d" % number, producer=(9, 0, number))
    stage(log, build_end_txn_marker(8, 1, EndTxnMarker(True, 0), timestamp=NOW_MS))
    log.commit()
    log.roll()
    assert clean(log)
    assert offsets(log) == [0, 1, 2, 5, 6]
    follow(follower, log)
    assert read_all(follower) == read_all(log), "of what it fetched since, the ends come"


@pytest.mark.spec("T28")
def test_a_follower_comes_back_when_nothing_is_left_behind_its_open_transaction(open_log: OpenLog) -> None:
    """The gap reaches to the end of the leader's log, and is sent as an empty batch."""
    log = open_log(**COMPACT, delete_retention_ms=0)
    follower = Log.open(Machine().disk, "/orders-0", log.topic_partition, LogConfig(**COMPACT))
    put(log, b"a", b"1")
    put(log, b"a", b"2", producer=(7, 0, 0), is_transactional=True)
    follow(follower, log)
    follower.begin_following()
    stage(log, build_end_txn_marker(7, 1, EndTxnMarker(False, 0), timestamp=NOW_MS))
    log.commit()
    log.roll()
    log.producers.clear()  # it wrote nothing for a day
    for number in range(3):
        log.first_dirty_offset = 0  # the checkpoint of the cleaner was lost
        assert clean(log, NOW_MS + number)
    assert [header.record_count for header in headers_in(read_all(log))] == [1, 0]
    with pytest.raises(EndsMayBeGone) as gone:
        follow(follower, log)
    follower.truncate_to(gone.value.offset)
    follow(follower, log)
    assert follower.last_stable_offset(follower.log_end_offset) == follower.log_end_offset == log.log_end_offset


def follow(follower: Log, log: Log) -> None:
    """Fetch batch by batch."""
    while follower.log_end_offset < log.log_end_offset:
        data = log.read(follower.log_end_offset, 1, from_first_batch=True).read()
        follower.append_as_follower(memoryview(data))


@pytest.mark.spec("T22")
def test_a_snapshot_does_not_open_a_transaction_again_that_was_cleaned_away(open_log: OpenLog) -> None:
    """A cut behind its end, which is gone with its records: nobody would have ended it."""
    log = open_log(**COMPACT, delete_retention_ms=0)
    put(log, b"a", b"1", producer=(7, 0, 0), is_transactional=True)
    log.roll()  # with a snapshot: it is open
    stage(log, build_end_txn_marker(7, 0, EndTxnMarker(False, 0), timestamp=NOW_MS))
    put(log, b"b", b"2")
    put(log, b"a", b"3", producer=(7, 0, 1), is_transactional=True)
    stage(log, build_end_txn_marker(7, 0, EndTxnMarker(True, 0), timestamp=NOW_MS))
    for number in range(4):
        put(log, b"c", b"%d" % number, producer=(8, 0, number))
        log.roll()
        assert clean(log, NOW_MS + number)
    assert offsets(log)[:2] == [2, 3]
    log.truncate_to(3)
    append(log, b"x")
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset


@pytest.mark.spec("T22")
def test_a_snapshot_does_not_open_a_transaction_again_whose_beginning_was_deleted(open_log: OpenLog) -> None:
    """Retention took its records, and the cleaner its end. It became one with the producer's next transaction."""
    log = open_log(**COMPACT | {"cleanup_policy": frozenset({"compact", "delete"})}, delete_retention_ms=0)
    put(log, b"a", b"1", producer=(7, 0, 0), is_transactional=True)
    log.roll()
    put(log, b"b", b"2")
    log.roll()
    stage(log, build_end_txn_marker(7, 0, EndTxnMarker(True, 0), timestamp=NOW_MS))
    log.commit()
    log.delete_records(1, 3)
    assert delete_old_segments(log, 3, NOW_MS) == 1
    log.producers.keep_newest(0)
    for number in range(4):
        put(log, b"c", b"%d" % number, producer=(8, 0, number))
        log.roll()
        assert clean(log, NOW_MS + number)
    log.snapshots.remove(above=2)  # not every roll writes one
    log.truncate_to(log.log_end_offset - 1)
    assert log.producers.open_transactions == []


@pytest.mark.spec("T22")
def test_all_transactions_of_a_snapshot_are_looked_for_in_one_walk(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands may be open in it; a walk for each kept a start for hours."""
    log = open_log(segment_bytes=1 << 20)
    producers = ProducerState()
    for number in range(200):
        append(log, b"x")
        entry = ProducerEntry(number, 0)
        entry.current_txn_first_offset = number
        producers.add(entry)
    log.snapshots.take(producers, log.log_end_offset)
    seen = []

    def counted(*where: object) -> Iterator[tuple[int, BatchHeader]]:
        for found in scan_headers(*where):  # type: ignore[arg-type]
            seen.append(found)
            yield found

    monkeypatch.setattr(snapshots, "scan_headers", counted)
    state = log.snapshots.load(log.segments, 0, log.log_end_offset)
    assert state.open_transactions == []
    assert len(seen) <= 2 * 200


@pytest.mark.spec("T22")
@pytest.mark.parametrize("cut", [1, 2])
def test_a_transaction_whose_first_records_were_cleaned_away_is_open_at_a_cut(open_log: OpenLog, cut: int) -> None:
    log = open_log(**COMPACT)
    put(log, b"a", b"1", producer=(7, 0, 0), is_transactional=True)
    put(log, b"b", b"2", producer=(7, 0, 1), is_transactional=True)
    log.roll()
    stage(log, build_end_txn_marker(7, 0, EndTxnMarker(True, 0), timestamp=NOW_MS))
    put(log, b"a", b"3")
    log.roll()
    assert clean(log)
    assert offsets(log) == [1, 2, 3]
    log.truncate_to(cut)
    assert log.producers.first_open_offset == (1 if cut == 2 else None)


@pytest.mark.spec("T26")
def test_a_marker_behind_the_pass_still_ends_what_was_cleaned(open_log: OpenLog) -> None:
    """The records of a transaction are in closed segments, its marker in the active one."""
    log = open_log(**COMPACT)
    put(log, b"a", b"old")
    put(log, b"a", b"gone", producer=(7, 0, 0), is_transactional=True)
    put(log, b"a", b"stays", producer=(8, 0, 0), is_transactional=True)
    log.roll()
    for producer_id in (7, 8):
        marker = build_end_txn_marker(producer_id, 0, EndTxnMarker(producer_id == 8, 0), timestamp=NOW_MS)
        stage(log, marker)
    log.commit()
    assert clean(log)
    assert pairs(log) == [(2, b"a", b"stays")]


@pytest.mark.spec("T26")
def test_an_open_transaction_holds_compaction_back(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    put(log, b"a", b"1")
    log.roll()
    put(log, b"a", b"2", producer=(7, 0, 0), is_transactional=True)
    log.roll()
    log.flush()
    job = log.plan_compaction(2, NOW_MS)
    assert job is not None
    assert job.end_offset == 1


def test_small_segments_are_joined_and_read_across(open_log: OpenLog) -> None:
    log = open_log(**COMPACT | {"segment_bytes": 10_000})
    for at in range(12):
        put(log, b"%d" % (at % 3), b"%d" % at)
        log.roll()
    assert len(log.segments) == 13
    assert clean(log)
    assert len(log.segments) == 2
    assert [offset for offset, _, _ in pairs(log)] == [9, 10, 11]
    assert log.log_start_offset == 0
    assert offset_for_timestamp(log, NOW_MS) == (NOW_MS, 9, 0)


def test_an_emptied_segment_is_read_over(open_log: OpenLog) -> None:
    log = open_log(**COMPACT | {"segment_bytes": 150})
    for at in range(4):
        put(log, b"a", b"%d" % at * 40)
    assert len(log.segments) == 4
    assert clean(log)
    assert [offset for offset, _, _ in pairs(log)] == [2, 3]
    assert headers_in(log.read(0, 1).read())[0].base_offset == 2
    assert open_log(clean=False, recovery_point=log.recovery_point, **COMPACT).log_end_offset == 4


@pytest.mark.parametrize("is_published", [False, True])
def test_a_log_that_was_cut_or_trimmed_under_the_job_is_left_alone(
    open_log: OpenLog, disk: OsDisk, is_published: bool
) -> None:
    log = open_log(**COMPACT)
    for at in range(40):
        put(log, b"%d" % (at % 3), b"%d" % at)
    log.flush()
    job = log.plan_compaction(40, NOW_MS)
    assert job is not None
    while not job.step():
        pass
    if is_published:
        assert log.prepare_swap(job)
        job.publish()
    log.truncate_to(39)
    assert not (complete_compaction(log, job) if is_published else log.prepare_swap(job))
    assert len(pairs(log)) == 39
    assert not [name for name in disk.listdir(log.directory) if "cleaned" in name or "swap" in name]

    job = log.plan_compaction(39, NOW_MS)
    assert job is not None
    while not job.step():
        pass
    if is_published:
        assert log.prepare_swap(job)
        job.publish()
    log.maybe_increment_log_start_offset(log.segments[1].base_offset)
    assert delete_old_segments(log, 39, NOW_MS) == (0 if is_published else 1)
    before = all_values(log)
    if not is_published:
        assert log.prepare_swap(job)
        job.publish()
    complete_compaction(log, job)
    assert all_values(log).keys() <= before.keys()
    assert not [name for name in disk.listdir(log.directory) if "cleaned" in name or "swap" in name]


def test_what_retention_took_is_not_published(open_log: OpenLog, disk: OsDisk) -> None:
    """A start found the new segment, with a gap behind it, and took the records in between for lost."""
    log = open_log(**COMPACT)
    for at in range(40):
        put(log, b"%d" % at, b"x" * 200)
    log.flush()
    job = log.plan_compaction(40, NOW_MS)
    assert job is not None
    while not job.step():
        pass
    log.maybe_increment_log_start_offset(log.segments[1].base_offset)
    assert delete_old_segments(log, 40, NOW_MS) == 1
    assert log.prepare_swap(job)
    job.publish()
    assert f"{0:020}.log.swap" not in disk.listdir(log.directory)
    assert f"{log.segments[0].base_offset:020}.log.swap" in disk.listdir(log.directory)
    assert complete_compaction(log, job)


@pytest.mark.spec("P5")
def test_damage_found_on_the_way_marks_the_replica_and_changes_nothing(open_log: OpenLog, disk: OsDisk) -> None:
    log = open_log(**COMPACT)
    for at in range(40):
        put(log, b"%d" % (at % 3), b"%d" % at)
    path = log.segments[1].path(".log")
    data = bytearray(disk.read_bytes(path))
    data[-1] ^= 1
    disk.write_bytes(path, data)
    segments = len(log.segments)
    assert not clean(log)
    assert log.corruption is not None
    assert log.corruption.path == path
    assert len(log.segments) == segments


def test_more_keys_than_the_map_holds_take_several_passes(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "KeyMap", partial(KeyMap, max_keys=4))
    log = open_log(**COMPACT)
    for at in range(120):
        put(log, b"%d" % (at % 30), b"%d" % at)
    before = latest(pairs(log))
    ends = []
    while clean(log):
        ends.append(log.first_dirty_offset)
    assert len(ends) > 2
    assert ends == sorted(ends)
    assert latest(pairs(log)) == before
    assert len(pairs(log)) < 60


def _remember_recovery_point(log: Log, checkpoint: list[int], _high_watermark: int) -> Callable[[], None]:
    return partial(checkpoint.__setitem__, 0, log.recovery_point)


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("again", [0, 2, 4, 6, *(pytest.param(number, marks=pytest.mark.long) for number in (1, 3, 5))])
def test_a_crash_at_any_operation_leaves_the_index_of_the_segments_that_are_there(power: bool, again: int) -> None:
    """Also one of the start that follows. An entry too few delivers aborted records; one too many hides others."""
    config = LogConfig(**COMPACT, delete_retention_ms=0)  # type: ignore[arg-type]
    budget, is_finished = 0, False
    while not is_finished:
        budget += 1
        machine = Machine()
        checkpoint = [0]
        log = Log.open(machine.disk, "/t-0", TopicPartition("t", 0), config)
        log._hooks = LogHooks(prepare_bounds=partial(_remember_recovery_point, log, checkpoint))
        machine.disk.fsync_dir("/")
        aborted(log, 7, b"1", b"2")
        aborted(log, 8, b"3")
        log.roll()
        aborted(log, 7, b"4", epoch=1)
        for at in range(3):
            log.roll()
            put(log, b"large %d" % at, b"x" * 500)  # recovery looks at the last segments only
        log.roll()
        log.flush()
        machine.budget = budget
        with suppress(Killed):
            is_finished = clean(log)
        for budget_of_start in (again, None):
            if power:
                machine.lose_power(Random(budget))
            else:
                machine.kill()
            machine.budget = budget_of_start
            try:
                log = Log.open(
                    machine.disk, "/t-0", log.topic_partition, config, last_stop=LastStop(recovery_point=checkpoint[0])
                )
            except Killed:
                continue
        assert log.corruption is None
        last: dict[int, int] = {}
        expected = []
        for header in headers_in(read_all(log)):
            if not header.is_control:
                last[header.producer_id] = header.base_offset
            elif header.producer_id in last:
                expected.append((header.producer_id, header.base_offset))
                del last[header.producer_id]
        found = [(producer_id, last_offset) for producer_id, _first, last_offset in index_of(log)]
        assert set(expected) <= set(found), f"after {budget} operations"
        if set(found) != set(expected):
            assert len(found) == 3, "those of the old segments"
    assert budget > 10


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_at_any_operation_leaves_the_old_or_the_new_segments(power: bool) -> None:
    config = LogConfig(**COMPACT)  # type: ignore[arg-type]
    tp = TopicPartition("t", 0)
    budget, is_finished = 0, False
    while not is_finished:
        budget += 1
        machine = Machine()
        checkpoint = [0]
        log = Log.open(machine.disk, "/t-0", tp, config)
        log._hooks = LogHooks(prepare_bounds=partial(_remember_recovery_point, log, checkpoint))
        machine.disk.fsync_dir("/")
        for at in range(30):
            put(log, b"%d" % (at % 4), b"%d" % at, epoch=at // 4)
        log.flush()
        before, epochs = pairs(log), log.epoch_entries
        machine.budget = budget
        try:
            is_finished = clean(log)
        except Killed:
            is_finished = False
        if power:
            machine.lose_power(Random(budget))
        else:
            machine.kill()
        log = Log.open(machine.disk, "/t-0", tp, config, last_stop=LastStop(recovery_point=checkpoint[0]))
        assert log.corruption is None
        assert log.log_end_offset == 30
        assert set(pairs(log)) <= set(before)
        assert latest(pairs(log)) == latest(before)
        assert log.epoch_entries == epochs
        offsets = [offset for offset, _, _ in pairs(log)]
        assert offsets == sorted(set(offsets))
    assert budget > 30


def written(log: Log, rng: Random) -> None:
    """Some batches: of few keys or none, of values or tombstones, in transactions that commit or abort, compressed."""
    for _ in range(rng.randint(5, 25)):
        unended = {one.producer_id for one in log.producers.entries if one.current_txn_first_offset >= 0}
        count = rng.randint(1, 6)
        keys = tuple(rng.choice([None, *(b"%d" % key for key in range(12)), b"long" * 20]) for _ in range(count))
        values: list[bytes] = [rng.choice([b"", b"v" * rng.randrange(60), None]) for _ in range(count)]  # type: ignore[list-item]
        producer = rng.choice([-1, -1, 7, 8])
        sequences = {entry.producer_id: entry.last_sequence + 1 for entry in log.producers.entries}
        is_transactional = producer > 0 and (producer in unended or rng.random() < 0.5)
        data = batch(
            *values,
            keys=keys,
            timestamp=NOW_MS + rng.randrange(1000),
            compression=rng.choice(list(Compression)),
            producer=(producer, 0, sequences.get(producer, 0)) if producer > 0 else (-1, -1, -1),
            is_transactional=is_transactional,
        )
        stage(log, data)
        if is_transactional and rng.random() < 0.5:
            stage(log, build_end_txn_marker(producer, 0, EndTxnMarker(rng.random() < 0.5, 0), timestamp=NOW_MS))
        log.commit()
    log.roll()
    for one in log.producers.entries:
        if one.current_txn_first_offset >= 0:
            marker = EndTxnMarker(rng.random() < 0.5, 0)
            stage(log, build_end_txn_marker(one.producer_id, 0, marker, timestamp=NOW_MS))
    log.commit()


def records_in(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    data = read_all(log)
    return [(header, list(iter_records(data, position, header))) for position, header in iter_batches(data)]


def naive_pass(batches: list[tuple[BatchHeader, list[Record]]], start: int, end: int, wall_ms: int) -> list[Record]:
    """What one pass leaves, told record by record."""
    last: dict[bytes, int] = {}
    aborting: dict[int, bool] = {}
    is_aborted: dict[int, bool] = {}
    for header, records in reversed(batches):
        if header.is_control:
            marker = parse_end_txn_marker(records[0]) if records else None
            aborting[header.producer_id] = marker is not None and not marker.is_commit
        is_aborted[header.base_offset] = header.is_transactional and aborting[header.producer_id]
    for header, records in batches:
        for record in () if header.is_control or is_aborted[header.base_offset] else records:
            if record.key is not None and start <= record.offset < end:
                last[record.key] = record.offset
    left = []
    for header, records in batches:
        if header.is_control or (is_aborted[header.base_offset] and header.base_offset < end):
            continue
        is_past = header.has_delete_horizon and wall_ms >= header.base_timestamp
        for record in records:
            is_gone = (
                record.key is None or record.offset < last.get(record.key, -1) or (is_past and record.value is None)
            )
            if header.base_offset >= end or not is_gone:
                left.append(record)
    return left


@pytest.mark.parametrize("seed", range(20))
def test_a_pass_leaves_what_a_naive_one_does(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = Random(seed)
    monkeypatch.setattr(compaction, "KeyMap", partial(KeyMap, max_keys=rng.choice([3, 8, 1000])))
    log = open_log(**COMPACT | {"segment_bytes": rng.choice([400, 3000])}, delete_retention_ms=1000)
    wall_ms = NOW_MS
    for _ in range(rng.randint(2, 6)):
        written(log, rng)
        log.flush()
        wall_ms += rng.choice([0, 600, 5000])
        before, end_before = records_in(log), log.log_end_offset
        job = log.plan_compaction(log.log_end_offset, wall_ms)
        assert job is not None
        start = log.first_dirty_offset
        assert run(job, log)
        assert log.first_dirty_offset == job.end_offset > start
        after = [record for header, records in records_in(log) for record in records if not header.is_control]
        assert after == naive_pass(before, start, job.end_offset, wall_ms)
        assert log.log_end_offset == end_before
        last_offsets = {header.base_offset: header.last_offset for header, _ in before}
        for header in headers_in(read_all(log)):
            assert header.last_offset == last_offsets[header.base_offset], "batches keep their ranges"


def with_body(data: bytearray, body: bytes) -> bytearray:
    """A batch whose checksum is right and whose records are these bytes."""
    made = data[:HEADER_SIZE] + body
    write_header(made, parse_header(made))
    return made


def test_a_batch_that_is_none_of_records_stays_and_supersedes_nothing(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    whole = batch(b"new", b"x", keys=(b"a", b"b"))
    put(log, b"a", b"old")
    stage(log, with_body(whole, bytes(whole[HEADER_SIZE:-1]) + b"\xff\xff"))
    put(log, b"c", b"old")
    put(log, b"c", b"new")
    log.roll()
    log.flush()
    for unreadable in ([1], []):
        job = log.plan_compaction(log.log_end_offset, NOW_MS)
        assert job is not None
        assert run(job, log)
        assert job.unreadable == unreadable, "it is said once"
        assert [header.base_offset for header in headers_in(read_all(log)) if header.base_offset < 5] == [0, 1, 4]
        put(log, b"d%d" % log.log_end_offset, b"x")
        log.roll()
        log.flush()
    assert log.corruption is None


def test_a_step_is_short_whatever_the_batches_are(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "STEP_WORK", 50)
    log = open_log(**COMPACT | {"segment_bytes": 5000})
    for at in range(100):
        put(log, b"%d" % at, b"x")
    log.roll()
    log.flush()
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    steps = 1
    while not job.step():
        steps += 1
    assert 200 * 5 // 50 <= steps <= 30


def test_a_step_does_as_much_as_it_may(open_log: OpenLog) -> None:
    """Each is a hop to a thread and back: with one for each batch a core cleaned a few MB/s (row 11)."""
    log = open_log(**COMPACT | {"segment_bytes": 1 << 20})
    for at in range(2000):
        stage(log, batch(b"x", keys=(b"%d" % (at % 500),)))
    log.commit()
    log.roll()
    log.flush()
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    steps = 1
    while not job.step():
        steps += 1
    assert steps <= 2 * 2000 // 100, "of two walks over batches that have a record each"


class Unreadable(OsDisk):
    """Some file cannot be read, for a reason."""

    def __init__(self) -> None:
        self.path, self.error = "", 0

    def open_read(self, path: str) -> File:
        if path == self.path:
            raise OSError(self.error, os.strerror(self.error), path)
        return super().open_read(path)


@pytest.mark.spec("P5")
@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
def test_a_file_that_cannot_be_read_is_damaged_and_one_that_cannot_be_opened_now_is_not(
    tmp_path: Path, error: int
) -> None:
    disk = Unreadable()
    log = Log.open(disk, str(tmp_path / "t-0"), TopicPartition("t", 0), LogConfig(**COMPACT))  # type: ignore[arg-type]
    for at in range(40):
        put(log, b"%d" % (at % 3), b"%d" % at)
    log.flush()
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    disk.path, disk.error = log.segments[1].path(".log"), error
    assert not run(job, log)
    assert (log.corruption is not None) == (error == errno.EIO)
    assert not log.is_offline
    assert not [name for name in disk.listdir(log.directory) if "cleaned" in name]


class CountingDisk(OsDisk):
    """Counts what is synced."""

    def __init__(self) -> None:
        self.syncs = 0

    def fsync_path(self, path: str) -> None:
        self.syncs += 1
        super().fsync_path(path)


def test_only_what_runs_in_threads_syncs(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = Log.open(disk, str(tmp_path / "t-0"), TopicPartition("t", 0), LogConfig(**COMPACT))  # type: ignore[arg-type]
    for at in range(40):
        put(log, b"%d" % (at % 3), b"%d" % at)
    log.flush()
    before = disk.syncs
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    assert disk.syncs == before
    while not job.step():
        pass
    before = disk.syncs
    assert log.prepare_swap(job)
    assert disk.syncs == before
    job.publish()
    before = disk.syncs
    assert complete_compaction(log, job)
    assert disk.syncs == before


@pytest.mark.spec("P5")
def test_a_segment_that_cannot_even_be_indexed_is_damaged_and_no_pass_begins(open_log: OpenLog, disk: OsDisk) -> None:
    """Nothing that a file holds ends a node, and a damaged log is refetched, not cleaned again and again."""
    log = open_log(**COMPACT)
    for at in range(40):
        put(log, b"%d" % (at % 3), b"%d" % at)
    first = log.segments[0]
    log.close()
    for kind in (".index", ".timeindex"):
        disk.unlink(first.path(kind))
    data = bytearray(disk.read_bytes(first.path(".log")))
    data[16] = 9  # no such magic
    disk.write_bytes(first.path(".log"), data)
    log = open_log(clean=True, recovery_point=40, **COMPACT)
    assert log.plan_compaction(40, NOW_MS) is None
    assert log.corruption is not None
    assert log.plan_compaction(40, NOW_MS) is None
    assert not log.is_offline


def test_the_cleaner_leaves_no_snapshots_of_segments_that_it_merged(open_log: OpenLog) -> None:
    """One of each segment that ever was stayed: a topic took ten times as many bytes of snapshots as of records."""
    log = open_log(**COMPACT)
    for sequence in range(300):
        put(log, b"key", b"v" * 100, producer=(sequence % 5, 0, sequence // 5))
        if sequence % 50 == 49:
            assert clean(log)
    assert len(log.snapshots.offsets()) <= len(log.segments)


def test_a_start_removes_snapshots_of_segments_that_were_merged_long_ago(open_log: OpenLog) -> None:
    log = open_log()
    for sequence in range(4):
        append(log, b"v", producer=(1, 0, sequence))
        log.snapshots.take(log.producers, log.log_end_offset)
    log.roll()
    append(log, b"v", producer=(1, 0, 4))
    log.close()
    assert log.snapshots.offsets() == [1, 2, 3, 4, 5]
    assert open_log().snapshots.offsets() == [4, 5]


def test_what_is_deleted_may_be_remembered_for_ever(open_log: OpenLog) -> None:
    """The sum of now and ``delete.retention.ms`` did not fit in the header: the node ended, at each start again."""
    log = open_log(**COMPACT, delete_retention_ms=(1 << 63) - 1)
    put(log, b"a", None)
    aborted(log, 7, b"x")
    for later_ms in (0, DAY_MS, 100 * DAY_MS):
        put(log, b"b%d" % later_ms, b"x")
        log.roll()
        assert clean(log, NOW_MS + later_ms)
        assert pairs(log)[0] == (0, b"a", None)
        assert any(header.is_control for header in headers_in(read_all(log)))
