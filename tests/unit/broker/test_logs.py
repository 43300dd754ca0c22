"""Lines of the log that cannot be written end nothing, and are counted."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import minikafka
from minikafka.broker import logs as logs_module
from minikafka.broker.logs import LogLines

PIPE_BYTES = 8192  # two pages: one that is written to, and one that is free while there is room
REPOSITORY = str(Path(minikafka.__file__).parent.parent)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Ends to read and to write, neither of which blocks."""
    ends = os.pipe2(os.O_NONBLOCK)
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
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


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 1>&- 2>&-"])
def test_a_process_without_standard_error_writes_its_log_into_no_other_file(tmp_path: Path, closed: str) -> None:
    """The next file that is opened gets the number of one that is closed."""
    code = (
        "from minikafka.broker.logs import LogLines, keep_standard_descriptors\n"
        "keep_standard_descriptors()\n"
        "file = open('segment', 'wb')\n"
        "LogLines().write('nobody hears this')\n"
    )
    words = f"exec '{sys.executable}' -c \"$0\" {closed}"
    subprocess.run(["sh", "-c", words, code], cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": REPOSITORY})
    assert (tmp_path / "segment").read_bytes() == b""


def test_a_reader_that_stands_still_holds_nothing() -> None:
    """The write end blocks, as standard error does: with a pause of its own each line would hold the node."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    lines = LogLines(writing)
    for number in range(1000):
        lines.write(f"{number:099d}\n")
    before = os.read(reading, PIPE_BYTES).splitlines()
    lines.write("heard\n")
    after = os.read(reading, PIPE_BYTES).splitlines()
    os.close(reading)
    os.close(writing)
    assert before == [b"%099d" % number for number in range(len(before))]
    assert after == [b"lines lost, as the log could not be written: %d" % (1000 - len(before)), b"heard"]


def test_a_reader_that_is_slow_is_waited_for_once_and_not_for_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms, waits = 0, []

    class SlowReader:
        """Makes room for a page every 60 ms."""

        def poll(self, timeout_ms: int) -> list[int]:
            nonlocal now_ms
            waits.append(timeout_ms)
            now_ms += min(timeout_ms, 60)
            return [1] if timeout_ms >= 60 else []

    null = os.open(os.devnull, os.O_WRONLY)
    lines = LogLines(null)
    monkeypatch.setattr(lines, "_poll", SlowReader())
    monkeypatch.setattr(logs_module, "time", SimpleNamespace(monotonic=lambda: now_ms / 1000), raising=False)
    lines.write("x" * 100_000 + "\n")
    lines.write("lost too\n")
    os.close(null)
    assert waits == [logs_module.PATIENCE_MS, 40, 0]
    assert lines._lost == 2


def test_lost_lines_are_counted_and_one_that_went_out_in_part_is_ended(pipe: tuple[int, int]) -> None:
    lines = LogLines(pipe[1])
    lines.write("x" * 2 * PIPE_BYTES + "\n")
    lines.write("lost too\n")
    assert os.read(pipe[0], 2 * PIPE_BYTES) == b"x" * PIPE_BYTES
    lines.write("heard\n")
    assert os.read(pipe[0], 5000) == b"\nlines lost, as the log could not be written: 2\nheard\n"
    lines.write("again\n")
    assert os.read(pipe[0], 5000) == b"again\n"
