"""A record with very many headers takes no memory for those that nobody asks for."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.records.batch import HEADER_SIZE, parse_header, write_header
from minikafka.records.build import build_batch
from minikafka.records.read import HEADERS_MADE, ManyHeaders, iter_records
from minikafka.records.record import Header, Record, encode_varint

MANY: tuple[Header, ...] = tuple((f"name-{at}", None if at % 3 else b"%d" % at) for at in range(HEADERS_MADE + 3))


def read(*headers: Header) -> ManyHeaders:
    """Of the first of two records."""
    first, second = iter_records(build_batch([Record(0, 0, b"k", b"v", headers), Record(1, 0, b"l", b"w", MANY[:1])]))
    assert (first[:4], second) == ((0, 0, b"k", b"v"), Record(1, 0, b"l", b"w", MANY[:1]))
    assert isinstance(first.headers, ManyHeaders)
    return first.headers


def bomb(count: int, encoded: bytes) -> bytes:
    """A batch of one record, in which ``encoded`` are said to be ``count`` headers."""
    fields = bytes(4) + b"\x01" + encode_varint(count) + encoded
    batch = build_batch([Record(0, 0, b"", None)])
    header = parse_header(batch)
    batch = bytearray(batch[:HEADER_SIZE]) + encode_varint(len(fields)) + fields
    write_header(batch, header._replace(batch_length=len(batch) - 12))
    return bytes(batch)


def test_they_are_as_a_tuple() -> None:
    headers = read(*MANY)
    assert headers == MANY
    assert headers == read(*MANY)
    assert hash(headers) == hash(MANY)
    assert headers not in (MANY[:-1], (*MANY[:-1], ("name", b"")), list(MANY))
    assert dict(headers) == dict(MANY)
    assert tuple(reversed(headers)) == MANY[::-1]
    assert MANY[-1] in headers
    assert headers + MANY[:2] == MANY + MANY[:2]
    assert MANY[:2] + headers == MANY[:2] + MANY
    assert headers + headers == MANY + MANY
    assert repr(headers) == "<103 headers, the first: ('name-0', b'0')>"
    with pytest.raises(IndexError):
        headers[len(MANY)]


@given(st.none() | st.integers(-200, 200), st.none() | st.integers(-200, 200), st.integers(-5, 5).filter(bool))
def test_parts_of_them(start: int | None, stop: int | None, step: int) -> None:
    headers, part = read(*MANY), slice(start, stop, step)
    assert headers[part] == MANY[part]
    assert start is None or not -len(MANY) <= start < len(MANY) or headers[start] == MANY[start]


def test_a_batch_is_built_of_them() -> None:
    assert read(*read(*MANY)) == MANY


def test_they_take_no_memory_unless_they_are_asked_for() -> None:
    """3 KB of zstd held 4,000,000, and a consumer took 390 MB for them, which had not asked for any."""
    count = 100_000
    batch = bomb(count, b"\x00\x01" * count)
    tracemalloc.start()
    (record,) = iter_records(batch)
    assert len(record.headers) == count
    assert record.headers[:2] == (("", None), ("", None))
    assert sum(1 for _header in record.headers) == count
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * len(batch)


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (b"\x00\x01\x00", "not as long as it says"),
        (b"\x00\x04v", "not as long as it says"),
        (b"\x04n", "run over its end"),
        (b"\x00\x03", "a negative length"),
    ],
)
def test_what_is_wrong_with_them_is_seen_by_who_goes_through_them(last: bytes, why: str) -> None:
    (record,) = iter_records(bomb(104, b"\x00\x01" * 103 + last))
    with pytest.raises(KafkaError, match=why) as caught:
        list(record.headers)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_more_than_there_are_bytes_for_are_refused_at_once() -> None:
    with pytest.raises(KafkaError, match="1152921504606846976 headers in 10 bytes"):
        list(iter_records(bomb(1 << 60, b"\x00\x01" * 5)))
