"""What a leader demands of a producer's batch, and a follower of its leader's.

The codes are those of the bad-input table of the reliability list. The header and the CRC are all that is looked at:
what is inside a batch is between the producer and its consumers. Only the keys for a compacted topic are looked for,
and which records have the timestamps that a batch is refused for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple, NoReturn

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_PRODUCER_ID, Compression, TimestampType
from minikafka.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    compute_crc,
    parse_header,
)
from minikafka.records.read import MAX_DECOMPRESSED_BYTES, iter_records
from minikafka.records.record import MIN_RECORD_SIZE

ZSTD_MIN_PRODUCE_VERSION: Final = 7

MAX_INSIDE_BYTES: Final = 32 * 1024 * 1024
"""What a batch may decompress to where a broker looks inside, as it does for a compacted topic."""
RECORDS_LOOKED_AT_ONCE: Final = 1_000
RECORDS_NAMED_MAX: Final = 1_000
"""Of so many records a producer is told that they are why the batch was refused; of others when it sends the rest."""

_CODEC_MAX: Final = int(Compression.ZSTD)
_CODEC_ZSTD: Final = int(Compression.ZSTD)
_FORBIDDEN_FLAGS: Final = CONTROL_FLAG | DELETE_HORIZON_FLAG
_RECORDS_MAX: Final = MAX_DECOMPRESSED_BYTES // MIN_RECORD_SIZE
_INT64_MAX: Final = (1 << 63) - 1


class BatchLimits(NamedTuple):
    """The topic's settings that a batch is checked against; made once per topic configuration. Times in ms."""

    max_message_bytes: int = 1_048_588  # max.message.bytes
    segment_bytes: int = 1 << 30  # segment.bytes
    timestamp_type: TimestampType = TimestampType.CREATE_TIME  # message.timestamp.type
    timestamp_before_max_ms: int = _INT64_MAX  # message.timestamp.before.max.ms
    timestamp_after_max_ms: int = 3_600_000  # message.timestamp.after.max.ms


UNLIMITED: Final = BatchLimits((1 << 31) - 1, (1 << 31) - 1, TimestampType.LOG_APPEND_TIME)
"""For a batch that the log has already."""


