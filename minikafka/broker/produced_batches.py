"""What a producer's batch must be before its leader stages it (rows R1, T6).

It keeps the limits of its topic, is compressed as that demands, has keys where the log is compacted, and begins no
transaction that its coordinator does not know of. What a check cannot tell at once, on the loop, is an exception that
says what to do off the loop first; then :func:`check` is called again. A batch that the log has already passes: the
producer did not hear of it, and no limit that the topic got since then makes the append undone.
"""

from __future__ import annotations

from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ProducerIdentity
from minikafka.records.batch import HEADER_SIZE, TRANSACTIONAL_FLAG, BatchHeader, parse_header
from minikafka.records.recompress import Codec
from minikafka.records.validate import (
    UNLIMITED,
    RecordsCheck,
    TimestampError,
    is_costly_inside,
    validate_keys,
    validate_produce,
)
from minikafka.wire.schema import Buffer


class UncheckedRecordsError(Exception):
    """A batch that ``check`` must look into, off the loop: for keys, or for timestamps out of range."""

    def __init__(self, check: RecordsCheck) -> None:
        super().__init__(check)
        self.check = check


class OtherCodecError(Exception):
    """A batch that is not compressed as its topic demands (``compression.type``)."""

    def __init__(self, codec: Codec) -> None:
        super().__init__(codec)
        self.codec = codec


class UnverifiedError(Exception):
    """The first batch of a transaction in a partition: its coordinator must be asked, since the last marker there."""


def check(
    partition: Partition,
    records: memoryview,
    version: int,
    wall_ms: int,
    *,
    in_transaction: bool,
    has_keys: bool,
    verified_at: int | None,
) -> BatchHeader:
    """The header of a batch that may be staged. KafkaError for one that never may; else the exceptions above.

    ``version``: of the Produce request. ``in_transaction``: it came with a transactional id, and whoever sent it may
    write to that. ``has_keys``: its records were looked into. ``verified_at``: ``last_end_of`` the producer, as it was
    before the coordinator was asked.
    """
    try:
        header = validate_produce(records, partition.batch_limits, version, wall_ms)
    except KafkaError as error:
        if not _is_repeated(partition, records):
            if isinstance(error, TimestampError):
                _look_into(records, parse_header(records), error.name_records)
            raise
        header = validate_produce(records, UNLIMITED, version, 0)
    if header.attributes & TRANSACTIONAL_FLAG:
        if not in_transaction:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "records of a transaction come without a transactional id",
            )
        _check_verified(partition, header, verified_at)
    if (codec := partition.codec) is not None and not (codec.is_of(header) or partition.log.producers.has(header)):
        raise OtherCodecError(codec)
    if partition.needs_keys and not has_keys and not partition.log.producers.has(header):
        _look_into(records, header, validate_keys)
    return header


def unverified(partition: Partition, records: Buffer, *, adds: bool) -> ProducerIdentity | None:
    """Whose coordinator to ask before the batch is staged; None when there is nothing to ask.

    Whatever it says, no batch behind this one begins: what the producer sent next is here soon. ``adds``: it has
    transaction version 2, in which the sequences of each transaction begin at 0.
    """
    if len(records) < HEADER_SIZE:
        return None
    header = parse_header(records)
    if not header.attributes & TRANSACTIONAL_FLAG or not _must_verify(partition, header):
        return None
    partition.log.producers.expect(header, 0 if adds else header.base_sequence)
    return ProducerIdentity(header.producer_id, header.producer_epoch)


def _must_verify(partition: Partition, header: BatchHeader) -> bool:
    """A transaction of the producer is not open here, and the batch is not one that is here already."""
    producers = partition.log.producers
    return not producers.is_in_transaction(header) and not producers.has(header)


def _check_verified(partition: Partition, header: BatchHeader, verified_at: int | None) -> None:
    """No record begins a transaction that its coordinator does not know of: nobody would end it (row T6)."""
    if _must_verify(partition, header) and verified_at != partition.log.producers.last_end_of(header.producer_id):
        raise UnverifiedError


def _look_into(records: memoryview, header: BatchHeader, look: RecordsCheck) -> None:
    """Look at the records of a batch now, or later where that takes long: UncheckedRecordsError."""
    if is_costly_inside(header):
        raise UncheckedRecordsError(look)
    look(records, header)


def _is_repeated(partition: Partition, records: memoryview) -> bool:
    """True if the log has the batch already.

    Apache Kafka looks at the limits first. The producer is told that the batch failed for good, and sends it anew.
    """
    return len(records) >= HEADER_SIZE and partition.log.producers.has(parse_header(records))
