"""Arrow to batches, against ``BatchBuilder``, which goes record by record."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression
from minikafka.records.batch import HEADER_SIZE, crc_is_valid, parse_header
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.spark.columns.encode import EncodedBatch, encode
from minikafka.spark.columns.schema import HEADERS_TYPE

Rows = Callable[..., list[dict[str, Any]]]

maybe_bytes = st.none() | st.binary(max_size=12) | st.integers(50, 20_000).map(lambda size: b"v" * size)
record_headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=90)), max_size=3).map(tuple)
rows_of = st.lists(
    st.builds(Record, st.just(0), st.integers(-(10**12), 10**13), maybe_bytes, maybe_bytes, record_headers),
    max_size=30,
)


def encoded(records: list[Record], max_batch_bytes: int = 1 << 20, **options: Any) -> list[EncodedBatch]:
    headers = [[{"key": key, "value": value} for key, value in record.headers] or None for record in records]
    columns: dict[str, Any] = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "headers": pa.array(headers, HEADERS_TYPE),
        "timestamps_ms": np.array([record.timestamp for record in records], np.int64),
        "compression": Compression.NONE,
    }
    return list(encode(**(columns | options), max_batch_bytes=max_batch_bytes))


@settings(deadline=None, max_examples=80)
@given(records=rows_of, max_batch_bytes=st.integers(1, 60_000), codec=st.sampled_from(Compression))
def test_batches_are_those_of_the_builder(records: list[Record], max_batch_bytes: int, codec: Compression) -> None:
    begin = 0
    for data, count in encoded(records, max_batch_bytes, compression=codec):
        part = records[begin : begin + count]
        assert data == build_batch(part, compression=codec)
        assert count == 1 or len(build_batch(part)) <= max_batch_bytes
        begin += count
    assert begin == len(records)


@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=200))
def test_batches_are_nearly_full(sizes: list[int]) -> None:
    batches = encoded([Record(0, 0, None, bytes(size)) for size in sizes], 1000)
    for (batch, _), (_, count) in pairwise(batches):
        assert count
        assert len(batch) > 1000 - 300 - 20 - 5 * parse_header(batch).record_count


def test_every_slice_of_a_column_is_taken_for_itself() -> None:
    records = [Record(0, n, b"%d" % n, b"v%d" % n, (("h", b"%d" % n),)) for n in range(50)]
    headers = [[{"key": "h", "value": b"%d" % n}] for n in range(50)]
    (batch,) = encode(
        pa.array([r.key for r in records]).slice(7, 11),
        pa.array([r.value for r in records]).slice(7, 11),
        pa.array(headers, HEADERS_TYPE).slice(7, 11),
        np.arange(7, 18),
        max_batch_bytes=1 << 20,
        compression=Compression.NONE,
    )
    assert batch.data == build_batch(records[7:18])


def test_headers_behind_a_null_list_are_not_written() -> None:
    items = pa.array([{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}], HEADERS_TYPE.value_type)
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), items, type=HEADERS_TYPE, mask=pa.array([True, False])
    )
    ((batch, _),) = encoded([Record(0, 0, None, b"")] * 2, headers=hidden)
    assert [record.headers for record in iter_records(batch)] == [(), (("b", b"2"),)]


def test_one_timestamp_for_all_and_no_keys_nor_headers(decode_all: Rows) -> None:
    ((batch, count),) = encoded([Record(0, 0, None, b"v")] * 9, key=None, headers=None, timestamps_ms=1234)
    assert count == 9
    assert crc_is_valid(batch, 0, parse_header(batch))
    assert batch == build_batch([Record(0, 1234, None, b"v")] * 9)
    assert len(decode_all([batch])) == 9


def test_no_rows_are_no_batches() -> None:
    assert encoded([]) == []
    assert encoded([], key=None, headers=None, timestamps_ms=5) == []


def test_large_columns_are_joined_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.spark.columns.encode._TURN_BYTES", 5_000)
    records = [Record(0, n, None, bytes(n), (("n", b"x"),) * (n % 3)) for n in range(300)]
    batches = encoded(records, 3_000)
    found = [(r.timestamp, r.value, r.headers) for batch, _ in batches for r in iter_records(batch)]
    assert found == [(r.timestamp, r.value, r.headers) for r in records]
    assert all(len(batch) <= 3_000 for batch, _ in batches)


def test_a_header_without_a_key_is_refused() -> None:
    headers = pa.array([[{"key": None, "value": b"x"}]], HEADERS_TYPE)
    with pytest.raises(KafkaError, match="key is null") as caught:
        encoded([Record(0, 0, None, b"")], headers=headers)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_row_that_no_batch_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.spark.columns.encode.MAX_BYTES", 1_000)
    with pytest.raises(KafkaError, match="make it smaller") as caught:
        encoded([Record(0, 0, None, bytes(1_001))])
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_may_be_changed_by_who_gets_it() -> None:
    first, second = encoded([Record(0, 0, None, bytes(500))] * 2, 600)
    first.data[HEADER_SIZE:] = b"\xff" * (len(first.data) - HEADER_SIZE)
    assert next(iter(iter_records(second.data))).value == bytes(500)
