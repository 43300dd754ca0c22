"""Settings of transactions; names and defaults are those of Kafka's broker settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Limits and times of the coordinator. The comment behind a field is Kafka's name for it."""

    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    id_expiration_ms: int = 7 * 24 * 3_600_000  # transactional.id.expiration.ms
    expiry_interval_ms: int = 3_600_000  # transaction.remove.expired.transaction.cleanup.interval.ms
    retry_ms: int = 1_000  # ours: after a write failed for which no client waits
    write_timeout_ms: int = 5_000  # ours: how long a client waits for a write (a constant in Kafka)
    id_bytes_max: int = 32_767  # the key of its record has a length of 16 bits
    partitions_max: int = 20_000  # ours: of one transaction, whose record takes 25 ms; in Kafka max.message.bytes is it
    writes_in_flight_max: int = 10_000  # ours: uncommitted writes of one shard; more are refused
    ids_per_step: int = 200  # ours: loading and sweeps look at so many ids, then let others have a turn
    partitions_per_step: int = 2_000  # ours: or at ids with so many partitions
    sweep_pause_ms: int = 20  # ours: that turn
