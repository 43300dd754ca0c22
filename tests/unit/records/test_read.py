from __future__ import annotations

import tracemalloc

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression
from minikafka.records.batch import HEADER_SIZE, parse_header, set_log_append_time, write_header
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record, encode_record, encode_varint

maybe_bytes = st.none() | st.binary(max_size=300)
record_headers = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3).map(tuple)
rows = st.lists(st.tuples(st.integers(0, 1 << 45), maybe_bytes, maybe_bytes, record_headers), min_size=1, max_size=70)


def as_rows(batch: object) -> list[tuple[object, ...]]:
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in batch  # type: ignore[attr-defined]
    ]


@settings(deadline=None)
@pytest.mark.parametrize("codec", list(Compression))
@given(rows=rows)
def test_aiokafka_reads_ours_and_we_read_aiokafkas(codec: Compression, rows: list[tuple[object, ...]]) -> None:
    records = [Record(offset, *row) for offset, row in enumerate(rows)]  # type: ignore[arg-type]
    ours = build_batch(records, compression=codec)
    assert as_rows(AiokafkaBatch(bytes(ours))) == records

    builder = AiokafkaBuilder(2, int(codec), 0, -1, -1, -1, 1 << 30)
    for offset, timestamp, key, value, headers in records:
        builder.append(offset, timestamp, key, value, list(headers))
    theirs = builder.build()
    assert parse_header(theirs).attributes == parse_header(ours).attributes or codec
    assert list(iter_records(memoryview(theirs))) == records


@settings(deadline=None)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@given(rows=rows)
def test_kafka_python_reads_ours(codec: Compression, rows: list[tuple[object, ...]]) -> None:
    records = [Record(offset, *row) for offset, row in enumerate(rows)]  # type: ignore[arg-type]
    batch = KafkaPythonBatch(bytes(build_batch(records, compression=codec)))
    assert batch.validate_crc()
    assert as_rows(batch) == records


def test_a_batch_in_the_middle_of_a_buffer(batch: bytearray, three_records: list[Record]) -> None:
    buffer = memoryview(b"abc" + batch + b"def")
    assert list(iter_records(buffer, 3)) == three_records
    assert list(iter_records(buffer, 3, parse_header(batch))) == three_records


def test_records_do_not_hold_on_to_the_buffer(batch: bytearray) -> None:
    records = iter_records(memoryview(batch))
    first = next(records)
    batch[:] = bytes(len(batch))
    batch.clear()  # would be refused if a view of it were alive
    assert first.value == b"v0"
    assert next(records).value == b"v1"


def test_log_append_time_is_every_records_timestamp(batch: bytearray) -> None:
    set_log_append_time(batch, 0, 42)
    assert {record.timestamp for record in iter_records(batch)} == {42}


def test_large_fields_take_long_varints() -> None:
    records = [Record(0, 0, b"k" * 20_000, b"v" * 3_000_000), Record(1, 1 << 60, b"", b"")]
    assert list(iter_records(build_batch(records))) == records


def with_body(body: bytes, record_count: int = 1) -> bytearray:
    batch = build_batch([Record(0, 0, None, None)])[:HEADER_SIZE] + body
    header = parse_header(batch)._replace(record_count=record_count, last_offset_delta=record_count - 1)
    write_header(batch, header)
    return batch


def read(batch: bytes) -> list[Record] | ErrorCode:
    try:
        return list(iter_records(batch, max_bytes=100_000))
    except KafkaError as error:
        return error.code


GOOD = encode_record(0, 0, b"key", b"value", (("h", b"x"),))


