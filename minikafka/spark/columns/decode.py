"""Batches of a fetch -> one Arrow record batch, a field at a time for all records of all batches.

1. The bodies stay in place, unless one is compressed: then all are copied into one buffer, decompressed.
2. ``starts`` finds the start of each record, and checks the sum of their lengths.
3. Every other field is read for all records at once, from the end of the field before. A wrong position reads some byte
   inside the buffer, and is found at the end: each record must end where the next begins. Then Arrow copies keys and
   values.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import COMPRESSION_MASK, HEADER_SIZE, TIMESTAMP_TYPE_FLAG, BatchHeader, Buffer
from minikafka.records.compression import decompress
from minikafka.records.read import MAX_DECOMPRESSED_BYTES
from minikafka.records.record import MIN_RECORD_SIZE
from minikafka.spark.columns.broken import BrokenBatchError, BrokenRecordError, check
from minikafka.spark.columns.headers import read_headers
from minikafka.spark.columns.schema import TIMESTAMP_TYPE, arrow_schema
from minikafka.spark.columns.slices import MAX_BYTES, Slices, gather, read_slices
from minikafka.spark.columns.starts import record_starts
from minikafka.spark.columns.varints import MAX_INT64_BYTES, Bytes, Ints, read_varints, signed

_MAX_TIMESTAMP_MS: Final = (2**63 - 1) // 1000  # the largest time in microseconds


def decode(
    buffer: Buffer,
    batches: Sequence[tuple[int, BatchHeader]],
    *,
    tp: TopicPartition,
    start_offset: int,
    end_offset: int,
    include_headers: bool,
) -> Any:
    """The records from ``start_offset`` to before ``end_offset`` as a ``pyarrow.RecordBatch`` of the source's schema.

    ``batches`` are whole batches with checked CRCs, by their positions in ``buffer``. Control batches are left out. In
    the column ``headers`` a record without headers has null, as in Spark's own source. The result does not refer to
    ``buffer``.

    Raises KafkaError: CORRUPT_MESSAGE for malformed records, MESSAGE_TOO_LARGE for more than an Arrow batch can hold
    (pass fewer batches), INVALID_TIMESTAMP for a time outside of Spark's range.
    """
    kept = [(position, header) for position, header in batches if not header.is_control]
    bodies = _unpacked(memoryview(buffer), kept, tp)
    try:
        records = _read(bodies)
        _check_offsets(bodies, records.offset_deltas)
        offsets = np.repeat(bodies.numbers("base_offset"), bodies.counts) + records.offset_deltas
        is_wanted = (offsets >= start_offset) & (offsets < end_offset)
        rows = None if is_wanted.all() else np.flatnonzero(is_wanted)
        columns = _columns(bodies, records, offsets, rows, tp)
        if include_headers:
            headers = read_headers(bodies.data, records.header_counts, records.headers_begin, records.ends)
            columns.append(headers if rows is None else headers.take(pa.array(rows)))
    except BrokenBatchError as error:
        raise _corrupt(tp, bodies.headers[error.batch], error.what) from None
    except BrokenRecordError as error:
        raise _corrupt(tp, bodies.headers[bodies.batch_of(error.record)], error.what) from None
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(include_headers=include_headers))


class _Bodies(NamedTuple):
    """The encoded records of batches, in one buffer."""

    headers: list[BatchHeader]
    unpacked: list[Buffer]
    data: Bytes
    begins: list[int]  # of each in ``data``
    counts: Ints  # of records

    def numbers(self, field: str) -> Ints:
        """A field of all headers."""
        return np.array([getattr(header, field) for header in self.headers], np.int64)

    def batch_of(self, record: int) -> int:
        return int(np.searchsorted(np.cumsum(self.counts), record, "right"))


class _Records(NamedTuple):
    """The fields of all records of all bodies."""

    timestamp_deltas: Ints
    offset_deltas: Ints
    key: Slices
    value: Slices
    header_counts: Ints
    headers_begin: Ints
    ends: Ints


def _unpacked(view: memoryview, batches: list[tuple[int, BatchHeader]], tp: TopicPartition) -> _Bodies:
    headers = [header for _, header in batches]
    unpacked = [_unpack(view, position, header, tp) for position, header in batches]
    counts = np.array([header.record_count for header in headers], np.int64)
    if len(view) <= MAX_BYTES and not any(header.attributes & COMPRESSION_MASK for header in headers):
        begins = [position + HEADER_SIZE for position, _ in batches]
        return _Bodies(headers, unpacked, np.frombuffer(view, np.uint8), begins, counts)
    begins = list(accumulate(map(len, unpacked), initial=0))
    size = begins.pop()
    if size > MAX_BYTES:
        message = f"{len(batches)} batches of {tp} hold {size} bytes, more than one Arrow batch can"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{message}; fetch less at a time")
    return _Bodies(headers, unpacked, np.frombuffer(b"".join(unpacked), np.uint8), begins, counts)


def _unpack(view: memoryview, position: int, header: BatchHeader, tp: TopicPartition) -> Buffer:
    """The encoded records of a batch, decompressed."""
    stored = view[position + HEADER_SIZE : position + header.size_in_bytes]
    is_compressed = header.attributes & COMPRESSION_MASK
    body = decompress(header.compression, stored, MAX_DECOMPRESSED_BYTES) if is_compressed else stored
    if not 0 <= header.record_count * MIN_RECORD_SIZE <= len(body):
        raise _corrupt(tp, header, f"{len(body)} bytes cannot be that many records")
    return body


def _read(bodies: _Bodies) -> _Records:
    data = bodies.data
    sizes, begins = read_varints(data, record_starts(bodies.unpacked, bodies.counts.tolist(), bodies.begins))
    check((sizes & 1).astype(np.bool_), "a record has a negative length")
    ends = begins + (sizes >> 1)
    timestamps, after = read_varints(data, begins + 1, MAX_INT64_BYTES)  # behind a byte of attributes, unused
    offsets, after = read_varints(data, after)
    key = read_slices(data, after, "key")
    value = read_slices(data, key.ends, "value")
    header_counts, after = read_varints(data, value.ends)
    check((header_counts & 1).astype(np.bool_), "a record has a negative number of headers")
    check((after > ends) | ((header_counts == 0) & (after < ends)), "a record has a wrong length")
    return _Records(signed(timestamps), signed(offsets), key, value, header_counts >> 1, after, ends)


def _check_offsets(bodies: _Bodies, deltas: Ints) -> None:
    """Each record lies in its batch, behind the one before: brokers take any, and what lies outside would be left out
    without a word."""
    is_wrong = (deltas < 0) | (deltas > np.repeat(bodies.numbers("last_offset_delta"), bodies.counts))
    is_first = np.zeros(len(deltas), np.bool_)
    is_first[(np.cumsum(bodies.counts) - bodies.counts)[bodies.counts > 0]] = True
    is_wrong[1:] |= (deltas[1:] <= deltas[:-1]) & ~is_first[1:]
    check(is_wrong, "a record has an offset outside the batch, or not behind the one before")


def _columns(bodies: _Bodies, records: _Records, offsets: Ints, rows: Ints | None, tp: TopicPartition) -> list[Any]:
    """All but the headers."""
    is_append_time = bodies.numbers("attributes") & TIMESTAMP_TYPE_FLAG != 0
    base_timestamps = np.where(is_append_time, bodies.numbers("max_timestamp"), bodies.numbers("base_timestamp"))
    timestamps = np.repeat(base_timestamps, bodies.counts)
    timestamp_types = np.repeat(is_append_time.astype(np.int32), bodies.counts)
    timestamps += records.timestamp_deltas * (1 - timestamp_types)
    offsets, timestamps, types = (
        column if rows is None else column[rows] for column in (offsets, timestamps, timestamp_types)
    )
    count = len(offsets)
    return [
        gather(bodies.data, records.key, rows),
        gather(bodies.data, records.value, rows),
        pa.repeat(pa.scalar(tp.topic, pa.string()), count),
        pa.array(np.full(count, tp.partition, np.int32)),
        pa.array(offsets),
        _in_microseconds(timestamps, tp),
        pa.array(types),
    ]


def _in_microseconds(timestamps_ms: Ints, tp: TopicPartition) -> Any:
    is_wrong = (timestamps_ms > _MAX_TIMESTAMP_MS) | (timestamps_ms < -_MAX_TIMESTAMP_MS)
    if is_wrong.any():
        wrong = int(timestamps_ms[np.argmax(is_wrong)])
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, f"a record of {tp} has the timestamp {wrong} ms, which Spark cannot express"
        )
    return pa.array(timestamps_ms * 1000).view(TIMESTAMP_TYPE)


def _corrupt(tp: TopicPartition, header: BatchHeader, what: str) -> KafkaError:
    batch = f"the batch of {header.record_count} records at offset {header.base_offset} of {tp}"
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{batch} cannot be read: {what}")
