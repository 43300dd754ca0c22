"""Cold reads and look-ups by time: in a thread, within budgets, and of use only while the log is as it was."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest
from at_once import delete_old_segments, offset_for_timestamp, offset_of_max_timestamp
from storage_batches import NOW_MS, OpenLog, append, batch, headers_in, stage

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression
from minikafka.records.batch import HEADER_SIZE, BatchHeader, Buffer, parse_header
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage import read_jobs, timestamps, verifying
from minikafka.storage.disk import OsDisk, OsFile
from minikafka.storage.log import Log, ReadJob
from minikafka.storage.segment import Segment
from minikafka.storage.segment_cache import SegmentCache

MANY = {"segment_bytes": 300, "index_interval_bytes": 100}


def restarted(open_log: OpenLog, count: int = 20, **settings: object) -> Log:
    log = open_log(**settings)
    for at in range(count):
        append(log, b"%d" % at, timestamp=NOW_MS + at)
    log.close()
    return open_log(**settings)


def in_thread(job: ReadJob[object]) -> None:
    thread = threading.Thread(target=job.run)
    thread.start()
    thread.join()


def cold(log: Log, offset: int) -> ReadJob[None]:
    job = log.prepare_read(offset, 200)
    assert job is not None
    return job


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads that read files."""
    names: list[str] = []
    for owner, name in ((OsFile, "pread"), (OsDisk, "read_bytes")):
        original = getattr(owner, name)

        def read(self: object, *args: object, _original: Callable[..., bytes] = original) -> bytes:
            names.append(threading.current_thread().name)
            return _original(self, *args)

        monkeypatch.setattr(owner, name, read)
    return names


