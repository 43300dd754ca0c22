"""InitProducerId, AddPartitionsToTxn, and the leaders' question whether a partition is in a transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_PRODUCER_EPOCH, NO_TIMESTAMP, ProducerIdentity, TopicPartition
from minikafka.transactions.effects import Outcome
from minikafka.transactions.ending import abort_for_another
from minikafka.transactions.limits import LimitError, check_record_size
from minikafka.transactions.shard import Entry, Shard
from minikafka.transactions.transaction import ENDING, EPOCH_MAX, Transaction, TransactionState


def init_producer_id(
    shard: Shard, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None, token: Token
) -> None:
    """A producer begins, or begins anew after an error as the one that it was (``expected``, KIP-360).

    A transaction that the producer before it left open is aborted first (row T3); meanwhile the answer is
    CONCURRENT_TRANSACTIONS. KafkaError for what cannot be, and for a new id beyond the memory for them (row T9).
    """
    _check(shard, transactional_id, timeout_ms)
    entry = shard.entries.get(transactional_id)
    if entry is None:
        shard.memory.check_id()
        entry = Entry(_new(shard, transactional_id, timeout_ms))
    now = entry.transaction
    if entry.pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{transactional_id!r} is being changed")
    if expected is not None and not _may_go_on(now, expected):
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED,
            f"transactional id {transactional_id!r} has producer id {now.producer_id}, not {expected.producer_id}",
        )
    if now.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"a transaction of {transactional_id!r} is being completed")
    if now.state is TransactionState.ONGOING:
        abort_for_another(shard, entry, lambda error: shard.respond(token, Outcome(error)))
        return
    to = _begun(shard, now, timeout_ms, expected)
    shard.entries[transactional_id] = entry

    def answer(error: ErrorCode) -> None:
        shard.respond(token, Outcome(error, *to.identity) if error is ErrorCode.NONE else Outcome(error))

    shard.transit(entry, to, answer)


def _check(shard: Shard, transactional_id: str, timeout_ms: int) -> None:
    settings = shard.settings
    if len(transactional_id.encode()) > settings.id_bytes_max:
        message = f"a transactional id of more than {settings.id_bytes_max} bytes"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if not 0 < timeout_ms <= settings.max_timeout_ms:
        raise KafkaError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"transaction.timeout.ms is {timeout_ms}; the brokers allow 1 to {settings.max_timeout_ms}"
            " (transaction.max.timeout.ms)",
        )


def _new(shard: Shard, transactional_id: str, timeout_ms: int) -> Transaction:
    return Transaction(
        transactional_id=transactional_id,
        producer_id=shard.take_producer_id(),
        timeout_ms=timeout_ms,
        updated_ms=NO_TIMESTAMP,
    )


def _may_go_on(now: Transaction, expected: ProducerIdentity) -> bool:
    """The producer is the last one, or was it before its epochs were used up and the answer that says so was lost."""
    return (
        now.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == now.producer_id
        or (expected.producer_id == now.previous_producer_id and expected.epoch >= EPOCH_MAX - 1)
    )


def _begun(shard: Shard, now: Transaction, timeout_ms: int, expected: ProducerIdentity | None) -> Transaction:
    wall_ms = shard.wall_clock_ms()
    if now.is_epoch_exhausted and (expected is None or expected.epoch == now.producer_epoch):
        producer_id = shard.take_producer_id()
        return now.renewed(producer_id, timeout_ms, wall_ms, keeps_last_epoch=expected is not None)
    return now.initialised(timeout_ms, None if expected is None else expected.epoch, wall_ms)


def add_partitions(
    shard: Shard,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    client_version: int,
    token: Token,
) -> None:
    """The transaction writes to these, too; with the first ones it begins. KafkaError for what cannot be.

    That includes a transaction whose next record, the decision, would not fit in the log (row T9).
    """
    entry = _entry_of(shard, transactional_id, producer)
    now = entry.transaction
    entry.is_awaited = now.state is not TransactionState.ONGOING
    if entry.pending is not None or now.state in ENDING:
        entry.has_waiting = True
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{transactional_id!r} is being changed")
    _check_known(shard, partitions)
    if now.state is TransactionState.ONGOING and now.partitions.issuperset(partitions):
        shard.respond(token, Outcome(ErrorCode.NONE))
        return
    if len(now.partitions) + len(partitions) > shard.settings.partitions_max:
        message = f"a transaction of more than {shard.settings.partitions_max} partitions"
        raise LimitError(ErrorCode.INVALID_REQUEST, message)
    to = now.extended(partitions, shard.wall_clock_ms(), client_version)
    shard.memory.check_partitions(len(to.partitions) - len(now.partitions))
    check_record_size(to, shard.largest_batch())
    shard.transit(entry, to, lambda error: shard.respond(token, Outcome(error)))


def _check_known(shard: Shard, partitions: Iterable[TopicPartition]) -> None:
    """A partition that this node has not heard of would count as deleted when the transaction ends: no marker.

    Also one that is in the transaction already: it may have been deleted and created again.
    """
    for tp in partitions:
        if not shard.knows(tp):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{tp} is not known here yet")


def verify_partitions(
    shard: Shard, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Which of these are in the transaction: NONE, or TRANSACTION_ABORTABLE. KafkaError when none can be.

    COORDINATOR_NOT_AVAILABLE for one that is, and that this node has not heard of: see :func:`_check_known`. What is
    pending does not count: the leader asks before it appends, and looks again when it does.
    """
    now = _entry_of(shard, transactional_id, producer).transaction
    if now.state in ENDING:
        message = f"a transaction of {transactional_id!r} is being completed"
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, message)
    return {tp: _verified(shard, now, tp) for tp in partitions}


def _verified(shard: Shard, now: Transaction, tp: TopicPartition) -> ErrorCode:
    if tp not in now.partitions:
        return ErrorCode.TRANSACTION_ABORTABLE
    return ErrorCode.NONE if shard.knows(tp) else ErrorCode.COORDINATOR_NOT_AVAILABLE


def _entry_of(shard: Shard, transactional_id: str, producer: ProducerIdentity) -> Entry:
    """The entry whose producer asks. KafkaError(INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED)."""
    entry = shard.entries.get(transactional_id)
    if entry is None or entry.transaction.identity.producer_id != producer.producer_id:
        message = f"transactional id {transactional_id!r} does not have producer id {producer.producer_id}"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
    epoch = entry.transaction.identity.epoch
    if epoch != producer.epoch:
        message = f"transactional id {transactional_id!r} is in epoch {epoch}, not {producer.epoch}"
        raise KafkaError(ErrorCode.PRODUCER_FENCED, message)
    return entry