def validate_produce(records: Buffer | None, limits: BatchLimits, produce_version: int, now_ms: int) -> BatchHeader:
    """The header of the one batch in ``records``, a producer's data for one partition; KafkaError if it is refused.

    ``now_ms`` is wall-clock time. Lengths come first, then the CRC, and only then the fields that the CRC covers, so
    that a damaged batch gets CORRUPT_MESSAGE, which producers retry, and not an error that blames its author.
    """
    if records is None or (size := len(records)) < HEADER_SIZE:
        _refuse_short(records)
    header = parse_header(records)
    (_, batch_length, _, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp) = header[:9]
    if magic != MAGIC:
        _refuse(
            ErrorCode.INVALID_RECORD,
            f"magic {magic}; only record batches of magic 2 (Kafka 0.11 and later) are accepted",
        )
    if batch_length + LOG_OVERHEAD != size:
        _refuse_length(batch_length, size)
    if size > limits.max_message_bytes:
        _refuse(ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes; max.message.bytes is {limits.max_message_bytes}")
    if size > limits.segment_bytes:
        _refuse(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes; segment.bytes is {limits.segment_bytes}")
    if compute_crc(records, 0, size) != crc:
        _refuse(ErrorCode.CORRUPT_MESSAGE, "the CRC does not match; it was damaged on its way")
    if header.record_count != last_offset_delta + 1 or last_offset_delta < 0:
        _refuse(
            ErrorCode.INVALID_RECORD,
            f"record count {header.record_count} and last offset delta {last_offset_delta} do not belong together",
        )
    if attributes & _FORBIDDEN_FLAGS:
        _refuse(ErrorCode.INVALID_RECORD, f"attributes {attributes:#06x}; control batches are written by brokers only")
    codec = attributes & COMPRESSION_MASK
    if not codec:
        if header.record_count * MIN_RECORD_SIZE > size - HEADER_SIZE:
            _refuse(ErrorCode.INVALID_RECORD, f"{header.record_count} records do not fit into {size} bytes")
    elif header.record_count > _RECORDS_MAX:
        _refuse(ErrorCode.INVALID_RECORD, f"{header.record_count} records are too many to decompress")
    elif codec > _CODEC_MAX or (codec == _CODEC_ZSTD and produce_version < ZSTD_MIN_PRODUCE_VERSION):
        _refuse_codec(codec, produce_version)
    if header.producer_id != NO_PRODUCER_ID or attributes & TRANSACTIONAL_FLAG:
        _check_producer(header)
    if limits.timestamp_type == TimestampType.CREATE_TIME:
        if attributes & TIMESTAMP_TYPE_FLAG:
            _refuse(ErrorCode.INVALID_TIMESTAMP, "timestamp type LogAppendTime, which only a broker may set")
        if max_timestamp < base_timestamp:
            _refuse(
                ErrorCode.INVALID_TIMESTAMP,
                f"its largest timestamp, {max_timestamp}, is before that of its first record, {base_timestamp}",
            )
        if max_timestamp > now_ms + limits.timestamp_after_max_ms:
            raise TimestampError(max_timestamp, now_ms, limits)
        if 0 <= base_timestamp < now_ms - limits.timestamp_before_max_ms:
            raise TimestampError(base_timestamp, now_ms, limits)
    return header


RecordsCheck = Callable[[Buffer, BatchHeader], None]
"""A look at the records of a batch. Raises KafkaError."""


class RecordsError(KafkaError):
    """A batch is refused for some of its records, at ``indexes``: its producer may send the others again (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, indexes: Sequence[int]) -> None:
        super().__init__(code, message)
        self.indexes = indexes


class TimestampError(KafkaError):
    """A batch is refused for a timestamp of its header. :meth:`name_records` finds the records that have such a one."""

    def __init__(self, timestamp: int, now_ms: int, limits: BatchLimits) -> None:
        self._latest_ms = now_ms + limits.timestamp_after_max_ms
        self._earliest_ms = now_ms - limits.timestamp_before_max_ms
        setting, limit_ms = "message.timestamp.before.max.ms", limits.timestamp_before_max_ms
        if timestamp > self._latest_ms:
            setting, limit_ms = "message.timestamp.after.max.ms", limits.timestamp_after_max_ms
        super().__init__(
            ErrorCode.INVALID_TIMESTAMP,
            f"record batch refused: timestamp {timestamp} with the broker's clock at {now_ms}; {setting} is {limit_ms}",
        )

    def name_records(self, records: Buffer, header: BatchHeader) -> NoReturn:
        """RecordsError for those records; this error where the batch cannot be read, or none has such a timestamp."""
        try:
            each = enumerate(iter_records(records, 0, header, max_bytes=MAX_INSIDE_BYTES, with_headers=False))
            wrong = (index for index, record in each if not self._is_in_range(record.timestamp))
            named = list(islice(wrong, RECORDS_NAMED_MAX))
        except KafkaError:
            raise self from None
        if not named:
            raise self
        raise RecordsError(self.code, self.message, named)

    def _is_in_range(self, timestamp: int) -> bool:
        return timestamp < 0 or self._earliest_ms <= timestamp <= self._latest_ms


def is_costly_inside(header: BatchHeader) -> bool:
    """True when a look at the records may take longer than an event loop should: do it beside the loop."""
    return bool(header.attributes & COMPRESSION_MASK) or header.record_count > RECORDS_LOOKED_AT_ONCE


def validate_keys(records: Buffer, header: BatchHeader, max_bytes: int = MAX_INSIDE_BYTES) -> None:
    """RecordsError for the records that have no key, as none may lack one in a compacted topic.

    MESSAGE_TOO_LARGE when more than ``max_bytes`` come out of decompression.
    """
    each = enumerate(iter_records(records, 0, header, max_bytes=max_bytes, with_headers=False))
    keyless = list(islice((index for index, record in each if record.key is None), RECORDS_NAMED_MAX))
    if keyless:
        message = "a record without a key; the topic is compacted, which is done by key"
        raise RecordsError(ErrorCode.INVALID_RECORD, message, keyless)


def _check_producer(header: BatchHeader) -> None:
    if header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0:
        _refuse(
            ErrorCode.INVALID_RECORD,
            f"producer id {header.producer_id}, epoch {header.producer_epoch}, base sequence {header.base_sequence};"
            " an idempotent or transactional producer has none of them negative",
        )


def _refuse_short(records: Buffer | None) -> NoReturn:
    if not records:
        _refuse(ErrorCode.INVALID_RECORD, "none was sent; a produce request brings exactly one per partition")
    _refuse(ErrorCode.CORRUPT_MESSAGE, f"{len(records)} bytes are less than its header of {HEADER_SIZE}")


def _refuse_length(batch_length: int, size: int) -> NoReturn:
    if batch_length < MIN_BATCH_LENGTH or batch_length + LOG_OVERHEAD > size:
        _refuse(
            ErrorCode.CORRUPT_MESSAGE, f"its length field says {batch_length + LOG_OVERHEAD} bytes, {size} were sent"
        )
    extra = size - batch_length - LOG_OVERHEAD
    _refuse(ErrorCode.INVALID_RECORD, f"{extra} bytes follow it; a produce request brings exactly one per partition")


def _refuse_codec(codec: int, produce_version: int) -> NoReturn:
    if codec > _CODEC_MAX:
        _refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec}; 0 to {_CODEC_MAX} exist")
    _refuse(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"zstd in Produce version {produce_version}; it needs {ZSTD_MIN_PRODUCE_VERSION} or later",
    )


def _refuse(code: ErrorCode, reason: str) -> NoReturn:
    raise KafkaError(code, f"record batch refused: {reason}")
