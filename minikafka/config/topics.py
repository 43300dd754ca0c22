"""Settings: defaults of new topics, and replication between brokers."""

from __future__ import annotations

from typing import Final

from minikafka.config.kinds import LONG_MAX, boolean, choice, gzip_level, integer, long
from minikafka.config.setting import Setting, SettingGroup

LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class TopicDefaultSettings(SettingGroup):
    """New topics, and defaults of topics."""

    num_partitions = Setting(integer(1), 1, doc="Partitions of a topic created without a number.")
    default_replication_factor = Setting(
        integer(1, 32767),
        1,
        doc="""Replicas of a topic created without a number, automatically created ones included. With three brokers or
        more use 3: with 1 a topic is gone while its only broker is.""",
    )
    min_insync_replicas = Setting(
        integer(1),
        1,
        dynamic=True,
        doc="""In-sync replicas that must have a write with acks=all before it is acknowledged; with fewer in sync it is
        refused. With three replicas use 2. If a topic has fewer replicas than that, all of them must. It goes for the
        whole cluster: the first controller that has it configured sets it for all nodes.""",
    )
    auto_create_topics_enable = Setting(
        boolean(), True, doc="Create a topic when a client that allows it first names it."
    )
    delete_topic_enable = Setting(boolean(), True, doc="Allow the deletion of topics.")
    delete_internal_topics_enable = Setting(
        boolean(),
        False,
        doc="""Allow the deletion of internal topics, too: all consumer groups and transactional ids go with them. For
        tests, which begin anew with it. No setting of Kafka's.""",
    )
    unclean_leader_election_enable = Setting(
        boolean(),
        False,
        dynamic=True,
        doc="""When no in-sync replica is alive, let one that is not in sync lead. The partition becomes available and
        loses acknowledged records.""",
    )
    auto_leader_rebalance_enable = Setting(
        boolean(), True, doc="Give leadership back to a partition's first replica, periodically, when it is in sync."
    )
    leader_imbalance_check_interval_seconds = Setting(
        long(1), 300, doc="Interval of the election of preferred leaders; some are sooner after a broker came back."
    )
    leader_imbalance_per_broker_percentage = Setting(
        integer(0),
        10,
        doc="""Leadership is given back to a broker that does not lead more than this share of the partitions whose
        first replica it has.""",
    )
    message_max_bytes = Setting(
        integer(0), 1_048_588, dynamic=True, doc="Largest record batch accepted, as compressed by its producer."
    )
    compression_type = Setting(
        choice("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "producer",
        dynamic=True,
        doc="""How batches are stored: as their producer compressed them, or recompressed by the leader where a producer
        chose something else. That costs the leader much more time than all its other work.""",
    )
    compression_gzip_level = Setting(
        gzip_level(), -1, dynamic=True, doc="Level at which a leader compresses with gzip: 1 to 9, or -1 for 6."
    )
    compression_lz4_level = Setting(integer(1, 17), 9, dynamic=True, doc="Level at which a leader compresses with lz4.")
    compression_zstd_level = Setting(
        integer(-131_072, 22), 3, dynamic=True, doc="Level at which a leader compresses with zstd."
    )


class QuotaSettings(SettingGroup):
    """How quotas of clients are measured."""

    quota_window_size_seconds = Setting(
        integer(1),
        1,
        doc="""So much of a time in which a client asked for less than its quota may be made up for. Apache Kafka
        averages over quota.window.num windows of this length.""",
    )


class ReplicationSettings(SettingGroup):
    """Replication between brokers."""

    replica_lag_time_max_ms = Setting(
        long(1),
        10_000,
        kafka="30000",
        doc="""A follower that has not reached the leader's log end for so long leaves the ISR. A follower that is alive
        but stuck delays writes with acks=all for at most one and a half times this; Kafka's 30 seconds suit clusters
        of thousands of partitions, where a fetch round itself may take seconds. A dead follower leaves earlier,
        when its session ends (broker.session.timeout.ms).""",
    )
    replica_fetch_wait_max_ms = Setting(
        integer(0), 500, doc="How long a leader holds a follower's fetch that finds nothing new."
    )
    replica_fetch_min_bytes = Setting(
        integer(0), 1, doc="Bytes a leader collects before it answers a follower's fetch."
    )
    replica_fetch_response_max_bytes = Setting(
        integer(1), 10_485_760, doc="Bytes of all partitions together in one answer to a follower."
    )
    replica_fetch_max_bytes = Setting(
        integer(1), 1_048_576, doc="Bytes of one partition in one answer to a follower; a larger batch still passes."
    )
    replica_fetch_backoff_ms = Setting(
        integer(0), 1000, doc="Pause of a partition whose fetch failed, and of a fetcher with nothing to fetch."
    )
    num_replica_fetchers = Setting(
        integer(1), 1, doc="Fetchers a follower runs per leader; partitions are hashed to them."
    )
    replica_high_watermark_checkpoint_interval_ms = Setting(
        long(1), 5000, doc="Interval at which high watermarks are written to disk."
    )
    leader_replication_throttled_rate = Setting(
        long(1),
        LONG_MAX,
        dynamic=True,
        doc="""Bytes a second that this broker sends to followers of the replicas in a topic's
        leader.replication.throttled.replicas, all together (KIP-73).""",
    )
    follower_replication_throttled_rate = Setting(
        long(1),
        LONG_MAX,
        dynamic=True,
        doc="""Bytes a second that this broker fetches as follower for the replicas in a topic's
        follower.replication.throttled.replicas, all together (KIP-73).""",
    )
    replication_quota_window_num = Setting(
        integer(1), 11, doc="Number of windows over which the rates of throttled replicas are measured."
    )
    replication_quota_window_size_seconds = Setting(
        integer(1), 1, doc="Length of a window over which the rates of throttled replicas are measured."
    )
    replica_selector_class = Setting(
        choice(LEADER_SELECTOR, RACK_AWARE_SELECTOR),
        LEADER_SELECTOR,
        doc="""Where consumers read (KIP-392): from leaders, or from an in-sync replica in their own rack (client.rack,
        broker.rack) when there is one.""",
    )
    replica_alter_log_dirs_io_max_bytes_per_second = Setting(
        long(1),
        LONG_MAX,
        dynamic=True,
        doc="Bytes a second with which replicas move between this broker's log directories (KIP-113).",
    )
