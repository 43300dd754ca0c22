from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storage_batches import OpenLog, append, batch

from minikafka.model import UNDEFINED_OFFSET_AND_EPOCH, OffsetAndEpoch
from minikafka.storage.disk import OsDisk
from minikafka.storage.epochs import FILE_NAME, EpochEntry, LeaderEpochCache

BEYOND = (f"0\n1\n{2**31} 0\n", f"0\n1\n{10**30} 0\n", "0\n1\n-1 0\n", f"0\n1\n0 {2**63}\n", "0\n1\n0 -1\n")


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache([EpochEntry(*entry) for entry in entries])


@pytest.mark.spec("E2")
@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, UNDEFINED_OFFSET_AND_EPOCH),
        (9, OffsetAndEpoch(500, 9)),
        (10, UNDEFINED_OFFSET_AND_EPOCH),
        (1, OffsetAndEpoch(10, 1)),
        (2, OffsetAndEpoch(40, 2)),
        (4, OffsetAndEpoch(40, 2)),
        (5, OffsetAndEpoch(90, 5)),
        (8, OffsetAndEpoch(90, 5)),
    ],
    ids=["undefined", "latest", "larger", "before the first", "first", "between", "known", "just before the latest"],
)
def test_end_offset_of_an_epoch(epoch: int, expected: OffsetAndEpoch) -> None:
    assert cache((2, 10), (5, 40), (9, 90)).end_offset_for(epoch, 500) == expected


@pytest.mark.spec("E2")
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 20)), min_size=1, max_size=8),
    st.integers(-1, 40),
    st.integers(0, 50),
)
def test_end_offset_agrees_with_a_naive_twin(steps: list[tuple[int, int]], epoch: int, behind: int) -> None:
    entries, last_epoch, last_start = [], -1, 0
    for epoch_step, start_step in steps:
        last_epoch, last_start = last_epoch + epoch_step, last_start + start_step
        entries.append((last_epoch, last_start))
    log_end_offset = last_start + behind
    found = cache(*entries).end_offset_for(epoch, log_end_offset)
    if epoch == -1 or epoch > last_epoch:
        assert found == UNDEFINED_OFFSET_AND_EPOCH
    elif epoch == last_epoch:
        assert found == (log_end_offset, epoch)
    elif epoch < entries[0][0]:
        assert found == (entries[0][1], epoch)
    else:
        floor = max(entry for entry in entries if entry[0] <= epoch)
        after = min(entry for entry in entries if entry[0] > epoch)
        assert found == (after[1], floor[0])


def test_an_empty_cache_knows_nothing() -> None:
    assert cache().end_offset_for(0, 10) == UNDEFINED_OFFSET_AND_EPOCH
    for epoch in (-1, -2, -(2**31)):
        assert cache().end_offset_for(epoch, 10) == UNDEFINED_OFFSET_AND_EPOCH
    assert cache().epoch_for(3) == -1
    assert cache().latest_epoch == -1


def test_epoch_of_an_offset() -> None:
    known = cache((2, 10), (5, 40))
    assert [known.epoch_for(offset) for offset in (9, 10, 39, 40, 1000)] == [-1, 2, 2, 5, 5]


@pytest.mark.spec("E1")
def test_assigning_drops_what_contradicts() -> None:
    known = cache((2, 10), (5, 40), (9, 90))
    known.assign(9, 95)
    assert known.entries == [(2, 10), (5, 40), (9, 90)]
    known.assign(10, 40)
    assert known.entries == [(2, 10), (10, 40)]
    known.assign(11, 50)
    assert known.latest_epoch == 11


@pytest.mark.spec("E1")
def test_truncation_at_both_ends() -> None:
    known = cache((2, 10), (5, 40), (9, 90))
    known.truncate_from_end(90)
    assert known.entries == [(2, 10), (5, 40)]
    known.truncate_from_end(41)
    assert known.entries == [(2, 10), (5, 40)]
    known.truncate_from_start(20)
    assert known.entries == [(2, 20), (5, 40)]
    known.truncate_from_start(40)
    assert known.entries == [(5, 40)]
    known.truncate_from_start(60)
    assert known.entries == [(5, 60)]
    known.truncate_from_start(30)
    assert known.entries == [(5, 60)]
    known.clear()
    assert known.entries == []


