from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kio.schema.end_txn_marker.v0.data import EndTxnMarker as KioEndTxnMarker
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.serial import entity_reader

from minikafka.errors import ErrorCode, KafkaError
from minikafka.records.batch import crc_is_valid, parse_header
from minikafka.records.control import (
    ControlType,
    EndTxnMarker,
    build_end_txn_marker,
    build_leader_change,
    control_type,
    parse_end_txn_marker,
)
from minikafka.records.read import iter_records
from minikafka.records.record import Record


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_txn_marker(is_commit: bool) -> None:
    marker = EndTxnMarker(is_commit, coordinator_epoch=12)
    batch = build_end_txn_marker(77, 3, marker, timestamp=5_000, base_offset=40, leader_epoch=2)
    header = parse_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, -1)
    assert (header.base_offset, header.leader_epoch, header.record_count) == (40, 2, 1)
    (record,) = iter_records(batch)
    assert record.timestamp == 5_000
    assert parse_end_txn_marker(record) == marker


@pytest.mark.parametrize("is_commit", [True, False])
def test_kafka_python_and_kio_understand_the_marker(is_commit: bool) -> None:
    batch = build_end_txn_marker(77, 3, EndTxnMarker(is_commit, 12), timestamp=5_000)
    theirs = KafkaPythonBatch(bytes(batch))
    assert theirs.is_control_batch
    (record,) = theirs
    assert (record.commit, record.abort) == (is_commit, not is_commit)
    assert record.value[:2] == b"\x00\x00"  # the version that prefixes the message
    value, _ = entity_reader(KioEndTxnMarker)(record.value, 2)
    assert value.coordinator_epoch == 12


def test_leader_change() -> None:
    batch = build_leader_change(2, [1, 2, 3], [2, 3], timestamp=9, base_offset=100, leader_epoch=7)
    header = parse_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert header.is_control
    assert not header.is_transactional
    assert (header.producer_id, header.base_offset, header.leader_epoch) == (-1, 100, 7)
    (record,) = iter_records(batch)
    assert control_type(record) is ControlType.LEADER_CHANGE
    assert parse_end_txn_marker(record) is None

    assert record.value is not None
    message, end = entity_reader(LeaderChangeMessage)(record.value, 0)
    assert end == len(record.value)
    assert message.leader_id == 2
    assert [voter.voter_id for voter in message.voters] == [1, 2, 3]
    assert [voter.voter_id for voter in message.granting_voters] == [2, 3]


def test_types_of_a_later_kafka_are_to_be_skipped() -> None:
    record = Record(0, 0, b"\x00\x00\x00\x63", b"")
    assert control_type(record) is ControlType.UNKNOWN
    assert parse_end_txn_marker(record) is None


@pytest.mark.parametrize(
    "record",
    [
        Record(4, 0, None, b"\x00" * 6),
        Record(4, 0, b"\x00\x00\x00", b"\x00" * 6),
        Record(4, 0, b"\x00\x00\x00\x01", None),
        Record(4, 0, b"\x00\x00\x00\x00", b"\x00" * 5),
    ],
)
def test_malformed_control_records_are_corrupt(record: Record) -> None:
    with pytest.raises(KafkaError, match="offset 4") as caught:
        parse_end_txn_marker(record)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
