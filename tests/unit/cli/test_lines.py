from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli import lines
from minikafka.cli.lines import LineError, read_lines, split_key


@given(st.lists(st.binary(max_size=6)), st.binary(max_size=40))
def test_lines_are_the_same_however_the_bytes_arrive(chunks: list[bytes], tail: bytes) -> None:
    arriving = iter([chunk for chunk in (*chunks, tail) if chunk])
    read = [line for batch in read_lines(lambda size: next(arriving, b"")) for line in batch]
    text = b"".join(chunks) + tail
    expected = text.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert read == [line.removesuffix(b"\r") for line in expected]


def test_a_line_is_passed_on_before_the_next_is_there() -> None:
    arriving = iter([b"a\nb", b"c\n"])
    batches = read_lines(lambda size: next(arriving, b""))
    assert next(batches) == [b"a"]
    assert next(batches) == [b"bc"]


def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_SIZE_MAX", 10)
    with pytest.raises(LineError, match="longer than"):
        list(read_lines(io.BytesIO(b"x" * 20).read))


def test_a_key_is_what_stands_before_the_first_separator() -> None:
    assert split_key(b"k:v:w", b":", 1) == (b"k", b"v:w")
    assert split_key(b":v", b":", 1) == (b"", b"v")
    assert split_key(b"k:v", None, 1) == (None, b"k:v")
    with pytest.raises(LineError, match="line 7 has no key separator"):
        split_key(b"no key here", b":", 7)