def test_the_file_is_kafkas_but_for_its_checksum(disk: OsDisk, tmp_path: Path) -> None:
    known = LeaderEpochCache()
    known.assign(0, 0)
    known.assign(3, 17)
    known.store(disk, str(tmp_path))
    assert (tmp_path / FILE_NAME).read_text() == "0\n2\n0 0\n3 17\ncrc32c abab4e97\n"
    loaded = LeaderEpochCache.load(disk, str(tmp_path))
    assert loaded is not None
    assert loaded.entries == [(0, 0), (3, 17)]


def test_the_file_is_written_only_when_something_changed(disk: OsDisk, tmp_path: Path) -> None:
    known = cache((0, 0))
    known.assign(0, 5)
    known.truncate_from_end(10)
    known.store(disk, str(tmp_path))
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize(
    "text", ["", "0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\na b\n", "0\n2\n3 0\n2 5\n", "0\n1\n3\n", *BEYOND]
)
def test_a_damaged_file_is_not_believed(disk: OsDisk, tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    assert LeaderEpochCache.load(disk, str(tmp_path)) is None


def test_no_flipped_bit_makes_another_file_of_it(disk: OsDisk, tmp_path: Path) -> None:
    known = LeaderEpochCache()
    known.assign(0, 0)
    known.assign(3, 17)
    known.store(disk, str(tmp_path))
    whole = (tmp_path / FILE_NAME).read_bytes()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / FILE_NAME).write_bytes(damaged)
        assert LeaderEpochCache.load(disk, str(tmp_path)) is None, bytes(damaged)


def test_a_file_without_a_checksum_is_of_kafka_or_an_older_version(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("0\n2\n0 0\n2147483647 17\n")
    loaded = LeaderEpochCache.load(disk, str(tmp_path))
    assert loaded is not None
    assert loaded.entries == [(0, 0), (2**31 - 1, 17)]


@pytest.mark.spec("E1")
def test_an_entry_is_made_by_the_first_batch_of_an_epoch_on_leader_and_follower(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", b"b", leader_epoch=1)
    append(log, b"c", leader_epoch=1)
    append(log, b"d", leader_epoch=4)
    follow = bytes(batch(b"e", base_offset=4, leader_epoch=4) + batch(b"f", base_offset=5, leader_epoch=6))
    log.append_as_follower(memoryview(follow))
    assert log.epoch_entries == [(1, 0), (4, 3), (6, 5)]
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(3, 1)
    assert log.end_offset_for_epoch(6) == OffsetAndEpoch(6, 6)
    log.truncate_to(4)
    assert log.epoch_entries == [(1, 0), (4, 3)]
    assert log.latest_epoch == 4
    log.maybe_increment_log_start_offset(2)
    assert log.epoch_entries == [(1, 2), (4, 3)]


@pytest.mark.spec("E5")
def test_the_worked_example_of_fast_leader_changes(open_log: OpenLog, disk: OsDisk, tmp_path: Path) -> None:
    """A has (epoch 1) offsets 0..6, is told that epoch 1 ends at 5, cuts, and takes 5..7 of epoch 2."""
    log = open_log()
    for _ in range(7):
        append(log, b"epoch 1", leader_epoch=1)
    assert log.latest_epoch == 1
    log.truncate_to(5)
    assert log.log_end_offset == 5
    for offset in (5, 6, 7):
        log.append_as_follower(memoryview(batch(b"epoch 2", base_offset=offset, leader_epoch=2)))
    assert log.epoch_entries == [(1, 0), (2, 5)]
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(5, 1)


def test_an_epoch_begun_without_an_append_goes_when_the_new_leader_contradicts_it(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", leader_epoch=6)
    log.begin_epoch(7)
    assert log.latest_epoch == 7
    assert log.end_offset_for_epoch(6) == OffsetAndEpoch(1, 6)
    assert not log.truncate_to(1)
    assert log.latest_epoch == 6
    log.append_as_follower(memoryview(batch(b"b", base_offset=1, leader_epoch=6)))
    assert log.epoch_entries == [(6, 0)]
