"""Truncation as a job: what holds between its parts, how much it reads, and what it leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from at_once import delete_old_segments, offset_for_timestamp, offset_of_max_timestamp
from storage_batches import NOW_MS, OpenLog, append, batch, read_all, stage
from store_checkpoints import write_checkpoints

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import HEADER_SIZE
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.storage.config import LogConfig
from minikafka.storage.cut_job import CutJob
from minikafka.storage.disk import OsDisk, OsFile
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.positions import find
from minikafka.storage.producer_state import ProducerEntry, ProducerState

A = TopicPartition("a", 0)


def in_thread(job: CutJob) -> CutJob:
    thread = threading.Thread(target=job.run)
    thread.start()
    thread.join()
    return job


def ten_batches(open_log: OpenLog, **settings: object) -> Log:
    log = open_log(**settings)
    for at in range(10):
        append(log, b"%d" % at)
    return log


def prepared(log: Log, offset: int) -> CutJob:
    job = log.prepare_truncation(offset)
    assert job is not None
    return job


@pytest.mark.spec("R4")
@pytest.mark.parametrize("settings", [{}, {"segment_bytes": 200}], ids=["one segment", "many"])
@pytest.mark.parametrize("offset", [0, 5, 9])
def test_a_cut_in_a_thread(open_log: OpenLog, settings: dict[str, int], offset: int) -> None:
    log = ten_batches(open_log, **settings)
    log.complete_cut(in_thread(prepared(log, offset)))
    assert (log.log_end_offset, log.is_cutting) == (offset, False)
    append(log, b"new", leader_epoch=1)
    content = read_all(log)
    log.close()
    assert read_all(open_log(**settings)) == content


def test_nothing_behind_the_cut_is_served_or_counted_from_its_first_moment(open_log: OpenLog) -> None:
    log = ten_batches(open_log, segment_bytes=200)
    size, generation = log.size_in_bytes, log.generation
    job = prepared(log, 5)
    assert (log.log_end_offset, log.is_cutting) == (5, True)
    assert log.size_in_bytes < size
    assert log.generation > generation
    asks: list[Callable[[], object]] = [
        lambda: log.read(2, 100),
        lambda: log.bytes_between(0, 5),
        lambda: offset_for_timestamp(log, NOW_MS),
        lambda: offset_of_max_timestamp(log),
        lambda: log.maybe_increment_log_start_offset(1),
    ]
    for ask in asks:
        with pytest.raises(KafkaError) as caught:
            ask()
        assert caught.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert delete_old_segments(log, 5, NOW_MS * 2) == 0
    log.complete_cut(in_thread(job))
    assert log.bytes_between(0, 5) == log.size_in_bytes


def test_changing_a_log_during_a_cut_is_a_mistake(open_log: OpenLog) -> None:
    log = ten_batches(open_log)
    job = prepared(log, 5)
    acts: list[Callable[[], object]] = [
        lambda: stage(log, batch(b"x")),
        lambda: log.append_as_follower(memoryview(b"")),
        lambda: log.begin_epoch(3),
        log.roll,
        log.prepare_flush,
        lambda: log.prepare_truncation(2),
        lambda: log.prepare_restart(2),
    ]
    for act in acts:
        with pytest.raises(AssertionError):
            act()
    log.complete_cut(in_thread(job))
    append(log, b"x")


def test_a_restart_in_a_thread(open_log: OpenLog) -> None:
    log = ten_batches(open_log, segment_bytes=200)
    job = log.prepare_restart(50)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (50, 50, -1)
    log.complete_cut(in_thread(job))
    append(log, b"x", leader_epoch=4)
    log.flush()
    log.close()
    log = open_log(recovery_point=51, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 51)


def test_only_the_end_of_the_segment_is_read(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log()
    for at in range(20_000):
        stage(log, batch(b"x", producer=(7, 0, at)))
    log.commit()
    read: list[int] = []
    pread = OsFile.pread
    monkeypatch.setattr(OsFile, "pread", lambda file, size, at: (read.append(size), pread(file, size, at))[1])
    log.truncate_to(19_900)
    assert sum(read) < 200_000 < log.size_in_bytes
    entry = log.producers.get(7)
    assert entry is not None
    assert (entry.last_sequence, entry.last_offset) == (19_899, 19_899)


def test_producers_are_what_a_replay_would_tell(open_log: OpenLog) -> None:
    rng = Random(5)
    for turn in range(40):
        log = open_log(segment_bytes=rng.choice([700, 100_000]), index_interval_bytes=150)
        log.truncate_fully_and_start_at(0)
        written: dict[int, tuple[int, int]] = {}
        for _ in range(rng.randrange(1, 120)):
            producer_id = rng.choice([1, 2, 3, rng.randrange(4, 20)])
            epoch, sequence = written.get(producer_id, (0, 0))
            if rng.random() < 0.05:
                epoch, sequence = epoch + 1, 0
            append(log, b"x", producer=(producer_id, epoch, sequence))
            written[producer_id] = epoch, sequence + 1
        before = {entry.producer_id: list(entry.batches) for entry in log.producers.entries}
        offset = rng.randrange(log.log_end_offset)
        log.truncate_to(offset)
        replayed = log.snapshots.load(log.segments, log.log_start_offset, offset)
        assert told(log.producers) == told(replayed), turn
        for entry in log.producers.entries:  # whatever may still be in flight is known
            in_flight = [kept for kept in before[entry.producer_id] if kept.last_offset < offset]
            assert list(entry.batches)[-len(in_flight) :] == in_flight or not in_flight
        log.close()


def told(state: ProducerState) -> dict[int, tuple[int, ...]]:
    def of(entry: ProducerEntry) -> tuple[int, ...]:
        return entry.epoch, entry.last_sequence, entry.last_offset, entry.last_timestamp

    return {entry.producer_id: of(entry) for entry in state.entries}


def test_transactions_are_replayed(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", producer=(7, 0, 0), is_transactional=True)
    append(log, b"b", producer=(7, 0, 1), is_transactional=True)
    append(log, b"c", producer=(8, 0, 0), is_transactional=True)
    log.truncate_to(2)
    assert log.last_stable_offset(2) == 0
    log.truncate_to(0)
    assert log.last_stable_offset(0) == 0
    assert not log.producers.entries


@pytest.mark.parametrize("recorded", [{}, {"segment_bytes": 200}], ids=["one segment", "many"])
def test_damage_before_the_cut_marks_the_replica_and_ends_the_log_there(
    open_log: OpenLog, recorded: dict[str, int]
) -> None:
    log = ten_batches(open_log, **recorded)
    segment = log.segments[log.segments.index_of(2)]
    position, header = find(segment, 2) or (0, None)
    assert header is not None
    with Path(segment.path(".log")).open("r+b") as file:
        file.seek(position)
        file.write(b"\xff" * HEADER_SIZE)
    log.truncate_to(3)
    assert log.log_end_offset == 2
    assert log.corruption is not None
    assert log.corruption.offset == 2
    append(log, b"new", leader_epoch=1)
    assert read_all(log)


def store_in(path: Path) -> LogStore:
    return LogStore.open(OsDisk(), [str(path)], node_id=1, cluster_id="c", new_uuid=uuid4)


def rows(path: Path, name: str) -> str:
    return (path / name).read_text().splitlines()[2]


def with_an_end_of_a_transaction(log: Log, changes: Callable[[bytearray], object]) -> None:
    """In the first of two segments, without a snapshot between them; changed on the disk behind the log's back."""
    append(log, b"a", producer=(7, 0, 0), is_transactional=True)
    marker = build_end_txn_marker(7, 0, EndTxnMarker(is_commit=True, coordinator_epoch=0), timestamp=NOW_MS)
    stage(log, marker)
    log.roll()
    append(log, b"b", producer=(8, 0, 0))
    append(log, b"c", producer=(8, 0, 1))
    log.flush()
    log.snapshots.remove(below=log.log_end_offset)
    path = Path(log.segments[0].path(".log"))
    data = bytearray(path.read_bytes())
    changes(data)
    path.write_bytes(data)


