"""The records of ``__transaction_state``, in Kafka's own key and value formats.

A key begins with an int16, its type: 0 is a transactional id. A value begins with the int16 version of its format. A
record without a value is a tombstone: the id has expired.

Versions written: 1, the first with tagged fields, which Kafka writes with ``transaction.version`` 1 and above. Versions
read: 0 and 1. The last producer epoch is in no version: a request that is repeated at another coordinator begins anew.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from heapq import merge
from itertools import islice
from typing import Final

from minikafka.model import NO_PRODUCER_ID, TOPIC_NAME_LENGTH_MAX, TopicPartition
from minikafka.transactions.transaction import Transaction, TransactionState
from minikafka.wire.codec import encode
from minikafka.wire.errors import WireError
from minikafka.wire.primitives import encode_uvarint
from minikafka.wire.schema import Buffer, Message, array, int8, int16, int32, int64, string
from minikafka.wire.versioned import Record, decode_versioned, encode_versioned, version_of

TRANSACTION_LOG_KEY: Final = 0
TRANSACTION_LOG_VALUE_WRITTEN: Final = 1

UNRECORDED: Final = frozenset({TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE})

AT_ONCE: Final = 1_000
"""Partitions or topics in a portion: some 3 ms."""
_TOPICS_AT: Final = 17
"""Where a value of the written version has its topics: behind version, producer id and epoch, time-out and status."""
_NO_TOPICS: Final = 1
"""Bytes of their number when there are none."""
_FIXED_BYTES: Final = 192
"""Of a batch with one record: its headers and lengths, and what a value has beside its topics."""
_TOPIC_BYTES: Final = 9
"""The lengths of its name and of its partitions, and its tagged fields."""
_PARTITION_BYTES: Final = 4
UTF_8_MAX: Final = 4


class TransactionLogKey(Message, versions="0", flexible="none"):
    """The key of a transactional id."""

    transactional_id: str = string("0")


class PartitionsOfTopic(Message):
    """Partitions of one topic in a transaction."""

    topic: str = string("0+")
    partition_ids: list[int] = array(int32, "0+")


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """The state of a transactional id. Timestamps are wall-clock milliseconds."""

    producer_id: int = int64("0+")
    previous_producer_id: int = int64("1+", tag=0, default=NO_PRODUCER_ID)
    next_producer_id: int = int64("1+", tag=1, default=NO_PRODUCER_ID)
    producer_epoch: int = int16("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: list[PartitionsOfTopic] | None = array(PartitionsOfTopic, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")
    client_transaction_version: int = int16("1+", tag=2)


def encode_transaction(transaction: Transaction) -> Record:
    """As key and value bytes."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    topics = [PartitionsOfTopic(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    return Record(_key(transaction.transactional_id), _value(transaction, topics))


def encode_in_portions(transaction: Transaction) -> Generator[None, None, Record]:
    """The same, of a transaction with very many partitions, in steps of some milliseconds."""
    by_topic: dict[str, list[int]] = {}
    for portion in sorted_portions(transaction.partitions):
        for topic, partition in portion:
            by_topic.setdefault(topic, []).append(partition)
        yield
    encoded, topics = bytearray(encode_uvarint(len(by_topic) + 1)), iter(by_topic.items())
    while some := list(islice(topics, AT_ONCE)):
        for topic, ids in some:
            encoded += encode(PartitionsOfTopic(topic=topic, partition_ids=ids), TRANSACTION_LOG_VALUE_WRITTEN)
        yield
    value = _value(transaction, [])
    return Record(
        _key(transaction.transactional_id), b"".join((value[:_TOPICS_AT], encoded, value[_TOPICS_AT + _NO_TOPICS :]))
    )


def sorted_portions(partitions: Collection[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """All of them in order, some at a time. The first portions are empty: sorting has its portions, too."""
    left, runs = iter(partitions), list[list[TopicPartition]]()
    while run := sorted(islice(left, AT_ONCE)):
        runs.append(run)
        if len(partitions) > AT_ONCE:
            yield []
    merged = merge(*runs)
    while portion := list(islice(merged, AT_ONCE)):
        yield portion


def may_be_larger(transaction: Transaction, size: int) -> bool:
    """A quick look: False when :func:`largest_record` is not larger, whatever its topics are called."""
    fixed = _FIXED_BYTES + UTF_8_MAX * len(transaction.transactional_id)
    return fixed + (TOPIC_NAME_LENGTH_MAX + _TOPIC_BYTES + _PARTITION_BYTES) * len(transaction.partitions) > size


def largest_record(transaction: Transaction) -> int:
    """Bytes that the batch of one of its records takes until it is complete, at most."""
    topics = {topic for topic, _partition in transaction.partitions}
    names = sum(len(topic.encode()) for topic in topics)
    fixed = _FIXED_BYTES + len(transaction.transactional_id.encode())
    return fixed + names + _TOPIC_BYTES * len(topics) + _PARTITION_BYTES * len(transaction.partitions)


def _value(transaction: Transaction, topics: list[PartitionsOfTopic]) -> bytes:
    assert transaction.state not in UNRECORDED, f"{transaction.state.name} is in no record"
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.value,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else topics,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    return encode_versioned(value, TRANSACTION_LOG_VALUE_WRITTEN)


def encode_tombstone(transactional_id: str) -> Record:
    """The id has expired."""
    return Record(_key(transactional_id), None)


def decode_record(key: Buffer, value: Buffer | None) -> tuple[str, Transaction | None] | None:
    """The transactional id, and what was known of it (None: it has expired). None for a key of an unknown type.

    WireError for malformed bytes, and for a state that no record has.
    """
    if version_of(key) != TRANSACTION_LOG_KEY:
        return None
    transactional_id = decode_versioned(TransactionLogKey, key).transactional_id
    if value is None:
        return transactional_id, None
    found = decode_versioned(TransactionLogValue, value)
    return transactional_id, Transaction(
        transactional_id=transactional_id,
        producer_id=found.producer_id,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        state=_state(found.transaction_status),
        partitions=frozenset(
            TopicPartition(each.topic, partition)
            for each in found.transaction_partitions or ()
            for partition in each.partition_ids
        ),
        started_ms=found.transaction_start_timestamp_ms,
        updated_ms=found.transaction_last_update_timestamp_ms,
        client_version=found.client_transaction_version,
    )


def _state(status: int) -> TransactionState:
    try:
        state = TransactionState(status)
    except ValueError:
        raise WireError(f"{status} is no state of a transaction") from None
    if state in UNRECORDED:
        raise WireError(f"a record says that a transaction is {state.camel_name}, which none does")
    return state


def _key(transactional_id: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), TRANSACTION_LOG_KEY)