@pytest.mark.parametrize("settings", [{}, MANY], ids=["one segment", "many"])
@pytest.mark.parametrize("offset", [0, 7, 18])
def test_a_cold_read_is_made_ready_in_a_thread(
    open_log: OpenLog, settings: dict[str, int], offset: int, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = restarted(open_log, **settings)
    reads.clear()
    job = cold(log, offset)
    assert not reads, "preparing reads nothing"
    in_thread(job)
    log.complete_read(job)
    monkeypatch.setattr(verifying, "scan_batches", lambda *_: pytest.fail("a checksum on the loop"))
    assert log.prepare_read(offset, 200) is None
    found = headers_in(log.read(offset, 200).read())
    assert found[0].base_offset == offset
    assert log.prepare_read(log.log_end_offset, 200) is None


def test_what_this_process_appended_is_never_cold(open_log: OpenLog) -> None:
    log = open_log()
    for at in range(5):
        append(log, b"%d" % at)
    assert log.prepare_read(0, 1 << 20) is None


def test_damage_that_a_cold_read_finds_marks_the_replica(open_log: OpenLog) -> None:
    log = restarted(open_log, **MANY)
    path = Path(log.segments[1].path(".log"))
    with path.open("r+b") as file:
        file.seek(HEADER_SIZE + 5)
        file.write(b"\xff")
    job = cold(log, log.segments[1].base_offset)
    in_thread(job)
    with pytest.raises(KafkaError) as caught:
        log.complete_read(job)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.corruption is not None


def test_a_log_that_changed_under_a_read_is_not_taken_for_damaged(open_log: OpenLog) -> None:
    log = restarted(open_log, **MANY)
    base = log.segments[1].base_offset
    changes: list[Callable[[], object]] = [
        lambda: log.truncate_to(base + 1),
        lambda: (log.maybe_increment_log_start_offset(log.log_end_offset), delete_old_segments(log, 99, NOW_MS)),
    ]
    for change in changes:
        job = log.prepare_timestamp_lookup(NOW_MS + base + 1)
        change()
        in_thread(job)
        with pytest.raises(KafkaError) as caught:
            log.complete_read(job)
        assert caught.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
        assert log.corruption is None
        for at in range(20):
            append(log, b"%d" % at, timestamp=NOW_MS + at, leader_epoch=1)


def test_a_look_up_after_a_restart_loads_indexes_in_its_thread(open_log: OpenLog, reads: list[str]) -> None:
    log = restarted(open_log, **MANY)
    reads.clear()
    job = log.prepare_timestamp_lookup(NOW_MS + 13)
    in_thread(job)
    found = log.complete_read(job)
    assert found is not None
    assert found.offset == 13
    assert threading.current_thread().name not in reads
    newest = log.prepare_max_timestamp_lookup()
    reads.clear()
    in_thread(newest)
    assert log.complete_read(newest) == (NOW_MS + 19, 19, 0)
    assert len(reads) < 10, "the largest timestamps are remembered"


def test_a_segment_keeps_the_indexes_that_it_was_closed_with(open_log: OpenLog) -> None:
    """Those of a job are older if it began before: times behind were not found any more, and retention came early."""
    settings = {"index_interval_bytes": 1}
    log = restarted(open_log, **settings)
    for at in range(3_000):  # more than the tail has
        append(log, b"x", timestamp=NOW_MS + 20 + at)
    job = cold(log, 0)
    job.run()
    append(log, b"last", timestamp=NOW_MS + 9_999)
    log.roll()
    log.complete_read(job)
    log.close()
    log = open_log(**settings)
    assert log.segments[0].max_timestamp == (NOW_MS + 9_999, 3_020)
    found = offset_for_timestamp(log, NOW_MS + 9_000)
    assert found is not None
    assert found.offset == 3_020


def test_retention_learns_ages_in_a_thread(open_log: OpenLog, reads: list[str]) -> None:
    settings = {**MANY, "retention_ms": 10}
    log = restarted(open_log, **settings)
    reads.clear()
    job = log.prepare_retention(NOW_MS + 20)
    assert job is not None
    in_thread(job)
    log.complete_read(job)
    assert log.prepare_retention(NOW_MS + 20) is None
    assert delete_old_segments(log, 20, NOW_MS + 20) > 1
    assert threading.current_thread().name not in reads


def test_sizes_are_told_from_memory(open_log: OpenLog, reads: list[str]) -> None:
    log = restarted(open_log, **MANY)
    reads.clear()
    assert log.bytes_between(0, 20) == log.size_in_bytes
    assert 0 < log.bytes_between(3, 9) < log.size_in_bytes
    assert not reads


def test_a_header_that_tells_spares_the_records(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log()
    for at in range(3):
        append(log, b"a", b"b", timestamp=NOW_MS + at)
    monkeypatch.setattr(timestamps, "iter_records", lambda *_, **__: pytest.fail("a batch was opened"))
    assert offset_for_timestamp(log, NOW_MS + 1) == (NOW_MS + 1, 2, 0)
    assert offset_of_max_timestamp(log) == (NOW_MS + 2, 4, 0)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_a_batch_of_too_many_records_is_opened_up_to_a_budget(
    open_log: OpenLog, codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timestamps, "RECORDS_MAX", 100)
    log = open_log()
    append(log, b"before", timestamp=NOW_MS)
    stage(log, build_batch([Record(0, NOW_MS + at, None, None) for at in range(1000)], compression=codec))
    log.commit()
    assert offset_for_timestamp(log, NOW_MS + 50) == (NOW_MS + 50, 51, 0)
    assert offset_for_timestamp(log, NOW_MS + 500) == (NOW_MS + 999, 1, 0), "the batch stands for the record in it"
    monkeypatch.setattr(timestamps, "BYTES_MAX", 1000)
    if codec is not Compression.NONE:
        assert offset_for_timestamp(log, NOW_MS + 50) == (NOW_MS + 999, 1, 0)


@pytest.mark.spec("P6")
def test_a_look_up_opens_no_more_than_a_tenth_of_a_second_of_a_batch(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record costs a microsecond, and a thread of four is busy meanwhile. A batch may have 2,000,000 (row 4)."""
    opened, bytes_max = 0, []

    def without_end(_batch: Buffer, _at: int, header: BatchHeader, *, max_bytes: int, **_: object) -> Iterator[Record]:
        nonlocal opened
        bytes_max.append(max_bytes)
        while True:
            opened += 1
            yield Record(header.base_offset, NOW_MS, None, None)

    log = open_log()
    stage(log, build_batch([Record(0, NOW_MS + at, None, None) for at in range(3)]))
    log.commit()
    monkeypatch.setattr(timestamps, "iter_records", without_end)
    assert offset_for_timestamp(log, NOW_MS + 1) == (NOW_MS + 2, 0, 0)
    assert opened == 100_001
    assert bytes_max == [16 << 20]


def test_a_batch_that_holds_no_records_stands_for_them(open_log: OpenLog) -> None:
    log = open_log()
    data = batch(b"a", b"b", b"c")
    data[61:] = b"\xff" * (len(data) - 61)
    data[27:35] = (NOW_MS - 1).to_bytes(8, "big")  # the first timestamp does not tell
    assert parse_header(data).record_count == 3
    stage(log, data)
    log.commit()
    assert offset_for_timestamp(log, NOW_MS) == (NOW_MS, 0, 0)


def test_a_job_copies_no_closed_segment_that_it_does_not_look_into(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of thousands, before: 5 us of the loop and 200 bytes for each."""
    log = restarted(open_log, **MANY)
    copied = []
    copy = Segment.copy

    def note(segment: Segment, cache: SegmentCache) -> Segment:
        copied.append(segment.base_offset)
        return copy(segment, cache)

    monkeypatch.setattr(Segment, "copy", note)
    job = log.prepare_timestamp_lookup(NOW_MS)
    assert copied == [log.segments.active.base_offset]
    in_thread(job)
    assert log.complete_read(job) is not None
    assert copied[1:] == [0]


def look_up(log: Log) -> None:
    job = log.prepare_timestamp_lookup(NOW_MS + 7)
    in_thread(job)
    assert log.complete_read(job) is not None


def read_twice(log: Log) -> None:
    for segment in log.segments:
        segment.cool()
    jobs = [cold(log, 7), cold(log, 7)]
    for job in jobs:
        in_thread(job)
        log.complete_read(job)


def leave(log: Log) -> None:
    in_thread(cold(log, 7))  # its client has gone


def find_damage(log: Log) -> None:
    path = Path(log.segments[0].path(".log"))
    path.write_bytes(bytes(path.stat().st_size))
    job = log.prepare_timestamp_lookup(NOW_MS)
    in_thread(job)
    with pytest.raises(KafkaError):
        log.complete_read(job)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not tell which files are open")
@pytest.mark.parametrize("run", [look_up, read_twice, leave, find_damage])
def test_a_job_keeps_no_file_open(open_log: OpenLog, run: Callable[[Log], None]) -> None:
    """Each kept one until a garbage collection, of which a node makes few: a client could take all descriptors."""
    log = restarted(open_log, **MANY)
    gc.disable()
    try:
        for _ in range(3):
            run(log)
        assert open_files(log) == len([segment for segment in log.segments if segment.open_file is not None])
    finally:
        gc.enable()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not tell which files are open")
def test_a_job_opens_few_files_at_once(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many segments it goes through."""
    log = restarted(open_log, **MANY)
    before, most = open_files(log), []

    def go_through(segments: Iterable[Segment]) -> None:
        for segment in segments:
            assert segment.file
            most.append(open_files(log) - before)

    monkeypatch.setattr(read_jobs, "SegmentCache", partial(SegmentCache, 2))
    in_thread(ReadJob(log, log.segments, go_through, keeps_indexes=False))
    assert len(most) > 3
    assert max(most) == 2


def open_files(log: Log) -> int:
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    paths = [os.readlink(link) for link in links if os.path.lexists(link)]
    return len([path for path in paths if path.startswith(f"{log.directory}/")])
