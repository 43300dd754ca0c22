from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression
from minikafka.records.batch import (
    HEADER,
    HEADER_SIZE,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    assign_offsets,
    crc_is_valid,
    iter_batches,
    parse_header,
    set_log_append_time,
)
from minikafka.records.build import build_batch
from minikafka.records.record import Record


def int_field(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


headers = st.builds(
    BatchHeader,
    base_offset=int_field(64),
    batch_length=int_field(32),
    leader_epoch=int_field(32),
    magic=int_field(8),
    crc=st.integers(0, (1 << 32) - 1),
    attributes=int_field(16),
    last_offset_delta=int_field(32),
    base_timestamp=int_field(64),
    max_timestamp=int_field(64),
    producer_id=int_field(64),
    producer_epoch=int_field(16),
    base_sequence=int_field(32),
    record_count=int_field(32),
)


@given(headers, st.integers(0, 5))
def test_header_is_read_from_any_position_of_any_buffer(header: BatchHeader, position: int) -> None:
    encoded = bytes(position) + HEADER.pack(*header)
    for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
        assert parse_header(buffer, position) == header
        assert type(parse_header(buffer, position)) is BatchHeader


def test_fields_are_where_kafka_puts_them() -> None:
    encoded = bytearray(HEADER_SIZE)
    struct.pack_into(">q", encoded, 0, 7)
    struct.pack_into(">i", encoded, 8, 100)
    struct.pack_into(">i", encoded, 12, 3)
    encoded[16] = 2
    struct.pack_into(">I", encoded, 17, 0xDEADBEEF)
    struct.pack_into(">h", encoded, 21, 0x3C)
    struct.pack_into(">i", encoded, 23, 4)
    struct.pack_into(">q", encoded, 27, 11)
    struct.pack_into(">q", encoded, 35, 12)
    struct.pack_into(">q", encoded, 43, 13)
    struct.pack_into(">h", encoded, 51, 14)
    struct.pack_into(">i", encoded, 53, 15)
    struct.pack_into(">i", encoded, 57, 5)
    assert parse_header(encoded) == (7, 100, 3, 2, 0xDEADBEEF, 0x3C, 4, 11, 12, 13, 14, 15, 5)


def test_derived_properties() -> None:
    header = BatchHeader(100, 200, 3, 2, 0, 0x04 | 0x08 | 0x10 | 0x20 | 0x40, 4, 0, 0, 7, 1, 2**31 - 3, 5)
    assert header.size_in_bytes == 212
    assert (header.last_offset, header.next_offset) == (104, 105)
    assert header.compression is Compression.ZSTD
    assert header.attributes & TIMESTAMP_TYPE_FLAG
    assert header.is_transactional
    assert header.is_control
    assert header.has_delete_horizon
    assert header.has_producer_id
    plain = header._replace(attributes=0, producer_id=-1)
    assert plain.compression is Compression.NONE
    assert not plain.attributes & TIMESTAMP_TYPE_FLAG
    assert not any((plain.is_transactional, plain.is_control, plain.has_delete_horizon, plain.has_producer_id))


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(-1, 4, -1), (0, 4, 4), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 4, 1)]
)
def test_sequences_wrap_from_the_largest_int32_to_zero(base: int, delta: int, last: int) -> None:
    header = BatchHeader(0, 0, 0, 2, 0, 0, delta, 0, 0, 7, 1, base, delta + 1)
    assert header.last_sequence == last


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_named(batch: bytearray, codec: int) -> None:
    header = parse_header(batch)._replace(attributes=codec)
    with pytest.raises(KafkaError, match=f"codec {codec}") as caught:
        _ = header.compression
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_iter_batches_stops_at_every_possible_cut() -> None:
    first = build_batch([Record(0, 1, None, b"a")])
    second = build_batch([Record(0, 2, None, b"bb")], base_offset=1)
    both = bytes(first + second)
    for end in range(len(both) + 1):
        positions = [position for position, _ in iter_batches(both[:end])]
        assert positions == [0, len(first)][: (end >= len(first)) + (end >= len(both))]
        assert positions == [position for position, _ in iter_batches(both, 0, end)]
    assert [header.base_offset for _, header in iter_batches(memoryview(both))] == [0, 1]
    assert [position for position, _ in iter_batches(both, len(first))] == [len(first)]


@pytest.mark.parametrize("tail", [bytes(100), b"\xff" * 100, bytes(16) + b"\x01" + bytes(60)])
def test_iter_batches_refuses_bytes_that_begin_no_batch(batch: bytearray, tail: bytes) -> None:
    found = []
    with pytest.raises(KafkaError, match=f"no record batch at byte {len(batch)}") as caught:
        found.extend(position for position, _ in iter_batches(batch + tail))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_every_flipped_bit_after_the_crc_is_noticed(batch: bytearray) -> None:
    header = parse_header(batch)
    assert crc_is_valid(batch, 0, header)
    for index in range(17, len(batch)):
        for bit in range(8):
            batch[index] ^= 1 << bit
            assert not crc_is_valid(memoryview(batch), 0, parse_header(batch))
            batch[index] ^= 1 << bit


def test_assigning_offsets_changes_neither_crc_nor_anything_else(batch: bytearray) -> None:
    before = parse_header(batch)
    buffer = bytearray(b"..") + batch
    assign_offsets(memoryview(buffer), 2, 1 << 40, 9)
    after = parse_header(buffer, 2)
    assert after == before._replace(base_offset=1 << 40, leader_epoch=9)
    assert crc_is_valid(buffer, 2, after)


def test_log_append_time_stamps_the_batch_and_keeps_it_valid(batch: bytearray) -> None:
    before = parse_header(batch)
    buffer = bytearray(b"..") + batch
    header = set_log_append_time(buffer, 2, 55_555)
    assert header == parse_header(buffer, 2)
    assert crc_is_valid(buffer, 2, header)
    assert header.attributes & TIMESTAMP_TYPE_FLAG
    assert header.max_timestamp == 55_555
    assert header == before._replace(attributes=8, max_timestamp=55_555, crc=header.crc)
