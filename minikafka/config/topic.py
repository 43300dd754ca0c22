"""The settings a topic may override, each with the node's settings it falls back to."""

from __future__ import annotations

from typing import Final

from minikafka.config.broker import BrokerConfig
from minikafka.config.kinds import ReplicaList, boolean, long, only_false, replica_list
from minikafka.config.overrides import Fallback, OwnConfig, OwnSetting, like
from minikafka.config.setting import ConfigSource

_TIERED: Final = "for the local part of a topic with tiered storage, which is not there: without effect."
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


class TopicConfig(OwnConfig):
    """A topic's settings in effect: ``TopicConfig(overrides, broker_config).retention_ms``."""

    SOURCE = ConfigSource.DYNAMIC_TOPIC_CONFIG
    RESOURCE = "topic"

    cleanup_policy = like(BrokerConfig.log_cleanup_policy)
    compression_gzip_level = like(BrokerConfig.compression_gzip_level)
    compression_lz4_level = like(BrokerConfig.compression_lz4_level)
    compression_type = like(BrokerConfig.compression_type)
    compression_zstd_level = like(BrokerConfig.compression_zstd_level)
    delete_retention_ms = like(BrokerConfig.log_cleaner_delete_retention_ms)
    file_delete_delay_ms = like(BrokerConfig.log_segment_delete_delay_ms)
    flush_messages = like(BrokerConfig.log_flush_interval_messages)
    flush_ms = like(BrokerConfig.log_flush_interval_ms)
    index_interval_bytes = like(BrokerConfig.log_index_interval_bytes)
    follower_replication_throttled_replicas = OwnSetting(
        replica_list(),
        default=ReplicaList(),
        doc="""Replicas whose fetches follower.replication.throttled.rate slows down, as partition:broker; * for all.
        Set while partitions are reassigned.""",
    )
    leader_replication_throttled_replicas = OwnSetting(
        replica_list(),
        default=ReplicaList(),
        doc="""Replicas to whose followers leader.replication.throttled.rate sends slowly while they lead, as
        partition:broker; * for all. Set while partitions are reassigned.""",
    )
    local_retention_bytes = OwnSetting(long(-2), default=-2, doc=f"As retention.bytes, {_TIERED}")
    local_retention_ms = OwnSetting(long(-2), default=-2, doc=f"As retention.ms, {_TIERED}")
    max_compaction_lag_ms = like(BrokerConfig.log_cleaner_max_compaction_lag_ms)
    max_message_bytes = like(BrokerConfig.message_max_bytes)
    message_timestamp_after_max_ms = like(BrokerConfig.log_message_timestamp_after_max_ms)
    message_timestamp_before_max_ms = like(BrokerConfig.log_message_timestamp_before_max_ms)
    message_timestamp_type = like(BrokerConfig.log_message_timestamp_type)
    min_cleanable_dirty_ratio = like(BrokerConfig.log_cleaner_min_cleanable_ratio)
    min_compaction_lag_ms = like(BrokerConfig.log_cleaner_min_compaction_lag_ms)
    min_insync_replicas = like(BrokerConfig.min_insync_replicas)
    preallocate = like(BrokerConfig.log_preallocate)
    remote_log_copy_disable = OwnSetting(
        boolean(), default=False, doc="For a topic with tiered storage, which is not there: without effect."
    )
    remote_log_delete_on_disable = OwnSetting(
        boolean(), default=False, doc="For a topic with tiered storage, which is not there: without effect."
    )
    remote_storage_enable = OwnSetting(
        only_false("there is no tiered storage"),
        default=False,
        doc="Tiered storage is not there: true is refused, as by Kafka where it is off.",
    )
    retention_bytes = like(BrokerConfig.log_retention_bytes)
    retention_ms = OwnSetting(
        long(-1),
        Fallback(BrokerConfig.log_retention_ms),
        Fallback(BrokerConfig.log_retention_minutes, MINUTE_MS),
        Fallback(BrokerConfig.log_retention_hours, HOUR_MS),
        doc="Closed segments older than this are deleted; -1 keeps them.",
    )
    segment_bytes = like(BrokerConfig.log_segment_bytes)
    segment_index_bytes = like(BrokerConfig.log_index_size_max_bytes)
    segment_jitter_ms = OwnSetting(
        long(0),
        Fallback(BrokerConfig.log_roll_jitter_ms),
        Fallback(BrokerConfig.log_roll_jitter_hours, HOUR_MS),
        doc=BrokerConfig.log_roll_jitter_ms.doc.removesuffix(" Empty: log.roll.jitter.hours decides."),
    )
    segment_ms = OwnSetting(
        long(1),
        Fallback(BrokerConfig.log_roll_ms),
        Fallback(BrokerConfig.log_roll_hours, HOUR_MS),
        doc=BrokerConfig.log_roll_hours.doc,
    )
    unclean_leader_election_enable = like(BrokerConfig.unclean_leader_election_enable)
