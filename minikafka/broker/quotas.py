"""Replication quotas: bytes per second that this broker sends to followers, and fetches as one (row R7, KIP-73).

The rates are dynamic settings of brokers; a topic's ``*.replication.throttled.replicas`` names the throttled replicas.
While the rate is exceeded, a leader sends no records to a throttled follower that is not in sync, and a follower leaves
throttled partitions that lag out of its fetches.
"""

from __future__ import annotations

from minikafka.broker.clock import Clock
from minikafka.broker.partition import Partition
from minikafka.config import BrokerConfig
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.effective import broker_config, concern_brokers
from minikafka.replication.quota import ReplicationQuota


class ReplicationQuotas:
    """Both directions of one broker."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._static_config = config
        self._clock = clock
        window_ms = config.replication_quota_window_size_seconds * 1000
        self.as_leader = ReplicationQuota(window_count=config.replication_quota_window_num, window_ms=window_ms)
        self.as_follower = ReplicationQuota(window_count=config.replication_quota_window_num, window_ms=window_ms)
        self._configure(config)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Settings of brokers may have changed."""
        if concern_brokers(delta.configs):
            self._configure(broker_config(delta.after, self._static_config))

    def withholds(self, partition: Partition, replica_id: int) -> bool:
        """True when a follower gets no records of a partition that is led here for now."""
        if not self._binds_leader(partition) or not self.as_leader.is_exceeded(self._clock.monotonic_ms()):
            return False
        return partition.leader is not None and replica_id not in partition.leader.isr

    def on_sent(self, partition: Partition, size: int) -> None:
        """``size`` bytes of records were sent to a follower."""
        if self._binds_leader(partition):
            self.as_leader.record(size, self._clock.monotonic_ms())

    def leaves_out(self, partition: Partition, lag: int) -> bool:
        """True when a followed partition, ``lag`` records behind, is not fetched for now."""
        if lag <= 0 or not self._binds_follower(partition):
            return False
        return self.as_follower.is_exceeded(self._clock.monotonic_ms())

    def on_fetched(self, partition: Partition, size: int) -> None:
        """``size`` bytes of records were fetched from the leader."""
        if self._binds_follower(partition):
            self.as_follower.record(size, self._clock.monotonic_ms())

    def _binds_leader(self, partition: Partition) -> bool:
        if not self.as_leader.is_limited:
            return False
        replicas = partition.config.leader_replication_throttled_replicas
        return replicas.has(partition.topic_partition.partition, self._static_config.node_id)

    def _binds_follower(self, partition: Partition) -> bool:
        if not self.as_follower.is_limited:
            return False
        replicas = partition.config.follower_replication_throttled_replicas
        return replicas.has(partition.topic_partition.partition, self._static_config.node_id)

    def _configure(self, config: BrokerConfig) -> None:
        self.as_leader.rate = config.leader_replication_throttled_rate
        self.as_follower.rate = config.follower_replication_throttled_rate