def body_of(*fields: bytes) -> bytes:
    body = b"\x00" + b"".join(fields)
    return encode_varint(len(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="no record at all"),
        pytest.param(GOOD + b"\x00", id="bytes after the last record"),
        pytest.param(b"\x02" + GOOD[1:], id="length too small"),
        pytest.param(b"\x7e" + GOOD[1:], id="length too large"),
        pytest.param(b"\x01" + GOOD[1:], id="negative length"),
        pytest.param(b"\xff" * 11 + GOOD, id="endless varint"),
        pytest.param(body_of(b"\x00\x00", encode_varint(-2), b"\x01\x00"), id="key length -2"),
        pytest.param(body_of(b"\x00\x00\x01", encode_varint(-2), b"\x00"), id="value length -2"),
        pytest.param(body_of(b"\x00\x00\x01\x01", encode_varint(-1)), id="header count -1"),
        pytest.param(body_of(b"\x00\x00\x01\x01", encode_varint(1 << 40)), id="many headers"),
        pytest.param(body_of(b"\x00\x00\x01\x01\x02", encode_varint(-1), b"\x01"), id="null header key"),
        pytest.param(body_of(b"\x00\x00", encode_varint(1 << 62), b"\x01\x00"), id="enormous key"),
        pytest.param(body_of(b"\x00\x00\x01\x01\x02\x02a", encode_varint(1 << 62)), id="enormous header value"),
    ],
)
def test_malformed_records_are_corrupt(body: bytes) -> None:
    assert read(with_body(body)) is ErrorCode.CORRUPT_MESSAGE


def test_a_varint_without_end_is_given_up_after_ten_bytes() -> None:
    with pytest.raises(KafkaError, match="longer than 10 bytes"):
        list(iter_records(with_body(b"\xff" * 100_000)))


@pytest.mark.parametrize("record_count", [-1, 0, 2, 2**31 - 1])
def test_a_wrong_record_count_is_corrupt(record_count: int) -> None:
    assert read(with_body(GOOD, record_count)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", list(Compression))
def test_a_body_cut_at_any_byte_is_corrupt(codec: Compression) -> None:
    records = [Record(0, 5, b"k%d" % index, b"value" * 8, (("h", b"x"),)) for index in range(5)]
    batch = build_batch(records, compression=codec)
    assert parse_header(batch).compression is codec
    for end in range(HEADER_SIZE, len(batch)):
        cut = batch[:end]
        write_header(cut, parse_header(cut))
        assert read(cut) is ErrorCode.CORRUPT_MESSAGE


@settings(deadline=None)
@pytest.mark.parametrize("codec", list(Compression))
@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_raise_nothing_but_kafka_errors(codec: Compression, changes: list[tuple[int, int]]) -> None:
    records = [Record(0, 5, b"k%d" % index, b"value" * 8, (("h", b"x"),)) for index in range(5)]
    batch = build_batch(records, compression=codec)
    for index, byte in changes:
        batch[HEADER_SIZE + index % (len(batch) - HEADER_SIZE)] = byte
    answer = read(batch)
    assert isinstance(answer, list) or answer in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


@settings(deadline=None)
@given(body=st.binary(max_size=120), record_count=st.integers(-5, 50))
def test_arbitrary_bodies_raise_nothing_but_kafka_errors(body: bytes, record_count: int) -> None:
    answer = read(with_body(body, record_count))
    assert answer is ErrorCode.CORRUPT_MESSAGE or len(answer) == max(record_count, 0)


def test_headers_that_are_not_wanted_take_no_memory() -> None:
    """A node looks for keys, and for times: 3 KB of zstd held 16,000,000 headers, which took 1.5 GB."""
    count = 200_000
    fields = bytes(4) + b"\x01" + encode_varint(count) + b"\x00\x01" * count
    batch = with_body(encode_varint(len(fields)) + fields, 1)
    tracemalloc.start()
    records = list(iter_records(batch, with_headers=False))
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert records == [Record(0, 0, b"", None)]
    assert peak < 3 * len(batch)


@given(st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=25))
def test_records_without_their_headers(headers: list[tuple[str, bytes | None]]) -> None:
    records = [(0, 0, b"k", b"v", tuple(headers)), (1, 0, b"l", None, ())]
    batch = with_body(b"".join(encode_record(*record) for record in records), 2)
    assert list(iter_records(batch, with_headers=False)) == [Record(*record[:4]) for record in records]


@pytest.mark.parametrize("length", [0, 1, 20])
def test_a_record_does_not_end_before_its_headers(length: int) -> None:
    """Else as many records as the header of the batch names lie in a few bytes."""
    fields = bytes(4) + b"\x01" + encode_varint(50) + b"\x00\x01" * 50
    with pytest.raises(KafkaError, match="not as long as it says"):
        list(iter_records(with_body(encode_varint(length) + fields, 1000), with_headers=False))
