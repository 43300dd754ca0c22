from __future__ import annotations

import pytest
from storage_batches import NOW_MS, OpenLog, append

from minikafka.storage.disk import OsDisk
from minikafka.storage.dump import (
    Damage,
    DumpedBatch,
    base_offset_of,
    dump_log,
    dump_offset_index,
    dump_producers,
    dump_time_index,
    index_problems,
)


@pytest.fixture
def log_path(open_log: OpenLog) -> str:
    log = open_log(index_interval_bytes=200)
    for at in range(30):
        append(log, b"%d" % at * 5, b"x", timestamp=NOW_MS + at, producer=(7, 0, 2 * at))
    log.close()
    return log.segments[0].path(".log")


def test_batches_and_records(disk: OsDisk, log_path: str) -> None:
    batches = list(dump_log(disk, log_path))
    assert len(batches) == 30
    first = batches[0]
    assert isinstance(first, DumpedBatch)
    assert first.is_valid
    assert [(record.offset, record.value) for record in first.records()] == [(0, b"0" * 5), (1, b"x")]
    assert base_offset_of(log_path) == 0


def test_damage_is_told_batch_by_batch(disk: OsDisk, log_path: str) -> None:
    data = bytearray(disk.read_bytes(log_path))
    data[70] ^= 1
    disk.write_bytes(log_path, data[:-5])
    batches = list(dump_log(disk, log_path))
    assert [isinstance(batch, DumpedBatch) and batch.is_valid for batch in batches] == [False] + [True] * 28 + [False]
    assert isinstance(batches[-1], Damage)
    assert "cut off" in batches[-1].why


def test_indexes_agree_with_the_batches(disk: OsDisk, log_path: str) -> None:
    stem = log_path.removesuffix(".log")
    assert len(dump_offset_index(disk, stem + ".index")) > 5
    assert dump_time_index(disk, stem + ".timeindex")[-1] == (NOW_MS + 29, 59)
    assert index_problems(disk, log_path) == []


def test_zeros_follow_the_last_entry_in_an_active_segment_of_apache_kafka(disk: OsDisk, log_path: str) -> None:
    stem = log_path.removesuffix(".log")
    for kind, dump, entry_bytes in ((".index", dump_offset_index, 8), (".timeindex", dump_time_index, 12)):
        entries = list(dump(disk, stem + kind))
        disk.write_bytes(stem + kind, disk.read_bytes(stem + kind) + bytes(1000 * entry_bytes))
        assert list(dump(disk, stem + kind)) == entries
        disk.write_bytes(stem + kind, bytes(1000 * entry_bytes))
        assert list(dump(disk, stem + kind)) == []


def test_indexes_that_disagree(disk: OsDisk, log_path: str) -> None:
    stem = log_path.removesuffix(".log")
    for kind, at, expected in ((".index", 7, "the index puts"), (".timeindex", 7, "the time index puts")):
        good = disk.read_bytes(stem + kind)
        bad = bytearray(good)
        bad[at] ^= 1
        disk.write_bytes(stem + kind, bad)
        problems = index_problems(disk, log_path)
        assert len(problems) == 1
        assert expected in problems[0]
        disk.write_bytes(stem + kind, good)


def test_a_snapshot_of_producers_is_dumped(disk: OsDisk, directory: str, log_path: str) -> None:
    (entry,) = dump_producers(disk, f"{directory}/{60:020d}.snapshot")
    assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (7, 59, 59)
