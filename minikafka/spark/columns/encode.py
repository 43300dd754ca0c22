"""Arrow columns -> record batches, a field at a time for all rows.

The numbers of a record precede its key and its value. They are packed into binary columns for all rows, and Arrow joins
the columns row by row. The result is the body of one batch or several. The cuts are decided before, because the numbers
count from the first record of their batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Compression
from minikafka.records.batch import HEADER_SIZE, MAGIC, BatchHeader, write_header
from minikafka.records.compression import compress
from minikafka.records.record import MIN_RECORD_SIZE
from minikafka.spark.columns.headers import EncodedHeaders, encode_headers
from minikafka.spark.columns.joining import joined, lengths, pack
from minikafka.spark.columns.slices import MAX_BYTES
from minikafka.spark.columns.varints import Ints, to_zigzag, varint_size, varint_sizes

_TURN_BYTES: Final = 32 * 1024 * 1024  # joined at a time, unless batches are larger
_NO_HEADERS: Final = pa.scalar(b"\x00", pa.binary())
_MAX_OVERHEAD: Final = 64  # more than all numbers of a record at their longest


class EncodedBatch(NamedTuple):
    """A batch without offsets, producer and sequence: these are written into its header when it is sent."""

    data: bytearray
    record_count: int


def encode(
    key: Any | None,
    value: Any,
    headers: Any | None,
    timestamps_ms: int | Ints,
    *,
    max_batch_bytes: int,
    compression: Compression,
) -> Iterator[EncodedBatch]:
    """The rows in their order, in batches of at most ``max_batch_bytes`` before compression (one record may be larger).

    ``key`` and ``value`` are binary arrays, ``headers`` one of ``list<struct<key: string, value: binary>>``; None
    is a column of nulls. Timestamps: one for all rows, or an array. A body that compression does not shrink stays
    uncompressed. KafkaError: INVALID_RECORD for a header without key, MESSAGE_TOO_LARGE for a row of 2 GiB.
    """
    encoded_headers = None if headers is None else encode_headers(headers)
    rows = _Rows(
        key if key is not None and key.null_count < len(key) else None,
        value,
        encoded_headers if encoded_headers is not None and encoded_headers.counts.any() else None,
        np.broadcast_to(np.asarray(timestamps_ms, np.int64), len(value)),
    )
    sizes = rows.content_sizes() + _MAX_OVERHEAD
    if (largest := int(sizes.max(initial=0))) > MAX_BYTES:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a row of {largest} bytes cannot be one record; make it smaller")
    turns = _cut(sizes, min(max(_TURN_BYTES, max_batch_bytes), MAX_BYTES))
    for begin, end in pairwise(turns):
        yield from _encode(rows.slice(begin, end), max_batch_bytes, compression)


class _Rows(NamedTuple):
    key: Any | None
    value: Any
    headers: EncodedHeaders | None
    timestamps_ms: Ints

    def slice(self, begin: int, end: int) -> _Rows:
        key, headers, size = self.key, self.headers, end - begin
        return _Rows(
            None if key is None else key.slice(begin, size),
            self.value.slice(begin, size),
            None if headers is None else headers.slice(begin, end),
            self.timestamps_ms[begin:end],
        )

    def content_sizes(self) -> Ints:
        """Bytes of each row's key, value and headers."""
        sizes = np.maximum(lengths(self.value), 0)
        if self.key is not None:
            sizes += np.maximum(lengths(self.key), 0)
        if self.headers is not None:
            sizes += self.headers.sizes
        return sizes


def _encode(rows: _Rows, max_batch_bytes: int, compression: Compression) -> Iterator[EncodedBatch]:
    content_sizes = rows.content_sizes()
    cuts = np.array(
        _cut(content_sizes + _overhead(rows, content_sizes, max_batch_bytes), max_batch_bytes - HEADER_SIZE)
    )
    counts = np.diff(cuts)
    first_rows = np.repeat(cuts[:-1], counts)
    timestamps = rows.timestamps_ms
    begins, data = _bodies(
        rows, content_sizes, timestamps - timestamps[first_rows], np.arange(len(first_rows)) - first_rows
    )
    base_timestamps = timestamps[cuts[:-1]].tolist()
    max_timestamps = np.maximum(np.maximum.reduceat(timestamps, cuts[:-1]), NO_TIMESTAMP).tolist()
    bounds = begins[cuts].tolist()
    for index, count in enumerate(counts.tolist()):
        body = data[bounds[index] : bounds[index + 1]]
        yield EncodedBatch(_sealed(body, count, base_timestamps[index], max_timestamps[index], compression), count)


def _overhead(rows: _Rows, content_sizes: Ints, max_batch_bytes: int) -> int:
    """Largest size in bytes of a record's numbers, in these rows."""
    largest = int(content_sizes.max())
    span = int(rows.timestamps_ms.max()) - int(rows.timestamps_ms.min())
    records = min(len(content_sizes), max_batch_bytes // MIN_RECORD_SIZE + 1)
    of_length = varint_size(largest + _MAX_OVERHEAD)
    of_headers = 1 if rows.headers is None else varint_size(int(rows.headers.counts.max()))
    return 1 + varint_size(span) + varint_size(records) + 3 * of_length + of_headers


def _bodies(rows: _Rows, content_sizes: Ints, timestamp_deltas: Ints, offset_deltas: Ints) -> tuple[Ints, memoryview]:
    """All records, with their starts and the end of the last."""
    nothing = np.zeros(len(content_sizes), np.int64)
    value_lengths = lengths(rows.value)
    key_lengths = nothing - 1 if rows.key is None else lengths(rows.key)
    before_key = [nothing, timestamp_deltas, offset_deltas, key_lengths]
    header_counts = nothing if rows.headers is None else rows.headers.counts
    numbers = [*before_key, value_lengths, header_counts]
    body_sizes = content_sizes + sum(varint_sizes(to_zigzag(column)) for column in numbers)
    begins = np.zeros(len(body_sizes) + 1, np.int64)
    np.cumsum(body_sizes + varint_sizes(to_zigzag(body_sizes)), out=begins[1:])
    if rows.key is None:
        columns = [pack([body_sizes, *before_key, value_lengths]), rows.value]
    else:
        columns = [pack([body_sizes, *before_key]), rows.key, pack([value_lengths]), rows.value]
    columns += [_NO_HEADERS] if rows.headers is None else [pack([header_counts]), rows.headers.encoded]
    return begins, memoryview(joined(columns).buffers()[2])


def _sealed(
    body: memoryview, count: int, base_timestamp: int, max_timestamp: int, compression: Compression
) -> bytearray:
    """A whole batch, compressed unless compression makes it larger."""
    packed = compress(compression, body) if compression else body
    is_smaller = len(packed) < len(body)
    data = bytearray(HEADER_SIZE)
    data += packed if is_smaller else body
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=NO_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=int(compression) if is_smaller else 0,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    write_header(data, header)
    return data


def _cut(sizes: Ints, limit: int) -> list[int]:
    """Row numbers of the cuts: the sizes in between add up to at most ``limit`` (a single row may be larger)."""
    ends = np.cumsum(sizes)
    cuts = [0]
    while (begin := cuts[-1]) < len(sizes):
        before = int(ends[begin - 1]) if begin else 0
        cuts.append(max(int(np.searchsorted(ends, before + limit, "right")), begin + 1))
    return cuts
