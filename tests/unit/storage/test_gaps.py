"""A topic that was compacted once, and is not any more: its gaps stay, and are no damage (row 5 of issue 11)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from at_once import complete_compaction, reconcile, seal
from storage_batches import NOW_MS, all_values, append, batch, headers_in, read_all, stage

from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log
from minikafka.storage.log_ends import Noted
from minikafka.storage.moving import ReplicaMove
from minikafka.storage.segment_list import SEGMENTS_FILE

SEGMENT_BYTES = 600
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, segment_bytes=SEGMENT_BYTES)
DELETE = LogConfig(cleanup_policy=frozenset({"delete"}), segment_bytes=SEGMENT_BYTES)


@pytest.fixture
def log(disk: OsDisk, directory: str) -> Log:
    """Cleaned, and written to since its policy changed."""
    log = Log.open(disk, directory, TopicPartition("orders", 0), COMPACT, last_stop=LastStop(is_clean=True))
    for at in range(60):
        key = b"once %d" % at if at % 4 == 0 else b"again"
        stage(log, batch(b"%d" % at * 10, keys=(key,)), leader_epoch=at // 20)
        log.commit()
    clean(log)
    log.config = DELETE
    for at in range(9):
        append(log, b"later %d" % at * 10, leader_epoch=3)
    bases = {segment.base_offset for segment in log.segments.closed}
    gaps = [range(before + 1, after) for before, after in pairwise(all_values(log)) if after > before + 1]
    assert any(bases & set(gap[1:]) for gap in gaps), "a segment ends in a gap"
    assert any(gap[0] in bases for gap in gaps), "one begins with a gap"
    assert any(not bases & set(gap) for gap in gaps), "one has a gap inside"
    return log


def clean(log: Log, *, keeps_epochs: bool = True) -> None:
    """``keeps_epochs``: with a batch for the beginning of each leader epoch, which Apache Kafka does not keep."""
    log.flush()
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    if not keeps_epochs:
        job._epoch_starts = frozenset()
    while not job.step():
        pass
    assert log.prepare_swap(job)
    job.publish()
    assert complete_compaction(log, job)


@pytest.fixture
def emptied(disk: OsDisk, directory: str) -> Log:
    """Nothing is behind offset 2 any more, up to the log's end at 8: records without a key, of three leader epochs."""
    log = Log.open(disk, directory, TopicPartition("orders", 0), COMPACT, last_stop=LastStop(is_clean=True))
    for at in range(8):
        stage(log, batch(b"%d" % at, keys=(b"key" if at < 3 else None,)), leader_epoch=at // 3)
        log.commit()
    log.roll()
    clean(log, keeps_epochs=False)
    assert [header.base_offset for header in headers_in(Path(log.segments[0].path(".log")).read_bytes())] == [2]
    return log


def opened(log: Log, **last_stop: object) -> Log:
    """Opened again, with the policy that it has now."""
    tp = log.topic_partition
    return Log.open(OsDisk(), log.directory, tp, DELETE, last_stop=LastStop(**last_stop))  # type: ignore[arg-type]


def fetched(leader: Log, directory: Path, size: int) -> Log:
    """What a follower has that began with nothing."""
    directory.mkdir()
    log = Log.open(OsDisk(), str(directory), leader.topic_partition, DELETE, last_stop=LastStop(is_clean=True))
    while log.log_end_offset < leader.log_end_offset:
        found = leader.read(log.log_end_offset, size)
        assert found.size, "a follower gets on"
        end_offset = leader.end_of(log.log_end_offset, found)
        log.append_as_follower(memoryview(bytearray(found.read())), end_offset=end_offset)
    return log


@pytest.mark.spec("P1")
@pytest.mark.spec("P5")
@pytest.mark.parametrize("was_killed", [True, False], ids=["killed", "power cut"])
@pytest.mark.parametrize("is_flushed", [True, False], ids=["flushed", "not flushed since"])
@pytest.mark.parametrize("knows_recovery_point", [True, False], ids=["recovery point", "recovery point lost"])
def test_a_log_with_gaps_is_recovered_whole(
    log: Log, was_killed: bool, is_flushed: bool, knows_recovery_point: bool
) -> None:
    if is_flushed:
        log.flush()
    expected, epochs, end = all_values(log), log.epoch_entries, log.log_end_offset
    recovery_point = log.recovery_point if knows_recovery_point else 0
    noted = Noted(end, log.segments[0].base_offset) if was_killed else None
    for _ in range(2):  # what a recovery leaves is recovered, too
        again = opened(log, was_killed=was_killed, recovery_point=recovery_point, noted=noted, high_watermark=end)
        assert again.corruption is None
        assert again.is_cleaned or recovery_point, "it sees the gaps in what it reads"
        assert (again.log_end_offset, all_values(again), again.epoch_entries) == (end, expected, epochs)


@pytest.mark.spec("P5")
@pytest.mark.parametrize("recovery_point", [0, 60])
def test_a_cleaned_log_whose_list_is_lost_as_well_is_fetched_again(log: Log, recovery_point: int) -> None:
    """Nothing tells its gaps from lost segments then. It is fetched again: closed.check_unlisted."""
    log.flush()
    Path(log.directory, SEGMENTS_FILE).unlink()
    again = opened(log, was_killed=True, recovery_point=recovery_point)
    assert again.corruption is not None


@pytest.mark.spec("R11")
@pytest.mark.spec("P1")
@pytest.mark.parametrize("size", [1, 700, 1 << 20])
@pytest.mark.parametrize("is_flushed", [True, False], ids=["flushed", "not flushed"])
def test_a_follower_that_began_with_nothing_has_the_same_gaps_and_recovers_them(
    log: Log, tmp_path: Path, size: int, is_flushed: bool
) -> None:
    follower = fetched(log, tmp_path / "follower-0", size)
    assert len(follower.segments) > 3
    if is_flushed:
        follower.flush()
    expected, epochs = all_values(log), log.epoch_entries
    assert (all_values(follower), follower.epoch_entries, follower.log_end_offset) == (expected, epochs, 69)
    for recovery_point in {0, follower.recovery_point}:
        again = opened(follower, was_killed=True, recovery_point=recovery_point, noted=Noted(69, 0), high_watermark=69)
        assert again.corruption is None
        assert (all_values(again), again.epoch_entries, again.log_end_offset) == (expected, epochs, 69)


@pytest.mark.spec("R11")
@pytest.mark.spec("R13")
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_follower_of_a_log_that_ends_in_a_gap_gets_to_its_end(emptied: Log, tmp_path: Path, size: int) -> None:
    """It ended where the last batch does, below the high watermark, and was never in sync again."""
    follower = fetched(emptied, tmp_path / "follower-0", size)
    assert (follower.log_end_offset, follower.epoch_entries[1:]) == (8, emptied.epoch_entries[1:])
    assert all_values(follower) == all_values(emptied) == {2: b"2"}
    for offset in range(9):
        epoch = follower.epoch_for_offset(offset)
        assert follower.end_offset_for_epoch(epoch) == emptied.end_offset_for_epoch(epoch)
    again = opened(follower, was_killed=True, noted=Noted(8, 0), high_watermark=8)
    assert again.corruption is None
    assert (again.log_end_offset, all_values(again)) == (8, {2: b"2"})


@pytest.mark.spec("R15")
def test_whoever_reads_on_in_a_gap_gets_as_far_as_it_may(emptied: Log) -> None:
    """An empty batch for each leader epoch, up to the limit of the read."""
    spans = [(header.base_offset, header.next_offset, header.leader_epoch) for header in headers_in(read_all(emptied))]
    assert spans == [(2, 3, 0), (3, 6, 1), (6, 8, 2)]
    found = emptied.read(4, 1 << 20, max_offset=5)
    assert (headers_in(found.read())[0].next_offset, emptied.end_of(4, found)) == (5, 5)
    assert emptied.read(4, 1, max_offset=4).size == 0
    assert emptied.read(4, 60, min_one_batch=False).size == 0
    assert emptied.read(4, 61, min_one_batch=False).size == 61
    append(emptied, b"and on", b"and on", leader_epoch=2)
    assert headers_in(emptied.read(4, 1).read())[0].base_offset == 8
    for limit in (7, 8, 9):
        found = emptied.read(6, 1, max_offset=limit)
        assert emptied.end_of(6, found) == min(limit, 8), "the next batch ends behind the limit"


@pytest.mark.spec("R15")
@pytest.mark.spec("E1")
def test_a_gap_in_which_the_log_starts_is_of_the_leader_epoch_that_it_starts_in(emptied: Log, tmp_path: Path) -> None:
    """It was of none, and so were the fetches of a replica that began with it."""
    emptied.maybe_increment_log_start_offset(5)
    (header,) = headers_in(emptied.read(3, 1, from_first_batch=True).read())
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (3, 6, 1)


def test_a_gap_inside_a_segment_is_read_over_up_to_the_limit(log: Log) -> None:
    """A consumer stood in front of it, and in a closed segment its fetch was answered at once with nothing."""
    begin, end = next(
        (before + 1, after)
        for before, after in pairwise(all_values(log))
        if after > before + 1
        and not {segment.base_offset for segment in log.segments} & {*range(before + 1, after + 1)}
    )
    found = log.read(begin, 1, max_offset=end)
    assert (found.size, log.end_of(begin, found)) == (61, end)
    assert log.read(begin, 1, max_offset=end, min_one_batch=False).size == 0


@pytest.mark.spec("P5")
def test_the_end_of_a_segment_that_somebody_cut_is_no_gap(emptied: Log) -> None:
    segment = emptied.segments[0]
    with Path(segment.path(".log")).open("r+b") as file:
        file.truncate(0)
    with pytest.raises(KafkaError):
        emptied.read(2, 1)
    assert emptied.corruption is not None


@pytest.mark.spec("A5")
def test_a_copy_of_a_log_that_ends_in_a_gap_is_complete(emptied: Log, disk: OsDisk, tmp_path: Path) -> None:
    copy = Log.open(disk, str(tmp_path / "orders-0.copy"), emptied.topic_partition, COMPACT)
    move = ReplicaMove(emptied, copy)
    for _ in range(4):
        reconcile(move)
        move.append(move.next_slice(1 << 20).read())
    assert move.is_caught_up
    seal(move)
    assert (all_values(copy), copy.epoch_entries) == ({2: b"2"}, emptied.epoch_entries)


@pytest.mark.spec("P1")
@pytest.mark.parametrize("was_killed", [True, False], ids=["killed", "power cut"])
def test_a_log_that_ends_in_a_gap_is_recovered_whole(emptied: Log, was_killed: bool) -> None:
    noted = Noted(8, 0) if was_killed else None
    again = opened(emptied, was_killed=was_killed, recovery_point=8, noted=noted, high_watermark=8)
    assert again.corruption is None
    assert (again.log_end_offset, read_all(again)) == (8, read_all(emptied))


@pytest.mark.spec("R4")
@pytest.mark.parametrize("was_killed", [True, False], ids=["killed", "power cut"])
def test_a_cut_behind_a_gap_that_a_segment_begins_with_ends_where_the_segment_does(
    emptied: Log, was_killed: bool
) -> None:
    """The log seemed to end at the cut, with nothing in its files that reached so far: damage, for the next start."""
    append(emptied, b"and on", leader_epoch=2)
    emptied.truncate_to(2)
    assert (emptied.log_end_offset, emptied.recovery_point) == (0, 0)
    assert read_all(emptied) == b""
    again = opened(emptied, was_killed=was_killed, recovery_point=emptied.recovery_point, noted=Noted(0, 0))
    assert (again.corruption, again.log_end_offset) == (None, 0)
