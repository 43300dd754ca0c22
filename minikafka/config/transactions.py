"""Settings: transactions and the topic that keeps their states."""

from __future__ import annotations

from minikafka.config.kinds import boolean, integer, long
from minikafka.config.setting import Setting, SettingGroup


class TransactionSettings(SettingGroup):
    """Transactions and their coordinators."""

    transaction_state_log_replication_factor = Setting(
        integer(1, 32767),
        3,
        doc="""Replicas of the topic with the states of transactions. It is created once that many brokers are
        registered, and not before.""",
    )
    transaction_state_log_min_isr = Setting(
        integer(1),
        2,
        doc="""In-sync replicas that must have a state. Where there are fewer replicas (see
        transaction.state.log.replication.factor), that many.""",
    )
    transaction_state_log_num_partitions = Setting(
        integer(1),
        10,
        kafka="50",
        doc="""Partitions of that topic, over which transactional ids and their coordinators are spread. Each costs
        files and replication on every broker.""",
    )
    transaction_state_log_segment_bytes = Setting(
        integer(1024),
        4 * 1024 * 1024,
        kafka="104857600",
        doc="""Largest segment of that topic. The last segment is not compacted: the next coordinator reads all of it
        before it serves (30,000 to 50,000 states a second).""",
    )
    transaction_max_timeout_ms = Setting(
        integer(1), 900_000, doc="Longest transaction.timeout.ms that a producer may ask for."
    )
    transactional_id_expiration_ms = Setting(
        integer(1), 604_800_000, doc="A transactional id that was not used for this time is forgotten."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = Setting(
        integer(1), 3_600_000, doc="Interval at which coordinators look for transactional ids to forget."
    )
    transaction_memory_max_bytes = Setting(
        long(1),
        64 * 1024 * 1024,
        doc="""Memory of a node for the transactions that it coordinates: some 600 bytes for each transactional id, and
        128 for each partition of an open transaction. New ids are refused beyond half of it, new partitions beyond all
        of it, with COORDINATOR_NOT_AVAILABLE and a line in the log; clients try again. Apache Kafka has no limit.""",
    )
    transaction_partition_verification_enable = Setting(
        boolean(),
        True,
        dynamic=True,
        doc="""Leaders ask the coordinator before the first record of a transaction, so that a late one does not hang
        for ever. Records of clients that speak transaction version 2 are always asked about.""",
    )
