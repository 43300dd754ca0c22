"""The v2 record-batch header, parsed by one ``struct`` call over any buffer, and what a broker changes in place.

::

    offset  type    field             note
         0  int64   base_offset       assigned by the leader; outside the CRC
         8  int32   batch_length      bytes after this field, so the whole batch is 12 longer
        12  int32   leader_epoch      assigned by the leader; outside the CRC
        16  int8    magic             2
        17  uint32  crc               CRC-32C of everything from ``attributes`` to the end
        21  int16   attributes        0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
        23  int32   last_offset_delta last offset - base offset (compaction keeps it, so it may exceed the count)
        27  int64   base_timestamp    ms
        35  int64   max_timestamp     ms; of every record when the broker stamps (log append time)
        43  int64   producer_id       -1 when not idempotent
        51  int16   producer_epoch
        53  int32   base_sequence     wraps from 2^31-1 to 0
        57  int32   record_count
        61          records

A position is an index into the buffer. No function here copies batch bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_PRODUCER_ID, NO_SEQUENCE, Compression

Buffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview

MAGIC: Final = 2
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base_offset and batch_length, which batch_length does not count
MIN_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

MAX_SEQUENCE: Final = 0x7FFFFFFF

HEADER: Final = Struct(">qiibIhiqqqhii")
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT16: Final = Struct(">h")

_BATCH_LENGTH_POSITION: Final = 8
_LEADER_EPOCH_POSITION: Final = 12
_MAX_TIMESTAMP_POSITION: Final = 35

_new_tuple: Final = tuple.__new__  # a NamedTuple without its Python-level constructor: half the time

assert HEADER.size == HEADER_SIZE


class BatchHeader(NamedTuple):
    """The header fields in wire order (see the module's table for their meaning)."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record (that the batch once had, if it was compacted)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch: a log's end offset once the batch is appended."""
        return self.base_offset + self.last_offset_delta + 1

    def has_gap_from(self, end_offset: int) -> bool:
        """True when an offset from ``end_offset``, the end of the batch before, to its last one has no record."""
        return self.base_offset > end_offset or self.record_count <= self.last_offset_delta

    @property
    def compression(self) -> Compression:
        """The codec; KafkaError(UNSUPPORTED_COMPRESSION_TYPE) for one that does not exist."""
        codec = self.attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"a batch names codec {codec}; 0 to 4 exist")
        return Compression(codec)

    @property
    def is_transactional(self) -> bool:
        """True when the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """True for a batch written by brokers, which consumers skip (transaction markers, leader changes)."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        """True when ``base_timestamp`` is the time from which compaction may drop tombstones (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def has_producer_id(self) -> bool:
        """True when an idempotent or transactional producer (or its coordinator) wrote the batch."""
        return self.producer_id != NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapped as int32 sequences wrap; -1 when the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at ``position``; ``struct.error`` if fewer than 61 bytes are there. Nothing is checked."""
    return _new_tuple(BatchHeader, HEADER.unpack_from(buffer, position))


def write_header(batch: WritableBuffer, header: BatchHeader) -> None:
    """Write ``header`` over the first 61 bytes of ``batch``, one whole batch, with its length and CRC computed."""
    HEADER.pack_into(batch, 0, *header)
    _INT32.pack_into(batch, _BATCH_LENGTH_POSITION, len(batch) - LOG_OVERHEAD)
    _UINT32.pack_into(batch, CRC_POSITION, compute_crc(batch, 0, len(batch)))


def iter_batches(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Each complete batch in ``buffer[position:end]`` as (position, header).

    Stops before a batch that is cut off by ``end``: a fetch may end in the middle of one, and so may a log after a
    crash. Raises KafkaError(CORRUPT_MESSAGE) at bytes that cannot begin a v2 batch. CRCs are not computed here.
    """
    end = len(buffer) if end is None else end
    while end - position >= HEADER_SIZE:
        header = parse_header(buffer, position)
        if header.batch_length < MIN_BATCH_LENGTH or header.magic != MAGIC:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"no record batch at byte {position}: batch_length {header.batch_length}, magic {header.magic}",
            )
        next_position = position + header.batch_length + LOG_OVERHEAD
        if next_position > end:
            return
        yield position, header
        position = next_position


def compute_crc(buffer: Buffer, position: int, size_in_bytes: int) -> int:
    """CRC-32C of the batch of that size at ``position``."""
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size_in_bytes])


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """True when the batch at ``position``, all of which must be in the buffer, is as its builder wrote it."""
    return compute_crc(buffer, position, header.batch_length + LOG_OVERHEAD) == header.crc


def assign_offsets(buffer: WritableBuffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write what the leader decides at append. The CRC stays valid."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def set_log_append_time(buffer: WritableBuffer, position: int, now_ms: int) -> BatchHeader:
    """Stamp the batch with the broker's wall clock (``message.timestamp.type=LogAppendTime``); the new header.

    Every record then has timestamp ``now_ms``, whatever its own delta says. Recomputes the CRC.
    """
    header = parse_header(buffer, position)
    attributes = header.attributes | TIMESTAMP_TYPE_FLAG
    _INT16.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, now_ms)
    crc = compute_crc(buffer, position, header.size_in_bytes)
    _UINT32.pack_into(buffer, position + CRC_POSITION, crc)
    return header._replace(attributes=attributes, max_timestamp=now_ms, crc=crc)
