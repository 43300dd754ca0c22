"""Records -> a batch: for producers, the metadata log, group offsets and compaction.

Pure Python by measurement (``benchmarks/records.py``): it is as fast as the C builder there is to borrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from minikafka.model import (
    NO_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Compression,
)
from minikafka.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    MAGIC,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    write_header,
)
from minikafka.records.compression import compress
from minikafka.records.keys import KeyedRecord
from minikafka.records.read import corrupt
from minikafka.records.record import HEADER_KEY_ERRORS, Header, Record, encode_record, encode_varint

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_TIMESTAMP_TOO_LARGE: Final = "a timestamp does not fit in 64 bits"
_MAX_RECORD_OVERHEAD: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5  # every fixed field of a record at its longest


@dataclass(slots=True, kw_only=True, eq=False)
class BatchBuilder:
    """Collects records and builds their batch; offsets run from ``base_offset`` without gaps.

    The producer fields may be set until :meth:`build`: a producer learns its id after it has begun to collect, and
    gives a batch its sequence when it sends it. A builder is built once.
    """

    compression: Compression = Compression.NONE
    compression_level: int | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    base_offset: int = 0
    leader_epoch: int = NO_EPOCH
    record_count: int = field(default=0, init=False)
    _base_timestamp: int = field(default=NO_TIMESTAMP, init=False)
    _max_timestamp: int = field(default=NO_TIMESTAMP, init=False)
    _batch: bytearray = field(default_factory=lambda: bytearray(HEADER_SIZE), init=False)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the batch if it were built now without compression."""
        return len(self._batch)

    def append(self, key: Buffer | None, value: Buffer | None, timestamp: int, headers: Sequence[Header] = ()) -> int:
        """Add a record (timestamp in wall-clock ms); its offset delta, which is its index in the batch."""
        offset_delta = self.record_count
        if not offset_delta:
            self._base_timestamp = timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self._batch += encode_record(offset_delta, timestamp - self._base_timestamp, key, value, headers)
        self.record_count = offset_delta + 1
        return offset_delta

    def build(self) -> bytearray:
        """The finished batch. The body is compressed unless that would make it larger."""
        assert self.record_count, "a batch has at least one record"
        flags = (TRANSACTIONAL_FLAG if self.is_transactional else 0) | (CONTROL_FLAG if self.is_control else 0)
        header = BatchHeader(
            base_offset=self.base_offset,
            batch_length=0,
            leader_epoch=self.leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=flags,
            last_offset_delta=self.record_count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self.record_count,
        )
        return _seal(self._batch, header, self.compression, self.compression_level)


def upper_bound_size(key: Buffer | None, value: Buffer | None, headers: Sequence[Header] = ()) -> int:
    """Bytes that a record adds to a batch at most, before compression."""
    size = _MAX_RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for name, header_value in headers:
        size += 10 + len(name.encode("utf-8", HEADER_KEY_ERRORS)) + (len(header_value) if header_value else 0)
    return size


def build_batch(
    records: Iterable[Record],
    *,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytearray:
    """One batch of ``records``, at least one. Offsets run from ``base_offset``: those in the records are not read."""
    builder = BatchBuilder(
        compression=compression,
        compression_level=compression_level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )
    for _, timestamp, key, value, headers in records:
        builder.append(key, value, timestamp, headers)
    return builder.build()


def empty_batch(base_offset: int, end_offset: int, leader_epoch: int) -> bytes:
    """A batch without a record that spans the offsets up to ``end_offset``, as compaction may leave one."""
    assert base_offset < end_offset, "it spans an offset at least"
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=end_offset - base_offset - 1,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=0,
    )
    batch = bytearray(HEADER_SIZE)
    write_header(batch, header)
    return bytes(batch)


def rebuild_batch(
    header: BatchHeader, body: bytes, kept: Iterable[KeyedRecord], *, delete_horizon_ms: int | None = None
) -> bytearray:
    """The batch of ``header`` with only some records of its ``body``, at their old offsets: what compaction writes.

    Offset range, sequences and attributes stay as they were, so that the log has no holes between batches and a
    producer's state can still be rebuilt from them; there may be no record left, and then it has its time still, as in
    Kafka. ``delete_horizon_ms`` is the time from which the tombstones and markers in it may go (KIP-534).

    KafkaError(CORRUPT_MESSAGE) where a header cannot tell the timestamp of a record: a producer may send any delta.
    """
    attributes, base_timestamp = header.attributes & ~COMPRESSION_MASK, header.base_timestamp
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = delete_horizon_ms
    later_ms = header.base_timestamp - base_timestamp
    count, max_timestamp = 0, NO_TIMESTAMP
    batch = bytearray(HEADER_SIZE)
    for _offset, timestamp_delta, _key, _is_tombstone, begin, rest, end in kept:
        if later_ms:
            if not _INT64_MIN <= timestamp_delta + later_ms <= _INT64_MAX:
                corrupt(header, _TIMESTAMP_TOO_LARGE)
            record = b"\x00" + encode_varint(timestamp_delta + later_ms) + body[rest:end]
            batch += encode_varint(len(record)) + record
        else:
            batch += body[begin:end]
        count += 1
        if header.base_timestamp + timestamp_delta > max_timestamp:
            max_timestamp = header.base_timestamp + timestamp_delta
    if not count or attributes & TIMESTAMP_TYPE_FLAG:
        max_timestamp = header.max_timestamp
    elif max_timestamp > _INT64_MAX:
        corrupt(header, _TIMESTAMP_TOO_LARGE)
    rebuilt = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count
    )
    return _seal(batch, rebuilt, header.compression, None)


def _seal(batch: bytearray, header: BatchHeader, compression: Compression, level: int | None) -> bytearray:
    """Finish a batch whose records are in place: compress them, unless that makes them larger, and write the header."""
    if compression:
        body = compress(compression, memoryview(batch)[HEADER_SIZE:], level)
        if len(body) < len(batch) - HEADER_SIZE:
            batch = bytearray(HEADER_SIZE) + body
            header = header._replace(attributes=header.attributes | compression)
    write_header(batch, header)
    return batch
