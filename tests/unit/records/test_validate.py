from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression, TimestampType
from minikafka.records.batch import BatchHeader, parse_header, write_header
from minikafka.records.build import build_batch
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.record import Record
from minikafka.records.validate import (
    RECORDS_NAMED_MAX,
    BatchLimits,
    RecordsError,
    TimestampError,
    validate_keys,
    validate_produce,
)

NOW_MS = 1_700_000_000_000
LIMITS = BatchLimits()


def validate(records: bytes, limits: BatchLimits = LIMITS, version: int = 9) -> BatchHeader:
    return validate_produce(memoryview(bytearray(records)), limits, version, NOW_MS)


def refusal(records: bytes, limits: BatchLimits = LIMITS, version: int = 9) -> tuple[ErrorCode, str]:
    with pytest.raises(KafkaError) as caught:
        validate(records, limits, version)
    return caught.value.code, caught.value.message


def a_batch(**fields: int) -> bytearray:
    """A good batch of two records with some header fields overwritten and its CRC computed anew."""
    batch = build_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS + 1, None, b"w")])
    write_header(batch, parse_header(batch)._replace(**fields))
    return batch


@pytest.mark.parametrize("codec", list(Compression))
def test_a_good_batch_is_accepted_and_its_header_returned(codec: Compression) -> None:
    batch = build_batch([Record(0, NOW_MS, b"k", b"v" * 500)], compression=codec)
    assert validate(batch) == parse_header(batch)


def test_idempotent_and_transactional_batches_are_accepted() -> None:
    record = Record(0, NOW_MS, b"k", b"v")
    header = validate(build_batch([record], producer_id=0, producer_epoch=0, base_sequence=0, is_transactional=True))
    assert header.is_transactional
    assert validate(build_batch([record], producer_id=7, producer_epoch=3, base_sequence=2**31 - 1)).last_sequence


@pytest.mark.parametrize("nothing", [None, b"", memoryview(b"")])
def test_nothing_is_not_a_batch(nothing: memoryview | None) -> None:
    with pytest.raises(KafkaError, match="none was sent") as caught:
        validate_produce(nothing, LIMITS, 9, NOW_MS)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_cut_off_at_every_byte_is_corrupt_and_so_is_every_changed_length() -> None:
    batch = a_batch()
    for end in range(1, len(batch)):
        assert refusal(batch[:end])[0] is ErrorCode.CORRUPT_MESSAGE
    for length in (-1, 0, 48, len(batch) - 11, 2**31 - 1):
        batch[8:12] = length.to_bytes(4, "big", signed=True)
        assert refusal(batch)[0] is ErrorCode.CORRUPT_MESSAGE


def test_two_batches_or_trailing_bytes_are_invalid() -> None:
    code, message = refusal(a_batch() * 2)
    assert code is ErrorCode.INVALID_RECORD
    assert "exactly one" in message
    assert refusal(a_batch() + b"x")[0] is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_magics_are_invalid(magic: int) -> None:
    code, message = refusal(a_batch(magic=magic))
    assert code is ErrorCode.INVALID_RECORD
    assert f"magic {magic}" in message


@pytest.mark.spec("P5")
def test_every_flipped_bit_under_the_crc_is_corrupt_whatever_field_it_hits() -> None:
    batch = a_batch()
    for index in range(17, len(batch)):
        for bit in range(8):
            batch[index] ^= 1 << bit
            assert refusal(batch)[0] is ErrorCode.CORRUPT_MESSAGE
            batch[index] ^= 1 << bit


@pytest.mark.parametrize(
    ("last_offset_delta", "record_count"), [(1, 1), (1, 3), (0, 2), (-1, 0), (-2, -1), (2**31 - 1, -(2**31))]
)
def test_record_count_and_offset_range_belong_together(last_offset_delta: int, record_count: int) -> None:
    batch = a_batch(last_offset_delta=last_offset_delta, record_count=record_count)
    assert refusal(batch)[0] is ErrorCode.INVALID_RECORD


def test_more_records_than_the_bytes_can_hold_are_invalid() -> None:
    assert "do not fit" in refusal(a_batch(last_offset_delta=999, record_count=1000))[1]


def test_the_smallest_possible_records_fit() -> None:
    assert validate(build_batch([Record(0, NOW_MS, None, None)] * 3)).record_count == 3


def test_control_batches_are_for_brokers() -> None:
    marker = build_end_txn_marker(7, 0, EndTxnMarker(is_commit=True, coordinator_epoch=0), timestamp=NOW_MS)
    code, message = refusal(marker)
    assert code is ErrorCode.INVALID_RECORD
    assert "control" in message
    assert refusal(a_batch(attributes=0x40))[0] is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec: int) -> None:
    code, message = refusal(a_batch(attributes=codec))
    assert code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert f"codec {codec}" in message


def test_zstd_needs_produce_version_7() -> None:
    batch = build_batch([Record(0, NOW_MS, b"k", b"v" * 500)], compression=Compression.ZSTD)
    assert refusal(batch, version=6)[0] is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate(batch, version=7)


