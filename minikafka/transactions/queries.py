"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from minikafka.transactions.shard import Shard
from minikafka.transactions.transaction import Transaction, TransactionState

ANY_DURATION = -1


def describe(shard: Shard, transactional_id: str) -> Transaction | None:
    """The last committed state; None for an unknown id."""
    entry = shard.entries.get(transactional_id)
    return None if entry is None or _is_dead(entry.pending) else entry.transaction


def find(
    shard: Shard, producer_ids: Collection[int], states: Collection[TransactionState], longer_than_ms: int
) -> Iterator[Transaction]:
    """Those that any filter lets pass; an empty one does. ``longer_than_ms``: of transactions under way; -1: all."""
    wall_ms = shard.wall_clock_ms()
    for entry in shard.entries.values():
        now = entry.transaction
        if _is_dead(entry.pending) or (producer_ids and now.producer_id not in producer_ids):
            continue
        if states and now.state not in states:
            continue
        if longer_than_ms != ANY_DURATION and (now.is_at_rest or wall_ms - now.started_ms <= longer_than_ms):
            continue
        yield now


def _is_dead(pending: Transaction | None) -> bool:
    return pending is not None and pending.state is TransactionState.DEAD
