"""Planted bugs: each breaks the coordinator in one place, in a way that is easy to get wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from planted.registry import Suite
from transactions_schedules import World, run, trace_of

import minikafka.transactions.beginning as beginning
import minikafka.transactions.ending as ending
import minikafka.transactions.expiry as expiry
import minikafka.transactions.loading as loading
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.transactions.effects import Outcome
from minikafka.transactions.shard import Done, Entry, Shard
from minikafka.transactions.transaction import Transaction, TransactionState

SUITE = Suite("transactions", "the transaction coordinator", run, 6_000, trace=trace_of)


@SUITE.replaces(beginning, "_entry_of")
def any_epoch_may_add(shard: Shard, transactional_id: str, producer: ProducerIdentity) -> Entry:
    """The producer id is checked, its epoch is not."""
    entry = shard.entries.get(transactional_id)
    if entry is None or entry.transaction.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "")
    return entry


@SUITE.replaces(beginning, "verify_partitions")
def every_partition_is_in_the_transaction(
    shard: Shard, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """A leader is told that anything is in the transaction, whatever its state."""
    beginning._entry_of(shard, transactional_id, producer)
    return dict.fromkeys(partitions, ErrorCode.NONE)


@SUITE.replaces(World, "asks_again")
def a_marker_that_comes_meanwhile_ends_the_transaction(world: World) -> bool:
    """A leader that was told that the partition is in the transaction refuses the record if any marker came since."""
    return False


@SUITE.plants()
def the_last_marker_ends_the_next_transaction(patch: Any) -> None:
    """A leader waits for the end of the transaction before, and takes its marker for the end of the one that begins."""
    patch.setattr(World, "asks_again", lambda _world: False)
    patch.setattr(World, "noted", lambda _world, known, before: known.ends if before is None else before)


_sound_transit = Shard.transit


@SUITE.replaces(Shard, "transit")
def answers_before_the_record_is_committed(shard: Shard, entry: Entry, to: Transaction, done: Done) -> None:
    """The client is told when the record is written, not when it is committed."""
    done(ErrorCode.NONE)
    _sound_transit(shard, entry, to, lambda _error: None)


@SUITE.replaces(Shard, "transit")
def decides_before_the_record_is_committed(shard: Shard, entry: Entry, to: Transaction, done: Done) -> None:
    """Markers are sent when the decision is written, not when it is committed."""
    _sound_transit(shard, entry, to, done)
    if to.state in ending.ENDING and to.partitions:
        ending.mark(shard, Entry(to))


_sound_time_out = Shard.time_out_write


@SUITE.replaces(Shard, "time_out_write")
def a_slow_write_counts_as_failed(shard: Shard, write_id: int) -> None:
    """A write that takes long is undone, and may be committed yet."""
    write = shard._writes.get(write_id)
    if write is not None:
        _sound_time_out(shard, write_id)
        for entry in write.entries:
            if entry.pending is not None and entry.transaction.producer_epoch >= 0:
                entry.transaction = replace(entry.transaction, producer_epoch=entry.transaction.producer_epoch)
                entry.pending = None
        shard._writes[write_id] = replace(write, entries=(), done=None)


@SUITE.replaces(ending, "_fence_and_abort")
def a_time_out_keeps_the_epoch(shard: Shard, entry: Entry, done: Done) -> None:
    """What takes too long is aborted in the epoch in which its producer writes on."""
    now = entry.transaction
    to = now.fenced().prepared(commits=False, wall_ms=shard.wall_clock_ms(), client_version=1)
    shard.transit(entry, replace(to, producer_epoch=now.producer_epoch), done)


@SUITE.replaces(beginning, "abort_for_another")
def a_producer_begins_in_the_epoch_of_the_abort(shard: Shard, entry: Entry, done: Done) -> None:
    """Who aborts the transaction of the producer before it is let in at once."""
    ending._fence_and_abort(shard, entry, done)


_sound_begun = beginning._begun


@SUITE.replaces(beginning, "_begun")
def a_new_producer_keeps_the_epoch(
    shard: Shard, now: Transaction, timeout_ms: int, expected: ProducerIdentity | None
) -> Transaction:
    """InitProducerId without an open transaction gives the epoch of the producer before."""
    to = _sound_begun(shard, now, timeout_ms, expected)
    return to if now.producer_epoch < 0 else replace(to, producer_epoch=now.producer_epoch)


@SUITE.replaces(beginning, "_may_go_on")
def any_producer_id_goes_on(now: Transaction, expected: ProducerIdentity) -> bool:
    """The producer id of who begins anew is not compared."""
    return True


@SUITE.replaces(ending, "_is_repetition")
def a_repetition_is_taken_for_the_next_end(now: Transaction, producer: ProducerIdentity) -> bool:
    """Version 2 forgets that it has answered already."""
    return False


@SUITE.replaces(ending, "_check_same")
def a_decision_is_confirmed_either_way(now: Transaction, *, commits: bool) -> None:
    """Whoever repeats the end with another result is told that it is so."""


@SUITE.replaces(ending, "on_marked")
def one_marker_is_enough(
    shard: Shard, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> None:
    """The transaction is complete with its first marker."""
    entry = shard.entries.get(transactional_id)
    if entry is not None and entry.pending is None and entry.transaction.state in ending.ENDING:
        ending._complete(shard, entry)


@SUITE.replaces(ending, "on_marked")
def reports_of_any_epoch_count(
    shard: Shard, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> None:
    """The report of a marker of the last transaction counts for this one."""
    entry = shard.entries.get(transactional_id)
    if entry is None or entry.pending is not None or entry.transaction.state not in ending.ENDING:
        return
    entry.transaction = entry.transaction.marked(partitions)
    if not entry.transaction.partitions:
        ending._complete(shard, entry)


_sound_go_on = ending.go_on


@SUITE.replaces(ending, "go_on")
def a_failed_completion_is_forgotten(shard: Shard, entry: Entry, error: ErrorCode) -> None:
    """Nobody tries again to write that a transaction is complete."""
    if entry.transaction.state not in ending.ENDING or error is ErrorCode.NONE:
        _sound_go_on(shard, entry, error)


@SUITE.replaces(ending, "go_on")
def a_failed_abort_is_forgotten(shard: Shard, entry: Entry, error: ErrorCode) -> None:
    """A transaction whose abort was not written is never looked at again."""
    if entry.transaction.state is not TransactionState.ONGOING or error is ErrorCode.NONE:
        _sound_go_on(shard, entry, error)


@SUITE.replaces(loading, "_restore")
def markers_under_way_are_forgotten(shard: Shard, transaction: Transaction) -> None:
    """The next coordinator does not go on with the markers."""
    entry = Entry(transaction, idle_since_ms=shard.now_ms, expires_ms=shard.now_ms + transaction.timeout_ms)
    shard.entries[transaction.transactional_id] = entry
    if transaction.state is TransactionState.ONGOING:
        shard.wake(entry, entry.expires_ms)


@SUITE.replaces(loading, "_restore")
def time_outs_are_forgotten(shard: Shard, transaction: Transaction) -> None:
    """The next coordinator lets a transaction be open for ever."""
    entry = Entry(transaction, idle_since_ms=shard.now_ms, expires_ms=1 << 60)
    shard.entries[transaction.transactional_id] = entry
    if transaction.state in ending.ENDING:
        ending.mark(shard, entry)


@SUITE.replaces(loading, "_restore")
def the_next_coordinator_aborts(shard: Shard, transaction: Transaction) -> None:
    """What was decided is decided anew."""
    if transaction.state is TransactionState.PREPARE_COMMIT:
        transaction = replace(transaction, state=TransactionState.PREPARE_ABORT)
    entry = Entry(transaction, idle_since_ms=shard.now_ms, expires_ms=shard.now_ms)
    shard.entries[transaction.transactional_id] = entry
    ending.go_on(shard, entry, ErrorCode.NONE)


@SUITE.replaces(beginning, "add_partitions")
def partitions_are_added_while_the_transaction_ends(
    shard: Shard,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    client_version: int,
    token: Any,
) -> None:
    """A partition is let in although the end is decided, and gets no marker."""
    entry = beginning._entry_of(shard, transactional_id, producer)
    now = entry.transaction
    if now.state in ending.ENDING or now.partitions.issuperset(partitions):
        shard.respond(token, Outcome(ErrorCode.NONE))
        return
    if entry.pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "")
    to = now.extended(partitions, shard.wall_clock_ms(), client_version)
    shard.transit(entry, to, lambda error: shard.respond(token, Outcome(error)))


_sound_add_partitions = beginning.add_partitions


@SUITE.replaces(beginning, "add_partitions")
def who_could_not_begin_may_not_abort(
    shard: Shard,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    client_version: int,
    token: Any,
) -> None:
    """That a partition could not be added is forgotten: the abort that follows is taken for one of what has ended."""
    try:
        _sound_add_partitions(shard, transactional_id, producer, partitions, client_version, token)
    finally:
        if transactional_id in shard.entries:
            shard.entries[transactional_id].is_awaited = False


@SUITE.replaces(Shard, "let_ask_again")
def who_could_not_add_is_not_told_when_to_ask_again(_shard: Shard, _entry: Entry) -> None:
    """An addition waits for the end of the transaction before, and nobody says that it has come."""


@SUITE.replaces(World, "under_way")
def an_abort_overtakes_what_is_added(world: World, name: str) -> set[object]:
    """An addition waits for the markers of the transaction before, and the end behind it does not wait for that."""
    return set()


@SUITE.replaces(beginning, "_check_known")
def a_partition_that_is_not_known_yet_is_added(shard: Shard, partitions: Iterable[TopicPartition]) -> None:
    """A partition of which the coordinator's node has not heard counts as deleted at the end, and gets no marker."""


