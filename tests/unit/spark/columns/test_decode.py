"""Batches to Arrow, against ``iter_records``, which goes record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression, TopicPartition
from minikafka.records.batch import (
    HEADER_SIZE,
    TIMESTAMP_TYPE_FLAG,
    iter_batches,
    parse_header,
    set_log_append_time,
    write_header,
)
from minikafka.records.build import build_batch, rebuild_batch
from minikafka.records.keys import iter_keys
from minikafka.records.read import iter_records, read_body
from minikafka.records.record import Record, encode_record
from minikafka.spark.columns.decode import decode
from minikafka.spark.columns.schema import arrow_schema, source_schema

Rows = Callable[..., list[dict[str, Any]]]
WHERE = TopicPartition("clicks", 3)
REFUSALS = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

maybe_bytes = st.none() | st.binary(max_size=12) | st.integers(50, 20_000).map(lambda size: b"v" * size)
header_keys = st.text(max_size=5) | st.just("\udcff\udc80x")  # the surrogates stand for bytes that are not UTF-8
record_headers = st.lists(st.tuples(header_keys, st.none() | st.binary(max_size=90)), max_size=3).map(tuple)
times = st.integers(-(10**12), 10**13)
records = st.builds(Record, st.just(0), times, maybe_bytes, maybe_bytes, record_headers)
alike = st.builds(lambda record, count: [record] * count, records, st.integers(1, 90))  # equally long, nearly
batches_of_records = st.lists(st.lists(records, min_size=1, max_size=6) | alike, max_size=4)


def expected(batch: bytes | bytearray, *, headers: bool = True) -> Iterable[dict[str, Any]]:
    header = parse_header(batch)
    for record in iter_records(batch):
        row = {
            "key": record.key,
            "value": record.value,
            "topic": WHERE.topic,
            "partition": WHERE.partition,
            "offset": record.offset,
            "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
            "timestampType": int(bool(header.attributes & TIMESTAMP_TYPE_FLAG)),
        }
        if headers:
            row["headers"] = [
                {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
                for key, value in record.headers
            ] or None
        yield row


@settings(deadline=None, max_examples=80)
@given(
    groups=batches_of_records,
    codecs=st.lists(st.sampled_from(Compression), min_size=4, max_size=4),
    append_time=st.lists(st.booleans(), min_size=4, max_size=4),
    base_offset=st.integers(0, 1 << 40),
    with_headers=st.booleans(),
    data=st.data(),
)
def test_rows_are_the_records_between_the_offsets(
    decode_all: Rows,
    groups: list[list[Record]],
    codecs: list[Compression],
    append_time: list[bool],
    base_offset: int,
    with_headers: bool,
    data: st.DataObject,
) -> None:
    batches = []
    offset = base_offset
    for group, codec, is_append_time in zip(groups, codecs, append_time, strict=False):
        batch = build_batch(group, compression=codec, base_offset=offset)
        if is_append_time:
            set_log_append_time(batch, 0, 1_700_000_000_123)
        batches.append(batch)
        offset += len(group)
    start, end = sorted(data.draw(st.tuples(*[st.integers(base_offset - 1, offset + 1)] * 2)))
    wanted = [row for batch in batches for row in expected(batch, headers=with_headers)]
    assert decode_all(batches, headers=with_headers) == wanted
    cut = [row for row in wanted if start <= row["offset"] < end]
    assert decode_all(batches, start, end, headers=with_headers) == cut


@pytest.mark.parametrize("lengths", [[10] * 500, [10] * 63 + [100] * 64 + [10] * 65, [*range(400)], [60, 61, 62] * 99])
def test_runs_of_equal_lengths_begin_and_end_anywhere(decode_all: Rows, lengths: list[int]) -> None:
    batch = build_batch([Record(0, 5, None, b"x" * length) for length in lengths])
    assert [len(row["value"]) for row in decode_all([batch, batch])] == lengths * 2


def test_a_value_of_megabytes(decode_all: Rows) -> None:
    batch = build_batch([Record(0, 0, b"k", bytes(3_000_000)), Record(0, 0, b"k", b"small")])
    assert [len(row["value"]) for row in decode_all([batch])] == [3_000_000, 5]


def test_many_headers_of_few_records_stay_in_order(decode_all: Rows) -> None:
    of_third = tuple((f"h{number}", b"%d" % number) for number in range(200))
    batch = build_batch([Record(0, 0, None, b"", headers) for headers in ((), (("a", None),), of_third, ())])
    assert decode_all([batch]) == list(expected(batch))


@settings(deadline=None, max_examples=40)
@given(group=st.lists(records, min_size=2, max_size=9), kept=st.sets(st.integers(0, 8)), horizon=st.none() | times)
def test_compacted_batches_have_gaps_or_nothing(
    decode_all: Rows, group: list[Record], kept: set[int], horizon: int | None
) -> None:
    whole = build_batch(group, base_offset=70)
    header = parse_header(whole)
    body = read_body(whole, 0, header)
    left = [record for index, record in enumerate(iter_keys(body, header)) if index in kept]
    compacted = rebuild_batch(header, body, left, delete_horizon_ms=horizon)
    assert decode_all([compacted]) == list(expected(compacted))


def test_control_batches_are_left_out(decode_all: Rows) -> None:
    from minikafka.records.build import BatchBuilder

    builder = BatchBuilder(is_control=True)
    builder.append(b"\0\0\0\1", b"\0\0\0\0\0\0", 0)
    assert decode_all([builder.build()]) == []


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_what_lies_around_the_batches_is_not_looked_at(codec: Compression) -> None:
    batches = [
        bytes(build_batch([Record(0, 5, b"k", b"x" * length)] * 20, compression=codec, base_offset=length))
        for length in (100, 500)
    ]
    between = b"\xff" * 77
    buffer = between + batches[0] + between + batches[1] + between
    positions = [len(between), len(batches[0]) + 2 * len(between)]
    found = [(position, parse_header(buffer, position)) for position in positions]
    rows = decode(buffer, found, tp=WHERE, start_offset=0, end_offset=999, include_headers=True)
    assert rows.to_pylist() == [row for batch in batches for row in expected(batch)]


@pytest.mark.parametrize("include_headers", [True, False])
def test_the_schema_is_the_one_spark_makes_of_the_sources(include_headers: bool) -> None:
    arrow = arrow_schema(include_headers=include_headers)
    spark = source_schema(include_headers=include_headers)
    assert to_arrow_schema(spark, timezone="UTC").equals(arrow)
    empty = decode(b"", [], tp=WHERE, start_offset=0, end_offset=9, include_headers=include_headers)
    assert empty.schema.equals(arrow)
    assert empty.num_rows == 0


def test_nothing_of_the_rows_refers_to_the_buffer() -> None:
    buffer = bytearray(build_batch([Record(0, 0, b"key", b"value")] * 20))
    rows = decode(buffer, list(iter_batches(buffer)), tp=WHERE, start_offset=0, end_offset=99, include_headers=False)
    buffer[:] = bytes(len(buffer))
    assert rows["value"].to_pylist() == [b"value"] * 20


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except KafkaError as error:
        return error.code
    except OverflowError:  # of a timestamp that datetime does not know
        return ErrorCode.INVALID_TIMESTAMP


@settings(max_examples=4 * settings.default.max_examples)
@given(
    group=st.lists(records, min_size=1, max_size=5),
    changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4),
    count=st.none() | st.integers(-3, 7) | st.sampled_from([2**31 - 1, -(2**31)]),
    codec=st.sampled_from(Compression),
)
def test_damaged_records_are_refused_wherever_one_by_one_they_are(
    decode_all: Rows, group: list[Record], changes: list[tuple[int, int]], count: int | None, codec: Compression
) -> None:
    batch = build_batch(group, compression=codec)
    for position, byte in changes:
        batch[HEADER_SIZE + position % (len(batch) - HEADER_SIZE)] = byte
    if count is not None:
        write_header(batch, parse_header(batch)._replace(record_count=count))
    found = outcome(lambda: decode_all([batch, build_batch(group)])[: -len(group)])
    wanted = outcome(lambda: list(expected(batch)))
    assert found == wanted or found in REFUSALS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x80" * 20,
        b"\x0d" + encode_record(0, 0, b"", b"")[1:],  # odd
        encode_record(0, 0, b"k", b"v")[:-1],
        encode_record(0, 0, b"k", b"v") + b"\0",
        b"\x10\x00\x00\x00\x03\x01\x00\x00\x00",  # a key of -2 bytes
        b"\x0e\x00" + b"\x00\x00\xff\xff\xff\xff\x0f\x00"[:6],  # a key longer than the batch
        b"\x0e\x00\x00\x00\x01\x01\x02\x00",  # a header that is not there
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x01",  # a header without a key
        b"\x0e\x00\x00\x00\x01\x01\x03\x00",  # -2 headers
        b"\x0e\x00\x00\x00\x01\x01\x00\x00",  # longer than its fields
    ],
)
def test_what_is_wrong_names_partition_and_offset(decode_all: Rows, body: bytes) -> None:
    good = build_batch([Record(0, 0, None, b"")] * 3)
    batch = bytearray(HEADER_SIZE) + body
    write_header(batch, parse_header(good)._replace(base_offset=41, record_count=1))
    with pytest.raises(KafkaError, match="1 records at offset 41 of clicks-3 cannot be read") as caught:
        decode_all([good, batch, good])
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("deltas", [(0, 2, 1), (0, 0, 1), (-1, 0, 1), (0, 1, 3), (0, 1 << 31, 2)])
def test_an_offset_that_is_not_the_records_own_is_refused(decode_all: Rows, deltas: tuple[int, ...]) -> None:
    """Its row was left out without a word."""
    good = build_batch([Record(0, 0, None, b"")] * 3)
    batch = bytearray(HEADER_SIZE) + b"".join(encode_record(delta, 0, None, b"") for delta in deltas)
    write_header(batch, parse_header(good)._replace(base_offset=41))
    with pytest.raises(KafkaError, match="3 records at offset 41 of clicks-3 cannot be read: a record has an offset"):
        decode_all([good, batch, good])


@pytest.mark.parametrize("timestamp", [2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_a_time_beyond_sparks_calendar_is_refused(decode_all: Rows, timestamp: int) -> None:
    with pytest.raises(KafkaError, match="Spark cannot express") as caught:
        decode_all([build_batch([Record(0, timestamp, None, b"")])])
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


def test_batches_that_are_more_than_arrow_can_hold_are_refused(
    decode_all: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.spark.columns.decode.MAX_BYTES", 100)
    with pytest.raises(KafkaError, match="fetch less"):
        decode_all([build_batch([Record(0, 0, None, bytes(101))])])


def test_types_are_exact() -> None:
    buffer = build_batch([Record(0, 0, b"", None)])
    rows = decode(buffer, list(iter_batches(buffer)), tp=WHERE, start_offset=0, end_offset=9, include_headers=True)
    assert rows.schema.types[:2] == [pa.binary(), pa.binary()]
    assert rows.to_pylist()[0]["key"] == b""
