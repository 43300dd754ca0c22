"""Where what was read ends, as the log knows: a base offset that rises on the disk moves it nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from at_once import reconcile
from storage_batches import OpenLog, append, batch, headers_in, read_all

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.storage import tail
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log
from minikafka.storage.moving import ReplicaMove
from minikafka.storage.positions import find

BATCHES = 30
SHAPES = {
    "one segment": {},
    "many segments": {"segment_bytes": 700, "index_interval_bytes": 150},
}


def written(open_log: OpenLog, shape: str, *, is_reopened: bool = False) -> Log:
    """Batches of one to three records. A log that was opened again remembers none of them."""
    log = open_log(**SHAPES[shape])
    for at in range(BATCHES):
        append(log, *[b"%d" % at] * (1 + at % 3))
    if is_reopened:
        log.close()
        log = open_log(recovery_point=log.log_end_offset, **SHAPES[shape])
    return log


def raise_base_offset(log: Log, offset: int, by: int) -> None:
    """On the disk alone."""
    for segment in log.segments.since(offset):
        found = find(segment, offset)
        if found is not None:
            path = Path(segment.path(".log"))
            data = bytearray(path.read_bytes())
            data[found[0] : found[0] + 8] = (found[1].base_offset + by).to_bytes(8, "big")
            path.write_bytes(data)
            return


@pytest.fixture
def follower(tmp_path: Path) -> Log:
    (tmp_path / "follower-0").mkdir()
    return Log.open(
        OsDisk(),
        str(tmp_path / "follower-0"),
        TopicPartition("orders", 0),
        LogConfig(),
        last_stop=LastStop(is_clean=True),
    )


@pytest.mark.spec("P5")
@pytest.mark.parametrize("is_reopened", [False, True], ids=["remembered", "opened again"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_slice_ends_where_its_last_batch_does(
    open_log: OpenLog, shape: str, is_reopened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "CAPACITY", 8)  # most are forgotten
    log = written(open_log, shape, is_reopened=is_reopened)
    sizes = [sum(header.size_in_bytes for header in headers_in(read_all(log))[:count]) for count in (1, 2, 5, 50)]
    for header in headers_in(read_all(log)):
        for size in sizes:
            found = log.read(header.base_offset, size)
            assert log.end_of(header.base_offset, found) == headers_in(found.read())[-1].next_offset


@pytest.mark.spec("P5")
@pytest.mark.parametrize("by", [1, 2, 5])
@pytest.mark.parametrize("victim", [0, 1, 13, BATCHES - 1])
@pytest.mark.parametrize("is_reopened", [False, True], ids=["remembered", "opened again"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_base_offset_that_rose_is_refused_by_followers_and_found_by_the_leader(
    open_log: OpenLog, follower: Log, shape: str, is_reopened: bool, victim: int, by: int
) -> None:
    """It was taken for a gap of the cleaner's: the follower lacked records, and stayed in the ISR."""
    log = written(open_log, shape, is_reopened=is_reopened)
    whole = headers_in(read_all(log))  # and each was verified
    offset = whole[victim].base_offset
    before = read_all(log, 0)[: sum(header.size_in_bytes for header in whole[:victim])]
    if victim:
        follower.append_as_follower(memoryview(before))
    raise_base_offset(log, offset, by)
    try:
        found = log.read(offset, 1)
    except KafkaError:  # it lies across the end of its segment, which the walk to it knows
        assert log.corruption is not None
        return
    with pytest.raises(KafkaError, match="the leader says") as refused:
        follower.append_as_follower(memoryview(found.read()), end_offset=log.end_of(offset, found))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE, "and the leader is asked again"
    assert follower.log_end_offset == offset
    job = log.prepare_verification(offset, found.size)
    assert job is not None
    job.run()
    with pytest.raises(KafkaError):
        log.complete_read(job)
    assert log.corruption is not None


@pytest.mark.spec("P5")
@pytest.mark.spec("A5")
def test_a_copy_in_another_directory_does_not_take_it(open_log: OpenLog, follower: Log) -> None:
    log = written(open_log, "one segment")
    raise_base_offset(log, 0, 1)
    move = ReplicaMove(log, follower)
    reconcile(move)
    with pytest.raises(KafkaError, match="the leader says"):
        move.append(move.next_slice(1).read())
    assert follower.log_end_offset == 0


def test_gaps_of_the_cleaner_are_taken(open_log: OpenLog, follower: Log) -> None:
    log = open_log(index_interval_bytes=100)
    for base_offset in (3, 10, 11, 40):
        log.append_as_follower(memoryview(batch(b"x" * 80, base_offset=base_offset, leader_epoch=0)))
    log.close()
    log = open_log(recovery_point=41, index_interval_bytes=100)
    for expected, at_most in ((4, 10), (11, 11), (12, 40), (41, 41)):
        start = follower.log_end_offset
        found = log.read(start, 1)
        end = log.end_of(start, found)
        assert expected <= end <= at_most
        follower.append_as_follower(memoryview(found.read()), end_offset=end)
        assert follower.log_end_offset == expected


def test_a_header_that_cannot_be_read_limits_nothing_within_its_segment(open_log: OpenLog) -> None:
    log = written(open_log, "one segment", is_reopened=True)
    headers = headers_in(read_all(log))
    found = log.read(0, 1)
    path = Path(log.segments.active.path(".log"))
    data = bytearray(path.read_bytes())
    data[headers[0].size_in_bytes + 16] ^= 1  # the magic of the second batch
    path.write_bytes(data)
    assert log.end_of(0, found) == log.log_end_offset