def flip(data: bytearray, at: int) -> None:
    data[at] ^= 1


UNREADABLE: dict[str, Callable[[bytearray], object]] = {
    "a header": lambda data: flip(data, 8),
    "a commit that is an abort": lambda data: flip(data, data.rindex(bytes((0, 0, 0, 1))) + 3),
    "no record": lambda data: flip(data, len(data) - 17),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_damage_that_a_replay_comes_upon_marks_the_replica(open_log: OpenLog, what: str) -> None:
    """Finding: it ended the node. A damaged end of a transaction was taken for another, or stopped the cut."""
    log = open_log()
    with_an_end_of_a_transaction(log, UNREADABLE[what])
    log.complete_cut(in_thread(prepared(log, 3)))
    assert log.log_end_offset == 3
    assert log.corruption is not None
    assert log.corruption.offset == 0
    log.complete_cut(in_thread(prepared(log, log.corruption.offset)))
    log.refetched()
    append(log, b"a", leader_epoch=1)


@pytest.mark.parametrize("what", UNREADABLE)
def test_damage_that_a_start_comes_upon_marks_the_replica(open_log: OpenLog, what: str) -> None:
    log = open_log()
    with_an_end_of_a_transaction(log, UNREADABLE[what])
    log.snapshots.remove(below=log.log_end_offset + 1)
    again = open_log(clean=False, was_killed=True, recovery_point=4)
    assert again.corruption is not None
    assert again.log_end_offset <= 1


@pytest.mark.spec("R22")
def test_what_is_recorded_of_a_log_falls_with_it(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    log = store.create(A, uuid4(), LogConfig())
    for at in range(10):
        append(log, b"%d" % at)
    log.flush()
    write_checkpoints(store, {A: 9})
    log.truncate_to(5)
    assert rows(tmp_path, "recovery-point-offset-checkpoint") == "a 0 5"
    assert rows(tmp_path, "replication-offset-checkpoint") == "a 0 5"


def test_checkpoints_that_were_under_way_do_not_undo_a_cut(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    log = store.create(A, uuid4(), LogConfig())
    for at in range(10):
        append(log, b"%d" % at)
    log.flush()
    store.note_rows(log, 9)
    before = store.prepare_checkpoints()
    job = prepared(log, 5)
    store.note_rows(log, 9)
    during = store.prepare_checkpoints()
    in_thread(job)
    for checkpoints in (before, during):
        checkpoints.run()
        store.complete_checkpoints(checkpoints)
        assert rows(tmp_path, "recovery-point-offset-checkpoint") == "a 0 5"
        assert rows(tmp_path, "replication-offset-checkpoint") == "a 0 5"
    log.complete_cut(job)


@pytest.mark.spec("R4")
def test_a_cut_in_a_gap_ends_where_the_last_batch_does(open_log: OpenLog) -> None:
    """Simulation, seed 40759: the gap came with an offset that had gone wrong. What belongs there was lost."""
    log = open_log()
    for at in range(5):
        append(log, b"%d" % at)
    log.append_as_follower(memoryview(batch(b"far", base_offset=1 << 24, leader_epoch=log.latest_epoch)))
    assert log.log_end_offset == (1 << 24) + 1
    assert log.truncate_to(6)
    assert log.log_end_offset == 5
    assert append(log, b"next").base_offset == 5
    assert open_log(clean=False).log_end_offset == 6
