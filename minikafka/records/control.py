"""Control batches: one record that a broker writes into a log for other brokers and for read_committed consumers.

The key is ``int16 version, int16 type``. The value depends on the type::

    ABORT, COMMIT    int16 version 0, int32 coordinator_epoch             (EndTxnMarker, KIP-98)
    LEADER_CHANGE    LeaderChangeMessage version 0, a flexible message    (KIP-595)
    SNAPSHOT_HEADER  SnapshotHeaderRecord version 0, a flexible message   (KIP-630)
    SNAPSHOT_FOOTER  SnapshotFooterRecord version 0, a flexible message   (KIP-630)

A snapshot's header has one tagged field that Kafka's has not (tag 10000: int64 end offset, int32 epoch): of which
snapshot it is. Kafka skips tags that it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, OffsetAndEpoch
from minikafka.records.build import BatchBuilder
from minikafka.records.record import Record

_KEY: Final = Struct(">hh")
_END_TXN_MARKER: Final = Struct(">hi")
_VERSION_AND_LEADER: Final = Struct(">hi")
_INT32: Final = Struct(">i")
_NO_TAGGED_FIELDS: Final = b"\x00"
_INT16: Final = Struct(">h")
_SNAPSHOT_HEADER: Final = Struct(">hq4sqi")  # version, last timestamp, one tag and its size, end offset, epoch
_SNAPSHOT_ID_TAG: Final = bytes((1, 0x90, 0x4E, 12))  # one tagged field: tag 10000, of 12 bytes
_MAX_VOTERS: Final = 126  # so that the compact array's length stays one byte


class ControlType(IntEnum):
    """What a control record says."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class EndTxnMarker(NamedTuple):
    """The end of a producer's transaction in this partition, as its coordinator decided it."""

    is_commit: bool
    coordinator_epoch: int


def build_end_txn_marker(
    producer_id: int,
    producer_epoch: int,
    marker: EndTxnMarker,
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytearray:
    """The batch that commits or aborts what the producer wrote to this partition since its last marker."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )
    control_type = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    builder.append(_KEY.pack(0, control_type), _END_TXN_MARKER.pack(0, marker.coordinator_epoch), timestamp)
    return builder.build()


def build_leader_change(
    leader_id: int,
    voters: Sequence[int],
    granting_voters: Sequence[int],
    *,
    timestamp: int,
    base_offset: int,
    leader_epoch: int,
) -> bytearray:
    """The first batch of a Raft leader's epoch: once it is committed, so is everything before it."""
    value = b"".join(
        (
            _VERSION_AND_LEADER.pack(0, leader_id),
            _encode_voters(voters),
            _encode_voters(granting_voters),
            _NO_TAGGED_FIELDS,
        )
    )
    builder = BatchBuilder(is_control=True, base_offset=base_offset, leader_epoch=leader_epoch)
    builder.append(_KEY.pack(0, ControlType.LEADER_CHANGE), value, timestamp)
    return builder.build()


def build_snapshot_header(snapshot_id: OffsetAndEpoch, *, timestamp: int) -> bytearray:
    """The first batch of a snapshot, at offset 0."""
    value = _SNAPSHOT_HEADER.pack(0, timestamp, _SNAPSHOT_ID_TAG, *snapshot_id)
    return _build_snapshot_end(ControlType.SNAPSHOT_HEADER, value, 0, snapshot_id.epoch, timestamp)


def build_snapshot_footer(snapshot_id: OffsetAndEpoch, *, timestamp: int, base_offset: int) -> bytearray:
    """The last batch of a snapshot: without it the snapshot is not whole."""
    value = _INT16.pack(0) + _NO_TAGGED_FIELDS
    return _build_snapshot_end(ControlType.SNAPSHOT_FOOTER, value, base_offset, snapshot_id.epoch, timestamp)


def _build_snapshot_end(kind: ControlType, value: bytes, base_offset: int, epoch: int, timestamp: int) -> bytearray:
    builder = BatchBuilder(is_control=True, base_offset=base_offset, leader_epoch=epoch)
    builder.append(_KEY.pack(0, kind), value, timestamp)
    return builder.build()


def control_type(record: Record) -> ControlType:
    """The type of a record from a control batch; UNKNOWN for one of a later Kafka, which is to be skipped."""
    if record.key is None or len(record.key) < _KEY.size:
        raise _corrupt(record, "key")
    number = _KEY.unpack_from(record.key)[1]
    return ControlType(number) if number in _KNOWN_TYPES else ControlType.UNKNOWN


def parse_end_txn_marker(record: Record) -> EndTxnMarker | None:
    """The marker in a record from a control batch, None if it is a control record of another kind."""
    kind = control_type(record)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _END_TXN_MARKER.size:
        raise _corrupt(record, "value")
    return EndTxnMarker(kind is ControlType.COMMIT, _END_TXN_MARKER.unpack_from(record.value)[1])


def parse_snapshot_header(record: Record) -> OffsetAndEpoch | None:
    """Of which snapshot a record from a control batch is the header; None if it is no such header, or does not say."""
    if control_type(record) is not ControlType.SNAPSHOT_HEADER:
        return None
    if record.value is None or len(record.value) < _INT16.size:
        raise _corrupt(record, "value")
    if len(record.value) != _SNAPSHOT_HEADER.size:
        return None
    _version, _timestamp, tag, offset, epoch = _SNAPSHOT_HEADER.unpack(record.value)
    return OffsetAndEpoch(offset, epoch) if tag == _SNAPSHOT_ID_TAG else None


_KNOWN_TYPES: Final = frozenset(ControlType)


def _encode_voters(voters: Sequence[int]) -> bytes:
    assert len(voters) <= _MAX_VOTERS
    return bytes([len(voters) + 1]) + b"".join(_INT32.pack(voter) + _NO_TAGGED_FIELDS for voter in voters)


def _corrupt(record: Record, part: str) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"the control record at offset {record.offset} has a {part} that is missing or too short",
    )
