from __future__ import annotations

from collections.abc import Sequence

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from minikafka.model import Compression
from minikafka.records.batch import HEADER_SIZE, TIMESTAMP_TYPE_FLAG, crc_is_valid, parse_header, set_log_append_time
from minikafka.records.build import BatchBuilder, build_batch, rebuild_batch, upper_bound_size
from minikafka.records.keys import iter_keys
from minikafka.records.read import iter_records, read_body
from minikafka.records.record import _VARINTS, Header, Record, encode_record, encode_varint

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
maybe_bytes = st.none() | st.binary(max_size=200)
record_headers = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3).map(tuple)
timestamps = st.integers(0, 1 << 45)
record_lists = st.lists(st.tuples(timestamps, maybe_bytes, maybe_bytes, record_headers), min_size=1, max_size=70).map(
    lambda rows: [Record(offset, *row) for offset, row in enumerate(rows)]
)


def zigzag_varint_by_the_book(value: int) -> bytes:
    unsigned = (value << 1) ^ (value >> 63)
    groups = []
    while True:
        groups.append(unsigned & 0x7F)
        unsigned >>= 7
        if not unsigned:
            return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


@given(int64 | st.integers(-10_000, 10_000))
def test_varints_are_encoded_as_zigzag(value: int) -> None:
    assert encode_varint(value) == zigzag_varint_by_the_book(value)


def test_the_table_of_small_varints() -> None:
    assert [encode_varint(value) for value in range(len(_VARINTS))] == list(_VARINTS)


@given(int32, int64, maybe_bytes, maybe_bytes, record_headers)
def test_a_record_is_never_larger_than_its_upper_bound(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
) -> None:
    encoded = encode_record(offset_delta, timestamp_delta, key, value, headers)
    assert len(encoded) <= upper_bound_size(key, value, headers)


@settings(deadline=None)
@pytest.mark.parametrize(("oracle", "leader_epoch"), [(AiokafkaBuilder, -1), (KafkaPythonBuilder, 0)])
@given(
    records=record_lists, producer=st.tuples(st.integers(0, 1 << 40), st.integers(0, 99), st.integers(0, 1 << 31 - 1))
)
def test_bytes_are_those_of_other_builders(
    oracle: type, leader_epoch: int, records: list[Record], producer: tuple[int, int, int]
) -> None:
    theirs = oracle(2, 0, 1, *producer, 1 << 30)
    for offset, timestamp, key, value, headers in records:
        theirs.append(offset, timestamp, key, value, list(headers))
    producer_id, producer_epoch, base_sequence = producer
    ours = build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=True,
        leader_epoch=leader_epoch,
    )
    assert ours == bytes(theirs.build())


@settings(deadline=None)
@pytest.mark.parametrize("codec", list(Compression))
@given(records=record_lists, base_offset=st.integers(0, 1 << 50), leader_epoch=st.integers(-1, 1 << 20))
def test_round_trip(codec: Compression, records: list[Record], base_offset: int, leader_epoch: int) -> None:
    batch = build_batch(records, compression=codec, base_offset=base_offset, leader_epoch=leader_epoch)
    header = parse_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert header.size_in_bytes == len(batch)
    assert header.leader_epoch == leader_epoch
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.record_count == header.last_offset_delta + 1 == len(records)
    expected = [record._replace(offset=base_offset + index) for index, record in enumerate(records)]
    assert list(iter_records(batch)) == expected


def test_producer_fields_may_be_set_until_the_batch_is_built() -> None:
    builder = BatchBuilder()
    assert builder.append(b"k", b"v", 5) == 0
    assert builder.append(None, b"v", 6) == 1
    expected_size = builder.size_in_bytes
    builder.producer_id, builder.producer_epoch, builder.base_sequence = 9, 1, 40
    builder.is_transactional = True
    batch = builder.build()
    header = parse_header(batch)
    assert len(batch) == expected_size
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (9, 1, 40, 41)
    assert header.is_transactional


