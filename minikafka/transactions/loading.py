"""Begin and end of a shard: what was under way when the last coordinator left goes on."""

from __future__ import annotations

from minikafka.model import NO_TIMESTAMP
from minikafka.transactions import ending, expiry
from minikafka.transactions.shard import Entry, Shard
from minikafka.transactions.transaction import ENDING, Transaction, TransactionState


def restore_some(shard: Shard) -> None:
    """Take some of the replayed ids up: markers are written, time-outs run on."""
    partitions_left = shard.settings.partitions_per_step
    for _ in range(min(len(shard.replayed), shard.settings.ids_per_step)):
        transaction = shard.replayed.popitem()[1]
        _restore(shard, transaction)
        partitions_left -= len(transaction.partitions)
        if partitions_left <= 0:
            break
    if not shard.replayed:
        expiry.begin(shard)


def _restore(shard: Shard, transaction: Transaction) -> None:
    age_ms = max(0, shard.age_clock_ms() - transaction.updated_ms)
    entry = Entry(transaction, idle_since_ms=shard.now_ms - age_ms)
    shard.entries[transaction.transactional_id] = entry
    shard.count(entry)
    if transaction.state is TransactionState.ONGOING:
        entry.expires_ms = shard.now_ms + _time_left(shard, transaction)
        shard.wake(entry, entry.expires_ms)
    elif transaction.state in ENDING:
        ending.mark(shard, entry)


def _time_left(shard: Shard, transaction: Transaction) -> int:
    """However the clocks of two coordinators differ, it is no longer than the time-out."""
    if transaction.started_ms == NO_TIMESTAMP:
        return transaction.timeout_ms
    passed_ms = shard.age_clock_ms() - transaction.started_ms
    return min(max(0, transaction.timeout_ms - passed_ms), transaction.timeout_ms)


def resign(shard: Shard) -> None:
    """Another broker leads the shard: waiting requests get NOT_COORDINATOR. The driver cancels all timers."""
    for entry in shard.entries.values():
        shard.let_ask_again(entry)
    shard.memory.held_bytes -= sum(entry.held_bytes for entry in shard.entries.values())
    shard.entries.clear()
    shard.fail_writes()
