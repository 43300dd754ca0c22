"""Committed metadata, as events of the local replicas: created, told of leaders and ISR, removed (rows R9, C2, C5).

A node that comes back replays the metadata log from where its disk has it, and on the way sees itself lead partitions
that others lead since. So nothing is acted on before its own new registration has been replayed: by then the controller
has taken every leadership of the former incarnation away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

import structlog

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.moves import DirectoryMoves
from minikafka.broker.drivers.replica import ReplicaDriver
from minikafka.broker.drivers.strays import Strays
from minikafka.broker.partition import Partition, log_config
from minikafka.broker.replicas import Replicas
from minikafka.config import BrokerConfig, TopicConfig
from minikafka.metadata.delta import MetadataDelta, difference
from minikafka.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage, PartitionImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.model import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, TopicPartition
from minikafka.replication.local_replica import LocalReplica
from minikafka.replication.replica_facts import CommittedPartition, ReplicaSettings, Surroundings
from minikafka.storage.config import LogConfig
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore

log = structlog.get_logger(__name__)


class PartitionRoles:
    """Subscriber to metadata that tells each local replica of it. Runs to the end without suspending."""

    def __init__(
        self,
        config: BrokerConfig,
        store: LogStore,
        replicas: Replicas,
        driver: ReplicaDriver,
        moves: DirectoryMoves,
        strays: Strays,
        clock: Clock,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._static_config = config
        self._config = config
        self._node_id = config.node_id
        self._store = store
        self._replicas = replicas
        self._driver = driver
        self._moves = moves
        self._strays = strays
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._image: MetadataImage | None = None  # None until this node acts on metadata

    @property
    def has_begun(self) -> bool:
        """True once metadata is acted on."""
        return self._image is not None

    def begin(self, image: MetadataImage) -> None:
        """This incarnation's registration was replayed: take up the roles that the image gives this node."""
        self._strays.begin(image)
        self._act(difference(EMPTY_IMAGE, image))
        self._moves.resume()

    def apply(self, delta: MetadataDelta) -> None:
        """One batch of committed changes."""
        if self.has_begun:
            self._act(delta)

    def _act(self, delta: MetadataDelta) -> None:
        self._image = delta.after
        for topic in delta.deleted_topics:
            self._remove(TopicPartition(topic.name, index) for index in topic.partitions)
        if delta.configs:  # before states: a leader must not commit on a new ISR by an old min.insync.replicas
            self._apply_configs(delta.configs, delta.after)
        for where in sorted(delta.partitions):
            state = delta.after.partition(where)
            assert state is not None
            self._apply_partition(where, state, delta.after)
        if self._node_id in delta.brokers:
            self._on_registered()

    def is_eligible(self, replica_id: int, broker_epoch: int) -> bool:
        """Would committed metadata let that process into an ISR now (rows R18, R20; KIP-903)?"""
        broker = None if self._image is None else self._image.broker(replica_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        return broker_epoch == broker.broker_epoch

    # -- one partition ----------------------------------------------------------------------------------------------

    def _apply_partition(self, where: TopicPartition, state: PartitionImage, image: MetadataImage) -> None:
        if self._node_id not in state.replicas:
            self._remove([where])
            return
        partition = self._replicas.get(where) or self._open(where, state, image)
        if partition is not None:
            self._driver.on_metadata(partition, self._committed(state))

    def _committed(self, state: PartitionImage) -> CommittedPartition:
        return CommittedPartition(
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            state.replicas,
            state.isr,
            state.elr,
            state.directory_of(self._node_id),
        )

    def _open(self, where: TopicPartition, state: PartitionImage, image: MetadataImage) -> Partition | None:
        topic = image.topic(where.topic)
        assert topic is not None
        config = TopicConfig(image.topic_overrides(where.topic), self._config)
        log_ = self._store.get(where)
        is_missing = log_ is None and self._store.is_missing(where)
        if log_ is not None and log_.topic_id != topic.topic_id:
            self._store.delete(where)
            log_ = None
        if log_ is None:
            log_ = self._create(where, state, topic.topic_id, log_config(config))
        if log_ is None or log_.is_offline:
            self._replicas.offline[where] = None
            return None
        partition = Partition(topic.topic_id, log_, config, self._local_replica(where, log_, config, is_missing))
        self._replicas.offline.pop(where, None)
        self._replicas.add(partition)
        self._driver.on_opened(partition)
        return partition

    def _local_replica(self, where: TopicPartition, log_: Log, config: TopicConfig, is_made_anew: bool) -> LocalReplica:
        directory = self._store.directory_of(where)
        meta = None if directory is None else directory.meta
        return LocalReplica(
            where,
            self._node_id,
            log_,
            self._settings(config),
            Surroundings(self.is_eligible, self._broker_epoch, self._is_leaving),
            high_watermark=self._store.high_watermark(where),
            damage_offset=None if log_.corruption is None else log_.corruption.offset,
            directory_id=UNASSIGNED_DIRECTORY if meta is None else meta.directory_id,
            is_directory_told=len(self._store.directories) > 1,
            is_made_anew=is_made_anew,
        )

    def _settings(self, config: TopicConfig) -> ReplicaSettings:
        lag_time_max_ms = self._config.replica_lag_time_max_ms
        return ReplicaSettings(config.min_insync_replicas, config.flush_messages, lag_time_max_ms)

    def _is_leaving(self) -> bool:
        broker = None if self._image is None else self._image.broker(self._node_id)
        return broker is not None and broker.in_controlled_shutdown

    def _create(self, where: TopicPartition, state: PartitionImage, topic_id: UUID, config: LogConfig) -> Log | None:
        """A new log: where it was asked to be, else where the cluster takes it to be, else where the fewest are.

        None for a replica that is in a directory that is offline: it is not made anew elsewhere (KIP-858).
        """
        assigned = state.directory_of(self._node_id)
        online = {one.meta.directory_id: one for one in self._store.online if one.meta is not None}
        is_elsewhere = assigned not in (UNASSIGNED_DIRECTORY, LOST_DIRECTORY) and assigned not in online
        if is_elsewhere and len(online) < len(self._store.directories):
            log.warning("a replica is in a log directory that is offline", partition=str(where))
            return None
        chosen = self._moves.take_wish(where) or online.get(assigned)
        try:
            return self._store.create(where, topic_id, config, chosen)
        except StorageFailure as failure:
            log.error("cannot create a replica", partition=str(where), why=str(failure))
            return None

    # -- directories ------------------------------------------------------------------------------------------------

    def take_offline(self, directory: LogDir) -> None:
        """A log directory failed: its replicas are neither led nor followed here; the others go on."""
        failure = directory.failure
        assert failure is not None
        for where in directory.logs:
            partition = self._replicas.get(where)
            if partition is not None:
                self._driver.on_storage_failed(partition, failure)

    def _remove(self, partitions: Iterable[TopicPartition]) -> None:
        for where in partitions:
            self._replicas.offline.pop(where, None)
            partition = self._replicas.get(where)
            if partition is not None:
                self._driver.on_removed(partition)

    # -- what else changes ------------------------------------------------------------------------------------------

    def _apply_configs(self, changed: Iterable[ConfigResource], image: MetadataImage) -> None:
        topics = {resource.name for resource in changed if resource.resource_type is ConfigResourceType.TOPIC}
        if any(resource.resource_type is ConfigResourceType.BROKER for resource in changed):
            node = image.config_of(ConfigResource(ConfigResourceType.BROKER, str(self._node_id)))
            cluster = image.config_of(ConfigResource(ConfigResourceType.BROKER, ""))
            self._config = self._static_config.overridden(node, cluster)
            topics = {partition.topic_partition.topic for partition in self._replicas}
        now_ms = self._clock.monotonic_ms()
        for partition in self._replicas:
            topic = partition.topic_partition.topic
            if topic in topics:
                config = TopicConfig(image.topic_overrides(topic), self._config)
                partition.configure(config)
                effects = partition.replica.configure(self._settings(config), now_ms)
                self._driver.carry_out(partition, effects)

    def _on_registered(self) -> None:
        """This node registered again, and goes on leading."""
        for partition in self._replicas:
            partition.replica.on_registered()
