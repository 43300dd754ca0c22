"""The last write of a log is read from memory, if it is small, and is the same as in the file."""

from __future__ import annotations

import pytest
from storage_batches import OpenLog, append, batch, stage

from minikafka.storage import tail
from minikafka.storage.disk import OsFile
from minikafka.storage.log import Log


@pytest.fixture
def log(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Its files cannot be read."""
    log = open_log()
    append(log, b"before")

    def refuse(_file: OsFile, _size: int, _position: int) -> bytes:
        raise AssertionError("the file was read")

    monkeypatch.setattr(OsFile, "pread", refuse)
    return log


def in_file(log: Log, start: int) -> bytes:
    with open(log.segments.active.path(".log"), "rb") as file:
        return file.read()[start:]


def test_a_follower_that_keeps_up_gets_what_was_written_at_once(log: Log) -> None:
    size = log.size_in_bytes
    for value in (b"one", b"two"):
        stage(log, batch(value))
    log.commit()
    found = log.read(1, 1 << 20)
    assert found.read() == in_file(log, size)
    assert log.end_of(1, found) == log.log_end_offset == 3


def test_it_is_kept_when_the_buffer_of_the_connection_is_used_again(log: Log) -> None:
    data = batch(b"one")
    stage(log, data)
    log.commit()
    written = bytes(data)
    data[:] = bytes(len(data))
    assert log.read(1, 1 << 20).read() == written


@pytest.mark.parametrize(("max_bytes", "max_offset", "start"), [(10, None, 1), (1 << 20, 2, 1), (1 << 20, None, 2)])
def test_less_is_read_from_the_file(log: Log, max_bytes: int, max_offset: int | None, start: int) -> None:
    for value in (b"one", b"two"):
        stage(log, batch(value))
    log.commit()
    with pytest.raises(AssertionError, match="the file was read"):
        log.read(start, max_bytes, max_offset=max_offset).read()


def test_a_large_write_is_not_kept(log: Log) -> None:
    append(log, bytes(tail.NEWEST_BYTES_MAX))
    with pytest.raises(AssertionError, match="the file was read"):
        log.read(1, 1 << 20).read()
