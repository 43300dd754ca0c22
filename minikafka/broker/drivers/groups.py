"""The group coordinators of this node: the shards of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from minikafka.broker.drivers.shards import Shard, Shards
from minikafka.broker.partition import Partition
from minikafka.broker.ports import Ports
from minikafka.broker.replicas import Replicas
from minikafka.config import BrokerConfig
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.settings import CoordinatorSettings
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import MetadataImage
from minikafka.model import CONSUMER_OFFSETS_TOPIC

GroupShard = Shard[GroupCoordinator]


class Groups(Shards[GroupCoordinator]):
    """Found by group id."""

    def __init__(self, ports: Ports, replicas: Replicas, image: Callable[[], MetadataImage]) -> None:
        super().__init__(CONSUMER_OFFSETS_TOPIC, self._new, ports, replicas, image)
        self._settings = _settings(ports.config)

    def _new(self, _partition: Partition) -> GroupCoordinator:
        clock = self._ports.clock
        return GroupCoordinator(self._settings, lambda: str(self._ports.new_uuid()), clock.wall_ms, self._topic_id_of)

    def _topic_id_of(self, name: str) -> UUID | None:
        topic = self._image().topic(name)
        return None if topic is None else topic.topic_id

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Offsets of deleted topics are dropped."""
        if delta.deleted_topics:
            for shard in self:
                shard.step(shard.coordinator.on_topics_deleted(self._ports.clock.monotonic_ms()))


def _settings(config: BrokerConfig) -> CoordinatorSettings:
    return CoordinatorSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
    )