@SUITE.replaces(beginning, "_verified")
def a_partition_that_was_created_again_is_the_former_one(_shard: Any, now: Transaction, tp: TopicPartition) -> Any:
    """The coordinator's node has heard only that it was deleted, and lets leaders write to the new one."""
    return ErrorCode.NONE if tp in now.partitions else ErrorCode.TRANSACTION_ABORTABLE


@SUITE.replaces(expiry, "_is_expired")
def ids_expire_in_the_middle_of_a_transaction(shard: Shard, entry: Entry) -> bool:
    """Only the age of the last change counts, not what is under way."""
    is_old = shard.now_ms - entry.idle_since_ms >= min(shard.settings.id_expiration_ms, 3_000)
    if is_old and entry.pending is None:
        entry.transaction = replace(entry.transaction, state=TransactionState.EMPTY)
    return is_old and entry.pending is None


_sound_prepared = Transaction.prepared


@SUITE.replaces(Transaction, "prepared")
def version_2_keeps_the_epoch(now: Transaction, **how: Any) -> Transaction:
    """The end of a transaction is no end of its epoch: what is late gets into the next one."""
    to = _sound_prepared(now, **how)
    return replace(to, producer_epoch=now.producer_epoch) if now.state is TransactionState.ONGOING else to


_sound_completed = Transaction.completed


@SUITE.replaces(Transaction, "completed")
def the_next_producer_id_is_forgotten(now: Transaction, wall_ms: int) -> Transaction:
    """The producer was told another producer id, and the coordinator keeps the one whose epochs are used up."""
    return replace(_sound_completed(now, wall_ms), producer_id=now.producer_id, producer_epoch=now.producer_epoch)
