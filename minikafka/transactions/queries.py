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
) -> Iterator[Transaction | None]:
    """Those that any filter lets pass; an empty one does. ``longer_than_ms``: of transactions under way; -1: all.

    None for each of the others: to look at one takes a while. Much may happen between two of them.
    """
    wall_ms = shard.wall_clock_ms()
    for entry in list(shard.entries.values()):
        now = entry.transaction
        if shard.entries.get(now.transactional_id) is not entry or _is_dead(entry.pending):
            continue
        is_long = not now.is_at_rest and wall_ms - now.started_ms > longer_than_ms
        is_wanted = (
            (not producer_ids or now.producer_id in producer_ids)
            and (not states or now.state in states)
            and (longer_than_ms == ANY_DURATION or is_long)
        )
        yield now if is_wanted else None


def _is_dead(pending: Transaction | None) -> bool:
    return pending is not None and pending.state is TransactionState.DEAD
