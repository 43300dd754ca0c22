"""One local replica of a partition: its log, its settings, and its machine.

Handlers read from it. :class:`~minikafka.replication.local_replica.LocalReplica` decides about changes, and
:class:`~minikafka.broker.drivers.replica.ReplicaDriver` carries them out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from uuid import UUID

from minikafka.config import TopicConfig
from minikafka.metrics.traffic import TopicTraffic
from minikafka.model import INTERNAL_TOPICS, Compression, Isolation, TimestampType
from minikafka.records.recompress import Codec
from minikafka.records.validate import BatchLimits
from minikafka.replication.epochs import check_leader_epoch
from minikafka.replication.leader import LeaderState
from minikafka.replication.local_replica import LocalReplica
from minikafka.storage.config import LogConfig
from minikafka.storage.log import Log

GZIP_DEFAULT_LEVEL: Final = -1
INDEX_INTERVAL_MAX: Final = 64 * 1024
"""Bytes: the loop walks over so many small batches in 1 ms. Without a bound one fetch walked a whole segment."""
INDEX_BYTES_MAX: Final = 10 * 1024**2
"""Of one segment: 26 MB of memory with its time index."""
KEPT: Final = 100
"""Settings of a topic, in the forms in which its partitions take them: a change may concern thousands."""


class Partition:
    """A partition with a log on this node. ``leader`` is None while another node leads it."""

    __slots__ = (
        "batch_limits",
        "codec",
        "config",
        "is_internal",
        "is_staged",
        "log",
        "needs_keys",
        "reads",
        "replica",
        "topic_id",
        "topic_partition",
        "traffic",
    )

    def __init__(self, topic_id: UUID, log: Log, config: TopicConfig, replica: LocalReplica) -> None:
        self.topic_partition = replica.topic_partition
        self.is_internal = replica.topic_partition.topic in INTERNAL_TOPICS
        self.topic_id = topic_id
        self.log = log
        self.replica = replica
        self.is_staged = False
        self.reads = 0  # by consumers that found records
        self.traffic = TopicTraffic()  # the topic's, while it is one of the node's replicas
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        """Apply the topic's settings to appends and to the log."""
        self.config = config
        self.log.config = log_config(config)
        self.needs_keys = "compact" in config.cleanup_policy
        self.batch_limits = _batch_limits(config)
        self.codec = _codec(config)

    def replace_log(self, log: Log) -> None:
        """The log moved to another directory: the same records, in other files."""
        self.log = log
        self.configure(self.config)

    # -- what the machine says --------------------------------------------------------------------------------------

    @property
    def leader(self) -> LeaderState | None:
        """The leader's state while this node leads."""
        return self.replica.leader

    @property
    def leader_id(self) -> int:
        """Node id of the leader, as this node knows; -1: no leader."""
        return self.replica.leader_id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch that this node is in."""
        return self.replica.leader_epoch

    @property
    def high_watermark(self) -> int:
        """First offset a consumer may not read."""
        replica = self.replica
        leader = replica.leader
        return replica.high_watermark if leader is None else leader.high_watermark

    # -- reading ----------------------------------------------------------------------------------------------------

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Fence a request with another leader epoch than this replica's (row E6); -1: the request has none."""
        check_leader_epoch(self.topic_partition, self.replica.leader_epoch, current_leader_epoch)

    def read_limit(self, isolation: Isolation) -> int:
        """First offset a consumer may not read: high watermark, or last stable offset if read_committed (row R15)."""
        if isolation is Isolation.READ_COMMITTED:
            return self.log.last_stable_offset(self.replica.high_watermark)
        return self.replica.high_watermark


def _timestamp_type(config: TopicConfig) -> TimestampType:
    stamps = config.message_timestamp_type == "LogAppendTime"
    return TimestampType.LOG_APPEND_TIME if stamps else TimestampType.CREATE_TIME


def _codec(config: TopicConfig) -> Codec | None:
    """How the topic's batches are to be compressed; None: as their producer did."""
    match config.compression_type:
        case "producer":
            return None
        case "uncompressed":
            return Codec(Compression.NONE)
        case "gzip":
            level = config.compression_gzip_level
            return Codec(Compression.GZIP, None if level == GZIP_DEFAULT_LEVEL else level)
        case "lz4":
            return Codec(Compression.LZ4, config.compression_lz4_level)
        case "zstd":
            return Codec(Compression.ZSTD, config.compression_zstd_level)
        case _:
            return Codec(Compression.SNAPPY)


@lru_cache(maxsize=KEPT)
def _batch_limits(config: TopicConfig) -> BatchLimits:
    return BatchLimits(
        max_message_bytes=config.max_message_bytes,
        segment_bytes=config.segment_bytes,
        timestamp_type=_timestamp_type(config),
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
    )


@lru_cache(maxsize=KEPT)
def log_config(config: TopicConfig) -> LogConfig:
    """A topic's settings as its logs take them."""
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        segment_jitter_ms=config.segment_jitter_ms,
        segment_index_bytes=min(config.segment_index_bytes, INDEX_BYTES_MAX),
        index_interval_bytes=min(config.index_interval_bytes, INDEX_INTERVAL_MAX),
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        cleanup_policy=frozenset(config.cleanup_policy),
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        file_delete_delay_ms=config.file_delete_delay_ms,
        preallocate=config.preallocate,
        delete_retention_ms=config.delete_retention_ms,
        log_append_time=_timestamp_type(config) is TimestampType.LOG_APPEND_TIME,
    )
