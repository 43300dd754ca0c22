"""Bytes that the running process wrote go bad on the disk: found when a follower could not append them."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_batches import OpenLog, append, headers_in, read_all

from minikafka.errors import ErrorCode, KafkaError
from minikafka.storage.log import Log
from minikafka.storage.positions import find

BATCHES = 30
FIELDS = {
    "base offset": 7,
    "low bit up": 6,
    "length": 11,
    "leader epoch": 15,
    "magic": 16,
    "checksum": 20,
    "record": 66,
}


def written(open_log: OpenLog, **settings: object) -> Log:
    """A log of batches of one to three records, over a few epochs, all written by this process."""
    log = open_log(**settings)
    for at in range(BATCHES):
        append(log, *[b"%d" % at] * (1 + at % 3), leader_epoch=at // 7)
    return log


def bases(log: Log) -> list[int]:
    return [header.base_offset for header in headers_in(read_all(log))]


def flip(log: Log, offset: int, byte: int) -> None:
    """Change one bit of the batch at ``offset``."""
    for segment in log.segments.since(offset):
        found = find(segment, offset)
        if found is not None:
            path = Path(segment.path(".log"))
            data = bytearray(path.read_bytes())
            data[found[0] + byte] ^= 1
            path.write_bytes(data)
            return


def verify(log: Log, offset: int, size: int = 1 << 20) -> ErrorCode:
    job = log.prepare_verification(offset, size)
    assert job is not None
    job.run()
    try:
        log.complete_read(job)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.spec("P5")
def test_a_batch_in_which_the_log_starts_is_looked_at_as_well(open_log: OpenLog) -> None:
    """A new replica fetches it whole: it asked for it again and again, and the leader looked at nothing."""
    log = written(open_log)
    at = bases(log)[20]
    log.maybe_increment_log_start_offset(at + 1)
    assert verify(log, at) is ErrorCode.NONE
    flip(log, at, FIELDS["record"])
    assert verify(log, at) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("settings", [{}, {"segment_bytes": 400, "index_interval_bytes": 100}], ids=["one", "many"])
def test_what_is_as_it_was_written_is_not_suspected(open_log: OpenLog, settings: dict[str, int]) -> None:
    log = written(open_log, **settings)
    assert all(verify(log, offset, size) is ErrorCode.NONE for offset in bases(log) for size in (1, 200, 1 << 20))
    log.maybe_increment_log_start_offset(2)  # in the middle of a batch
    assert verify(log, 2) is ErrorCode.NONE
    assert log.corruption is None
    assert log.prepare_verification(log.log_end_offset, 1) is None
    assert log.prepare_verification(-1, 1) is None


@pytest.mark.spec("P5")
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("victim", [0, 1, 6, 7, BATCHES - 1])
def test_any_bit_of_a_batch_is_found(open_log: OpenLog, field: str, victim: int) -> None:
    """Also those that no checksum covers: followers refuse a batch in the wrong place, too."""
    log = written(open_log)
    offset = bases(log)[victim]
    flip(log, offset, FIELDS[field])
    assert verify(log, offset) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.corruption is not None
    assert log.corruption.offset == 0, "the segment's"


@pytest.mark.spec("P5")
def test_only_what_was_sent_is_read(open_log: OpenLog) -> None:
    log = written(open_log)
    offsets = bases(log)
    flip(log, offsets[20], FIELDS["record"])
    assert verify(log, offsets[0], 200) is ErrorCode.NONE
    assert verify(log, offsets[19], 1) is ErrorCode.KAFKA_STORAGE_ERROR, "with the batch behind it"


@pytest.mark.spec("P5")
def test_a_file_that_was_cut_is_found(open_log: OpenLog) -> None:
    log = written(open_log)
    path = Path(log.segments.active.path(".log"))
    path.write_bytes(path.read_bytes()[:-3])
    assert verify(log, log.log_end_offset - 1) is ErrorCode.KAFKA_STORAGE_ERROR