def test_compression_that_would_enlarge_the_batch_is_left_out() -> None:
    tiny = build_batch([Record(0, 1, None, b"x")], compression=Compression.GZIP)
    assert parse_header(tiny).compression is Compression.NONE
    large = build_batch([Record(0, 1, None, b"x" * 1000)], compression=Compression.GZIP)
    assert parse_header(large).compression is Compression.GZIP


def test_an_empty_batch_is_a_programmers_mistake() -> None:
    with pytest.raises(AssertionError):
        build_batch([])


def rebuilt_of(batch: bytearray, left: Sequence[Record], *, delete_horizon_ms: int | None = None) -> bytearray:
    header = parse_header(batch)
    body, offsets = read_body(batch, 0, header), {record.offset for record in left}
    kept = [record for record in iter_keys(body, header) if header.base_offset + record[0] in offsets]
    return rebuild_batch(header, body, kept, delete_horizon_ms=delete_horizon_ms)


@pytest.mark.parametrize("codec", list(Compression))
def test_rebuilding_keeps_offsets_sequences_and_attributes(codec: Compression) -> None:
    records = [Record(0, 1_000 + index, b"k%d" % index, b"v" * 100) for index in range(10)]
    batch = build_batch(
        records, compression=codec, producer_id=5, producer_epoch=2, base_sequence=30, base_offset=100, leader_epoch=4
    )
    kept = [record for record in iter_records(batch) if record.offset % 3 == 0]
    rebuilt = rebuilt_of(batch, kept)
    after = parse_header(rebuilt)
    assert crc_is_valid(rebuilt, 0, after)
    assert list(iter_records(rebuilt)) == kept
    assert (after.base_offset, after.last_offset, after.last_sequence) == (100, 109, 39)
    assert (after.leader_epoch, after.producer_id, after.producer_epoch) == (4, 5, 2)
    assert after.record_count == len(kept)
    assert after.compression is codec
    assert (after.base_timestamp, after.max_timestamp) == (1_000, kept[-1].timestamp)


def test_rebuilding_to_nothing_keeps_the_offset_range(batch: bytearray) -> None:
    header = parse_header(batch)
    empty = rebuilt_of(batch, [])
    after = parse_header(empty)
    assert len(empty) == HEADER_SIZE
    assert crc_is_valid(empty, 0, after)
    assert list(iter_records(empty)) == []
    assert (after.base_offset, after.next_offset) == (0, header.next_offset)
    assert after.max_timestamp == header.max_timestamp, "the index has it, and the age of the segment is that"


def test_a_delete_horizon_survives_later_rebuilds_and_leaves_timestamps_alone(batch: bytearray) -> None:
    records = list(iter_records(batch))
    first = rebuilt_of(batch, records, delete_horizon_ms=9_999)
    second = rebuilt_of(first, records[1:])
    for rebuilt, kept in ((first, records), (second, records[1:])):
        header = parse_header(rebuilt)
        assert header.has_delete_horizon
        assert header.base_timestamp == 9_999
        assert list(iter_records(rebuilt)) == kept


def test_rebuilding_a_batch_stamped_on_append_keeps_its_stamp(batch: bytearray) -> None:
    set_log_append_time(batch, 0, 77_777)
    rebuilt = rebuilt_of(batch, list(iter_records(batch))[:1])
    assert parse_header(rebuilt).attributes & TIMESTAMP_TYPE_FLAG
    assert [record.timestamp for record in iter_records(rebuilt)] == [77_777]


def test_header_keys_that_are_not_utf8_survive_a_rebuild() -> None:
    body = encode_record(0, 0, b"k", b"v", (("caf?", b"1"),))
    batch = build_batch([Record(0, 1, b"k", b"v", (("caf?", b"1"),))])
    batch[HEADER_SIZE : HEADER_SIZE + len(body)] = body.replace(b"caf?", b"caf\xff")
    rebuilt = rebuilt_of(batch, list(iter_records(batch)))
    assert b"caf\xff" in rebuilt