def test_size_limits() -> None:
    batch = a_batch()
    size = len(batch)
    assert validate(batch, BatchLimits(max_message_bytes=size, segment_bytes=size))
    assert refusal(batch, BatchLimits(max_message_bytes=size - 1))[0] is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(batch, BatchLimits(segment_bytes=size - 1))[0] is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "base_sequence"), [(7, -1, 0), (7, 0, -1), (7, 0, -5), (-2, 0, 0)]
)
def test_an_idempotent_batch_has_id_epoch_and_sequence(
    producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    batch = a_batch(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
    assert refusal(batch)[0] is ErrorCode.INVALID_RECORD


def test_a_transactional_batch_has_a_producer() -> None:
    assert refusal(a_batch(attributes=0x10))[0] is ErrorCode.INVALID_RECORD


def test_timestamps_out_of_range() -> None:
    latest = NOW_MS + LIMITS.timestamp_after_max_ms
    assert validate(a_batch(max_timestamp=latest))
    code, message = refusal(a_batch(max_timestamp=latest + 1))
    assert code is ErrorCode.INVALID_TIMESTAMP
    assert "message.timestamp.after.max.ms" in message

    limits = BatchLimits(timestamp_before_max_ms=1_000)
    assert validate(a_batch(base_timestamp=NOW_MS - 1_000), limits)
    assert validate(a_batch(base_timestamp=-1, max_timestamp=-1), limits)
    code, message = refusal(a_batch(base_timestamp=NOW_MS - 1_001), limits)
    assert code is ErrorCode.INVALID_TIMESTAMP
    assert "message.timestamp.before.max.ms" in message


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_records_whose_timestamps_are_out_of_range_are_named(compression: Compression) -> None:
    """Their producer may send the others again (KIP-467)."""
    times = [NOW_MS + 1, NOW_MS + 2, NOW_MS - 1_001, -1, NOW_MS - 1_000, NOW_MS + 9_999]
    batch = build_batch([Record(0, each, b"k", b"v" * 100) for each in times], compression=compression)
    with pytest.raises(TimestampError, match=r"timestamp\.after\.max\.ms is 1$") as caught:
        validate(batch, BatchLimits(timestamp_before_max_ms=1_000, timestamp_after_max_ms=1))
    with pytest.raises(RecordsError) as named:
        caught.value.name_records(batch, parse_header(batch))
    assert (named.value.code, named.value.indexes) == (ErrorCode.INVALID_TIMESTAMP, [1, 2, 5])


def test_a_batch_that_cannot_be_read_is_refused_whole_for_its_timestamps() -> None:
    for changed in (a_batch(attributes=int(Compression.GZIP)), a_batch()):
        write_header(changed, parse_header(changed)._replace(max_timestamp=1 << 62))
        with pytest.raises(TimestampError) as caught:
            validate(changed)
        with pytest.raises(TimestampError):
            caught.value.name_records(changed, parse_header(changed))


def test_log_append_time_is_the_brokers_to_set() -> None:
    assert refusal(a_batch(attributes=8))[0] is ErrorCode.INVALID_TIMESTAMP
    limits = BatchLimits(timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert validate(a_batch(max_timestamp=2**62), limits)


def test_keys_are_demanded_where_a_topic_is_compacted() -> None:
    keyless = a_batch()
    with pytest.raises(KafkaError, match="without a key") as caught:
        validate_keys(keyless, parse_header(keyless))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    many = build_batch(
        [Record(0, NOW_MS, None if number % 3 else b"k", b"") for number in range(RECORDS_NAMED_MAX * 2)]
    )
    with pytest.raises(RecordsError) as named:
        validate_keys(many, parse_header(many))
    assert list(named.value.indexes[:4]) == [1, 2, 4, 5]
    assert len(named.value.indexes) == RECORDS_NAMED_MAX, "no answer grows without bound"
    keyed = build_batch([Record(0, NOW_MS, b"", b"v" * 500)], compression=Compression.LZ4)
    validate_keys(keyed, parse_header(keyed))


@pytest.mark.spec("P6")
def test_what_a_header_cannot_mean_is_refused() -> None:
    """Cheap to see: more records than anyone may decompress, a largest timestamp before the first."""
    batch = build_batch([Record(0, NOW_MS, b"k", b"v" * 500)], compression=Compression.ZSTD)
    write_header(batch, parse_header(batch)._replace(record_count=1 << 30, last_offset_delta=(1 << 30) - 1))
    assert refusal(batch)[0] is ErrorCode.INVALID_RECORD
    batch = a_batch()
    write_header(batch, parse_header(batch)._replace(max_timestamp=NOW_MS - 1))
    assert refusal(batch)[0] is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.spec("P6")
@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_answered_with_a_kafka_error(data: bytes) -> None:
    refusal(data)


@settings(deadline=None)
@given(st.data())
def test_any_header_with_a_good_crc_is_accepted_or_answered_with_a_kafka_error(data: st.DataObject) -> None:
    fields = {
        name: data.draw(st.integers(-(1 << bits - 1), (1 << bits - 1) - 1))
        for name, bits in [("attributes", 16), ("last_offset_delta", 32), ("record_count", 32), ("producer_id", 64)]
    }
    batch = a_batch(**fields)
    with contextlib.suppress(KafkaError):
        assert validate(batch) == parse_header(batch)
