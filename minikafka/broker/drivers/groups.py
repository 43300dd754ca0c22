"""The group coordinators of this node: the shards of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

from minikafka.broker.drivers.shards import Shard, Shards
from minikafka.broker.partition import Partition
from minikafka.broker.ports import Ports
from minikafka.broker.replicas import Replicas, StagedMarker
from minikafka.config import BrokerConfig
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.settings import CoordinatorSettings
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import MetadataImage
from minikafka.model import CONSUMER_OFFSETS_TOPIC, NO_PRODUCER_ID, TopicPartition
from minikafka.records.batch import BatchHeader
from minikafka.records.control import parse_end_txn_marker
from minikafka.records.record import Record

GroupShard = Shard[GroupCoordinator]


class Groups(Shards[GroupCoordinator]):
    """Found by group id."""

    def __init__(self, ports: Ports, replicas: Replicas, image: Callable[[], MetadataImage]) -> None:
        super().__init__(CONSUMER_OFFSETS_TOPIC, self._new, ports, replicas, image)
        self._settings = _settings(ports.config)
        self.replay = _replay

    def on_leading(self, partition: Partition) -> None:
        """This node became leader of a partition."""
        super().on_leading(partition)
        tp = partition.topic_partition
        if tp.topic == CONSUMER_OFFSETS_TOPIC:
            self._replicas.marker_listeners[tp] = partial(self._on_marker, self._shards[tp.partition])

    def on_leading_no_more(self, tp: TopicPartition) -> None:
        """Another node leads it, or it was deleted."""
        if tp.topic == CONSUMER_OFFSETS_TOPIC:
            self._replicas.marker_listeners.pop(tp, None)
        super().on_leading_no_more(tp)

    def _on_marker(self, shard: GroupShard, marker: StagedMarker) -> None:
        """The end of a transaction is on its way to the log, in which it takes effect in its place."""
        shard.when_committed(
            marker.offset,
            lambda now_ms: shard.coordinator.on_marker(marker.producer_id, now_ms, commits=marker.commits),
        )

    def standing(self, group_id: str, producer_id: int) -> tuple[GroupShard | None, int]:
        """The shard that coordinates the group here, and the last end of a transaction of the producer there.

        What the transaction's coordinator says may be old when its answer comes. If the standing is another one then,
        records could get into the log behind the marker of their transaction, and nobody would end them (row T48).
        From transaction version 2 on the log tells the transactions by their epochs: what ended may be the one before.
        """
        partition = self.partition_of(group_id)
        replica = None if partition is None else self._replicas.get(partition)
        return self.shard_of(group_id), 0 if replica is None else replica.log.producers.last_end_of(producer_id)

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


def _replay(coordinator: GroupCoordinator, batch: BatchHeader, record: Record, now_ms: int) -> bool:
    if batch.is_control:
        marker = parse_end_txn_marker(record)
        if marker is not None:
            coordinator.on_marker(batch.producer_id, now_ms, commits=marker.is_commit)
        return marker is not None
    if record.key is None:
        return False
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
    return coordinator.replay(record.key, record.value, now_ms, producer_id)


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
