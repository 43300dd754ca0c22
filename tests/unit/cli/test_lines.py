from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli import lines
from minikafka.cli.lines import LineError, LineSplitter, read_chunks, split_key


@given(st.lists(st.binary(max_size=6)), st.binary(max_size=40))
def test_lines_are_the_same_however_the_bytes_arrive(chunks: list[bytes], tail: bytes) -> None:
    splitter = LineSplitter()
    read = [line for chunk in (*chunks, tail) for line in splitter.feed(chunk)] + splitter.end()
    expected = (b"".join(chunks) + tail).split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert read == [line.removesuffix(b"\r") for line in expected]


def test_a_line_is_passed_on_before_the_next_is_there() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == [b"a"]
    assert splitter.feed(b"c\n") == [b"bc"]
    assert splitter.end() == []


def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_SIZE_MAX", 10)
    with pytest.raises(LineError, match="line too long"):
        LineSplitter().feed(b"x" * 20)


async def test_chunks_come_from_a_pipe_as_they_are_written() -> None:
    reading, writing = os.pipe()
    try:
        chunks = read_chunks(reading)
        os.write(writing, b"one")
        assert await anext(chunks) == b"one"
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        os.write(writing, b"two")
        assert await waiting == b"two"
        os.close(writing)
        assert [chunk async for chunk in chunks] == []
    finally:
        os.close(reading)


async def test_chunks_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 300_000)
    with path.open("rb") as file:
        assert sum([len(chunk) async for chunk in read_chunks(file.fileno())]) == 300_000


def test_a_key_is_what_stands_before_the_first_separator() -> None:
    assert split_key(b"k:v:w", b":", 1) == (b"k", b"v:w")
    assert split_key(b":v", b":", 1) == (b"", b"v")
    assert split_key(b"k:v", None, 1) == (None, b"k:v")
    with pytest.raises(LineError, match="line 7 has no key separator"):
        split_key(b"no key here", b":", 7)
