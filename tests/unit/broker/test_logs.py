"""Lines of the log that cannot be written end nothing, and are counted."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest

from minikafka.broker.logs import LogLines


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Ends to read and to write, neither of which blocks."""
    ends = os.pipe2(os.O_NONBLOCK)
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
    yield ends
    for end in ends:
        os.close(end)


def test_lines_go_out_as_they_are(pipe: tuple[int, int]) -> None:
    lines = LogLines(pipe[1])
    assert lines.write("one\n") == 4
    lines.write("two \u00fc \udcff\n")
    assert os.read(pipe[0], 100) == "one\ntwo \u00fc \\udcff\n".encode()


def test_a_full_disk_is_no_error() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        LogLines(full).write("nobody hears this\n")
    finally:
        os.close(full)


def test_a_reader_that_is_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        LogLines(writing).write("nobody hears this\n")
    finally:
        os.close(writing)


def test_lost_lines_are_counted_and_one_that_went_out_in_part_is_ended(pipe: tuple[int, int]) -> None:
    lines = LogLines(pipe[1])
    lines.write("x" * 5000 + "\n")  # the pipe takes 4096 bytes
    lines.write("lost too\n")
    assert os.read(pipe[0], 5000) == b"x" * 4096
    lines.write("heard\n")
    assert os.read(pipe[0], 5000) == b"\nlines lost, as the log could not be written: 2\nheard\n"
    lines.write("again\n")
    assert os.read(pipe[0], 5000) == b"again\n"
