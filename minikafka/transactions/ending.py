"""The end of a transaction: EndTxn, time-outs, markers, completion.

EndTxn of a client of version 1, by state (*same*, *other*: as the result that the state has)::

    Ongoing            prepare
    Prepare*           same: CONCURRENT_TRANSACTIONS      other: INVALID_TXN_STATE
    Complete*          same: NONE                         other: INVALID_TXN_STATE
    Empty              INVALID_TXN_STATE

A producer that has asked for the next transaction knows how this one ended: what it aborts is the next one, of which
there is nothing yet, and it is answered NONE. librdkafka aborts so, and ends for good at an INVALID_TXN_STATE.

In version 2 each end has an epoch of its own, so that a *repetition*, whose answer was lost, is told from the end of
the next transaction (*current*), which may be an abort before anything was written (Kafka's table, KIP-890)::

    Ongoing            current: prepare
    Prepare*           repetition, same: CONCURRENT_TRANSACTIONS   other: INVALID_TXN_STATE   current: CONCURRENT_...
    Complete*          repetition, same: NONE                      other: INVALID_TXN_STATE
                       current: an abort is prepared, a commit is INVALID_TXN_STATE
    Empty              current: an abort is prepared, a commit is INVALID_TXN_STATE

Apache Kafka fences a current EndTxn in Prepare*, whose producer did nothing wrong but was quick.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_PRODUCER_ID, ProducerIdentity, TopicPartition
from minikafka.transactions.effects import Outcome, SendMarkers
from minikafka.transactions.shard import Done, Entry, Shard
from minikafka.transactions.transaction import ENDING, EPOCH_BUMPS, EPOCH_MAX, Transaction, TransactionState

COMMITTING: Final = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
ENDED: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def end_transaction(
    shard: Shard, transactional_id: str, producer: ProducerIdentity, client_version: int, token: Token, *, commits: bool
) -> None:
    """EndTxn; answered once the end is decided, with what the producer goes on with (row T5). KafkaError."""
    entry = shard.entries.get(transactional_id)
    now = None if entry is None else entry.transaction
    if entry is None or now is None or not _is_known(now, producer, client_version):
        message = f"transactional id {transactional_id!r} does not have producer id {producer.producer_id}"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
    is_repetition = client_version >= EPOCH_BUMPS and _is_repetition(now, producer)
    if not is_repetition and producer != now.identity:
        message = f"transactional id {transactional_id!r} is in epoch {now.producer_epoch}, not {producer.epoch}"
        raise KafkaError(ErrorCode.PRODUCER_FENCED, message)
    if entry.pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{transactional_id!r} is being changed")
    if entry.is_awaited and not commits and client_version < EPOCH_BUMPS:
        shard.respond(token, Outcome(ErrorCode.NONE))
        return
    if now.state in ENDING and (is_repetition or client_version < EPOCH_BUMPS):
        _check_same(now, commits=commits)
    if now.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"a transaction of {transactional_id!r} is being completed")
    if now.state in ENDED and (is_repetition or client_version < EPOCH_BUMPS):
        _check_same(now, commits=commits)
        shard.respond(token, _outcome(now, client_version))
        return
    if now.state is not TransactionState.ONGOING and (commits or client_version < EPOCH_BUMPS):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{transactional_id!r} has no transaction to end")
    to = _prepared(shard, now, client_version, commits=commits)

    def answer(error: ErrorCode) -> None:
        shard.respond(token, _outcome(to, client_version) if error is ErrorCode.NONE else Outcome(error))

    shard.transit(entry, to, answer)


def _prepared(shard: Shard, now: Transaction, version: int, *, commits: bool) -> Transaction:
    renews = version >= EPOCH_BUMPS and now.is_epoch_exhausted
    return now.prepared(
        commits=commits,
        wall_ms=shard.wall_clock_ms(),
        client_version=version,
        next_producer_id=shard.take_producer_id() if renews else NO_PRODUCER_ID,
    )


def _is_known(now: Transaction, producer: ProducerIdentity, client_version: int) -> bool:
    known = {now.producer_id, now.identity.producer_id}
    return producer.producer_id in known or (client_version >= EPOCH_BUMPS and _is_repetition(now, producer))


def _is_repetition(now: Transaction, producer: ProducerIdentity) -> bool:
    """The producer has ended this transaction, and got no answer."""
    if now.state not in (*ENDING, *ENDED):
        return False
    if producer.producer_id == now.producer_id and producer.epoch == now.producer_epoch - 1:
        return True
    was_last = producer.producer_id == now.previous_producer_id and producer.epoch == EPOCH_MAX - 1
    return was_last and now.state in ENDED and now.producer_epoch == 0


def _check_same(now: Transaction, *, commits: bool) -> None:
    if commits != (now.state in COMMITTING):
        message = f"a transaction of {now.transactional_id!r} is {now.state.camel_name}, and not to be changed"
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, message)


def _outcome(now: Transaction, client_version: int) -> Outcome:
    return Outcome(ErrorCode.NONE, *now.identity) if client_version >= EPOCH_BUMPS else Outcome(ErrorCode.NONE)


# -- without the producer's wish --------------------------------------------------------------------------------------


def abort_for_another(shard: Shard, entry: Entry, done: Done) -> None:
    """Another producer wants to begin: it tries again (CONCURRENT_TRANSACTIONS) until the abort is complete."""

    def answer(error: ErrorCode) -> None:
        done(ErrorCode.CONCURRENT_TRANSACTIONS if error is ErrorCode.NONE else error)

    _fence_and_abort(shard, entry, answer)


def _fence_and_abort(shard: Shard, entry: Entry, done: Done) -> None:
    to = _prepared(shard, entry.transaction.fenced(), shard.transaction_version(), commits=False)
    shard.transit(entry, to, done)


def look_at(shard: Shard, entry: Entry) -> None:
    """Its timer fired: has a transaction taken too long (row T4), or did a write fail?"""
    entry.timer_ms = None
    if entry.pending is not None:
        return  # when that is over it is looked at again
    now = entry.transaction
    if now.state is TransactionState.ONGOING:
        if shard.now_ms < entry.expires_ms:
            shard.wake(entry, entry.expires_ms)
            return
        try:
            _fence_and_abort(shard, entry, lambda _error: None)
        except KafkaError:  # no producer id is at hand
            shard.wake(entry, shard.now_ms + shard.settings.retry_ms)
    elif now.state in ENDING and not now.partitions:
        _complete(shard, entry)


# -- markers ----------------------------------------------------------------------------------------------------------


def go_on(shard: Shard, entry: Entry, error: ErrorCode) -> None:
    """A write about the entry is over: do what its state asks for."""
    now = entry.transaction
    if now.state is TransactionState.ONGOING:
        shard.wake(entry, max(entry.expires_ms, shard.now_ms + shard.settings.retry_ms if error else 0))
    elif now.state in ENDING and error is ErrorCode.NONE:
        mark(shard, entry)
    elif now.state in ENDING:
        shard.wake(entry, shard.now_ms + shard.settings.retry_ms)


def mark(shard: Shard, entry: Entry) -> None:
    """The end is decided: have it written to every partition (row T2)."""
    now = entry.transaction
    if not now.partitions:
        _complete(shard, entry)
        return
    shard.add(
        SendMarkers(
            now.transactional_id,
            now.producer_id,
            now.producer_epoch,
            now.state is TransactionState.PREPARE_COMMIT,
            now.client_version,
            now.partitions,
        )
    )


def on_marked(
    shard: Shard, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> None:
    """These have their marker. The report of a marker of an earlier transaction says nothing."""
    entry = shard.entries.get(transactional_id)
    if entry is None or entry.pending is not None or entry.transaction.state not in ENDING:
        return
    now = entry.transaction
    if producer != (now.producer_id, now.producer_epoch):
        return
    entry.transaction = now.marked(partitions)
    if not entry.transaction.partitions:
        _complete(shard, entry)


def _complete(shard: Shard, entry: Entry) -> None:
    shard.transit(entry, entry.transaction.completed(shard.wall_clock_ms()), lambda _error: None)
