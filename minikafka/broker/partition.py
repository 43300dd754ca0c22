"""One local replica of a partition: its log, and the role this node plays for it.

As leader the replication machine (:class:`LeaderState`) decides the high watermark and the ISR; as follower the high
watermark is what the leader last told, bounded by the local log end (rows R11, R24).
"""

from __future__ import annotations

from uuid import UUID

from minikafka.config import TopicConfig
from minikafka.model import NO_EPOCH, NO_NODE, Isolation, OffsetAndEpoch, TimestampType, TopicPartition
from minikafka.records.validate import BatchLimits
from minikafka.replication.epochs import check_leader_epoch, diverging_epoch
from minikafka.replication.leader import LeaderState
from minikafka.storage.config import LogConfig
from minikafka.storage.log import Log


class Partition:
    """A partition with a log on this node. ``leader`` is None while another node leads it."""

    __slots__ = (
        "_follower_high_watermark",
        "batch_limits",
        "config",
        "is_failed",
        "is_refetching",
        "is_staged",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "needs_keys",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, topic_id: UUID, log: Log, config: TopicConfig, high_watermark: int
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.configure(config)
        self.leader: LeaderState | None = None
        self.leader_id = NO_NODE
        self.leader_epoch = NO_EPOCH
        self.is_staged = False
        self.is_refetching = False  # it was cut where damage was found, and is not in the ISR yet
        self.is_failed = False  # storage gave up under it; it neither serves nor follows until the node restarts
        self._follower_high_watermark = self._clamped(high_watermark)

    def configure(self, config: TopicConfig) -> None:
        """Take the topic's settings over, for appends and for the log."""
        self.config = config
        self.log.config = log_config(config)
        self.needs_keys = "compact" in config.cleanup_policy
        self.batch_limits = BatchLimits(
            max_message_bytes=config.max_message_bytes,
            segment_bytes=config.segment_bytes,
            timestamp_type=_timestamp_type(config),
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        )

    def replace_log(self, log: Log) -> None:
        """The log moved to another directory: the same records, in other files."""
        self.log = log
        self.configure(self.config)

    @property
    def high_watermark(self) -> int:
        """First offset a consumer may not read."""
        return self._follower_high_watermark if self.leader is None else self.leader.high_watermark

    @property
    def needs_flush(self) -> bool:
        """As many records are not synced as ``flush.messages`` allows."""
        return self.log.log_end_offset - self.log.recovery_point >= self.config.flush_messages

    def become_leader(self, leader: LeaderState, node_id: int) -> None:
        """Serve reads and writes in ``leader.leader_epoch``."""
        self.leader = leader
        self.leader_id = node_id
        self.leader_epoch = leader.leader_epoch

    def become_follower(self, leader_id: int, leader_epoch: int) -> None:
        """Refuse produce and consumer reads from here on; the high watermark stays where it was."""
        self._follower_high_watermark = self._clamped(self.high_watermark)
        self.leader = None
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch

    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        """Row R11: min(own log end, the leader's high watermark)."""
        self._follower_high_watermark = self._clamped(leader_high_watermark)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Fence a caller whose idea of the leader epoch is not ours (row E6). -1 means it did not say."""
        check_leader_epoch(self.topic_partition, self.leader_epoch, current_leader_epoch)

    def read_limit(self, isolation: Isolation) -> int:
        """The first offset a consumer of that isolation may not read (row R15)."""
        if isolation is Isolation.READ_COMMITTED:
            return self.log.last_stable_offset(self.high_watermark)
        return self.high_watermark

    def diverging_epoch(self, fetch_offset: int, last_fetched_epoch: int) -> OffsetAndEpoch | None:
        """Where the fetcher's log left this one, if it did (KIP-595); None when its last epoch agrees with ours."""
        return diverging_epoch(self.log, fetch_offset, last_fetched_epoch)

    def _clamped(self, high_watermark: int) -> int:
        return max(self.log.log_start_offset, min(high_watermark, self.log.log_end_offset))


def _timestamp_type(config: TopicConfig) -> TimestampType:
    stamps = config.message_timestamp_type == "LogAppendTime"
    return TimestampType.LOG_APPEND_TIME if stamps else TimestampType.CREATE_TIME


def log_config(config: TopicConfig) -> LogConfig:
    """A topic's settings as its logs take them."""
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        max_message_bytes=config.max_message_bytes,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        cleanup_policy=frozenset(config.cleanup_policy),
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        delete_retention_ms=config.delete_retention_ms,
        log_append_time=_timestamp_type(config) is TimestampType.LOG_APPEND_TIME,
    )
