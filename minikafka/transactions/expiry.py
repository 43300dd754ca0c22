"""Transactional ids that were not used for long are forgotten (``transactional.id.expiration.ms``).

The age of an id is the wall clock's only when it is loaded; from then on it grows by the monotonic clock, so that a
jump of the wall clock expires nothing.
"""

from __future__ import annotations

from minikafka.transactions.effects import ExpiryTimer
from minikafka.transactions.shard import Entry, Shard


def begin(shard: Shard) -> None:
    """Look for ids from time to time."""
    shard.next_expiry_ms = shard.now_ms + shard.settings.expiry_interval_ms
    shard.set_timer(ExpiryTimer(), shard.next_expiry_ms)


def sweep(shard: Shard) -> None:
    """Look at some ids, bury those that have expired (row T8) in one write, and go on soon."""
    settings = shard.settings
    if not shard.unswept and shard.now_ms >= shard.next_expiry_ms:
        shard.next_expiry_ms = shard.now_ms + settings.expiry_interval_ms
        shard.unswept.extend(shard.entries)
    some = [shard.unswept.popleft() for _ in range(min(len(shard.unswept), settings.ids_per_step))]
    entries = (shard.entries.get(transactional_id) for transactional_id in some)
    expired = tuple(entry for entry in entries if entry is not None and _is_expired(shard, entry))
    if expired:
        shard.bury(expired)
    shard.set_timer(ExpiryTimer(), shard.now_ms + settings.sweep_pause_ms if shard.unswept else shard.next_expiry_ms)


def _is_expired(shard: Shard, entry: Entry) -> bool:
    is_idle = entry.pending is None and entry.transaction.is_at_rest
    return is_idle and shard.now_ms - entry.idle_since_ms >= shard.settings.id_expiration_ms
