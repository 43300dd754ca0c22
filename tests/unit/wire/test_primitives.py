from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.wire.errors import WireError
from minikafka.wire.primitives import (
    ELEMENTS_MAX,
    encode_uvarint,
    pack_int32s,
    pack_int64s,
    read_uvarint,
    skip_tagged_fields,
    tag_header,
    unpack_int32s,
    unpack_int64s,
    uuid_of,
)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_uvarints_round_trip(value: int, behind: bytes) -> None:
    encoded = encode_uvarint(value)
    assert len(encoded) <= 5
    assert read_uvarint(encoded + behind, 0) == (value, len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (16384, b"\x80\x80\x01")],
)
def test_uvarints_as_the_protocol_guide_has_them(value: int, encoded: bytes) -> None:
    assert encode_uvarint(value) == encoded


def test_a_varint_ends_within_five_bytes() -> None:
    with pytest.raises(WireError, match="longer than 5 bytes"):
        read_uvarint(b"\x80" * 5 + b"\x00", 0)
    with pytest.raises(IndexError):
        read_uvarint(b"\x80\x80", 0)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40), st.binary(max_size=3))
def test_arrays_of_int32(values: list[int], before: bytes) -> None:
    packed = pack_int32s(values)
    assert packed == struct.pack(f">{len(values)}i", *values)
    assert unpack_int32s(before + packed, len(before), len(values)) == values


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40), st.binary(max_size=3))
def test_arrays_of_int64(values: list[int], before: bytes) -> None:
    packed = pack_int64s(values)
    assert packed == struct.pack(f">{len(values)}q", *values)
    assert unpack_int64s(before + packed, len(before), len(values)) == values


def test_tagged_fields_are_skipped() -> None:
    fields = tag_header(3, 2) + b"ab" + tag_header(300, 0)
    assert skip_tagged_fields(fields + b"rest", 0, 2) == len(fields)
    with pytest.raises(WireError, match="beyond the end"):
        skip_tagged_fields(tag_header(0, 5) + b"abcd", 0, 1)
    with pytest.raises(WireError, match=f"more than {ELEMENTS_MAX}"):
        skip_tagged_fields(b"\xff\xff\xff\x0f", 0, 0xFF)


def test_uuids_are_cached() -> None:
    raw = bytes(range(16))
    assert uuid_of(raw) == UUID(bytes=raw)
    assert uuid_of(raw) is uuid_of(bytes(range(16)))
