"""Turns committed metadata into events of local replicas: created, new leader or ISR, removed (rows R9, C2, C5).

A node that returns replays the metadata log from its disk, and on the way sees itself lead partitions that others lead
by now. So it acts on nothing before its own new registration is replayed: by then the controller has moved all
leaderships of the former incarnation.

Many replicas are told in portions (:mod:`~minikafka.broker.drivers.due`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.due import DueReplicas
from minikafka.broker.drivers.moves import DirectoryMoves
from minikafka.broker.drivers.replica import ReplicaDriver
from minikafka.broker.drivers.strays import Strays
from minikafka.broker.partition import Partition, log_config
from minikafka.broker.replicas import Replicas
from minikafka.broker.threads import RunInThread
from minikafka.config import BrokerConfig, TopicConfig
from minikafka.event_log import get_logger
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import ConfigResource, MetadataImage, PartitionImage, TopicImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.model import LOST_DIRECTORY, NO_NODE, UNASSIGNED_DIRECTORY, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.replication.local_replica import LocalReplica
from minikafka.replication.replica_facts import CommittedPartition, ReplicaSettings, Surroundings
from minikafka.storage.config import LogConfig
from minikafka.storage.errors import PassingFailure, StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.new_log import NewLog

log = get_logger()

TOPIC_CONFIGS_MAX: Final = 1_000
"""That are kept for further topics."""


class PartitionRoles:
    """Subscriber to metadata; tells each local replica."""

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
        metadata_until_ms: Callable[[], int],
        tasks: TaskOwner,
        run_in_thread: RunInThread,
        on_fatal: Callable[[BaseException], None],
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
        self._metadata_until_ms = metadata_until_ms
        self.due = DueReplicas(self, replicas, store, tasks, run_in_thread, on_fatal)
        self._topic_configs: dict[tuple[tuple[str, str], ...], TopicConfig] = {}  # by what a topic has of its own
        self._missing: dict[TopicPartition, UUID] = {}  # topic ids of missing logs that are made again in a thread
        self._image: MetadataImage | None = None  # None until this node acts on metadata

    @property
    def has_begun(self) -> bool:
        """True once metadata is acted on."""
        return self._image is not None

    def begin(self, image: MetadataImage) -> None:
        """This incarnation's registration was replayed: take up the roles that the image gives this node."""
        self._strays.begin(image)
        self._image = image
        self._note_configs(image.configs, image)
        self.due.note(_named(image.topics_by_name[name]) for name in sorted(image.topics_by_name))
        self._on_registered()
        self.due.begin()
        self._moves.resume()

    def apply(self, delta: MetadataDelta) -> None:
        """One batch of committed changes."""
        if not self.has_begun:
            return
        self._image = delta.after
        self.due.note(map(_named, delta.deleted_topics))
        if delta.configs:
            self._note_configs(delta.configs, delta.after)
        self.due.note([delta.partitions])
        if self._node_id in delta.brokers:
            self._on_registered()
        self.due.begin()

    def is_eligible(self, replica_id: int, broker_epoch: int) -> bool:
        """Committed metadata would let that incarnation into an ISR now: unfenced, not leaving (rows R18, R20)."""
        broker = None if self._image is None else self._image.broker(replica_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        return broker_epoch == broker.broker_epoch

    # -- one partition ----------------------------------------------------------------------------------------------

    def tell(self, tp: TopicPartition) -> None:
        """Open, change or remove the replica, as the newest image says."""
        image = self._image
        assert image is not None
        topic, state = image.topic(tp.topic), image.partition(tp)
        partition = self._replicas.get(tp)
        if topic is None or state is None or self._node_id not in state.replicas:
            self._remove(tp)
            return
        if partition is not None and partition.topic_id != topic.topic_id:  # the topic was deleted and made again
            self._remove(tp)
            self.due.note([[tp]])
            return
        if partition is None:
            partition = self._open(tp, state, image)
        else:  # before its state: a leader must not commit on a new ISR by an old min.insync.replicas
            self._configure(partition, self._topic_config(tp.topic, image))
        if partition is not None:
            self._driver.on_metadata(partition, self._committed(state))

    def prepare(self, tp: TopicPartition) -> NewLog | None:
        """The job that makes the replica's files, if they are needed before it can be opened."""
        image = self._image
        assert image is not None
        topic, state = image.topic(tp.topic), image.partition(tp)
        if topic is None or state is None or self._node_id not in state.replicas or self._store.get(tp) is not None:
            return None
        config = log_config(self._topic_config(tp.topic, image))
        try:
            if self._is_elsewhere(state):
                return None
            if self._store.is_missing(tp, topic.topic_id):  # when it is opened, it is there
                self._missing[tp] = topic.topic_id
            return self._store.prepare_create(tp, topic.topic_id, config, self._chosen(tp, state))
        except (StorageFailure, PassingFailure):
            return None  # :meth:`tell` tries again, and logs it

    def _committed(self, state: PartitionImage) -> CommittedPartition:
        return CommittedPartition(
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            state.replicas,
            state.isr,
            state.elr,
            state.directory_id_of(self._node_id),
            state.unclean_leader_epoch,
            next(iter(state.last_known_elr), NO_NODE),
        )

    def _open(self, tp: TopicPartition, state: PartitionImage, image: MetadataImage) -> Partition | None:
        topic = image.topic(tp.topic)
        assert topic is not None
        config = self._topic_config(tp.topic, image)
        log_ = self._store.get(tp)
        is_missing = self._missing.get(tp) == topic.topic_id or self._store.is_missing(tp, topic.topic_id)
        if log_ is not None and log_.topic_id != topic.topic_id:
            self._store.delete(tp)
            log_ = None
        if is_missing:
            log.error("log missing", partition=str(tp), effect="it is created again and fetched")
        if log_ is None:
            log_ = self._create(tp, state, topic.topic_id, log_config(config))
        if log_ is None or log_.is_offline:
            self._replicas.offline[tp] = None
            return None
        partition = Partition(topic.topic_id, log_, config, self._local_replica(tp, log_, config, is_missing))
        self._missing.pop(tp, None)
        self._replicas.offline.pop(tp, None)
        self._moves.forget_wish(tp)
        self._replicas.add(partition)
        self._driver.on_opened(partition)
        return partition

    def _local_replica(self, tp: TopicPartition, log_: Log, config: TopicConfig, is_made_anew: bool) -> LocalReplica:
        directory = self._store.log_dir_of(tp)
        meta = None if directory is None else directory.meta
        return LocalReplica(
            tp,
            self._node_id,
            log_,
            self._settings(config),
            Surroundings(self.is_eligible, self._broker_epoch, self._is_leaving, self._knows_metadata_of),
            high_watermark=self._store.high_watermark(tp),
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

    def _knows_metadata_of(self, at_ms: int) -> bool:
        """All metadata committed by then is applied here, and every replica was told."""
        return self._metadata_until_ms() >= at_ms and not self.due.is_behind

    def _create(self, tp: TopicPartition, state: PartitionImage, topic_id: UUID, config: LogConfig) -> Log | None:
        """A new log, in the directory that metadata names, else in any online one. None: that directory is offline."""
        while not self._is_elsewhere(state):
            try:
                return self._store.create(tp, topic_id, config, self._chosen(tp, state))
            except PassingFailure as failure:
                log.warning("a replica is made later", partition=str(tp), why=str(failure))
                self.due.note_again(tp)
                return None
            except StorageFailure as failure:  # the directory went offline, and the cluster is told
                log.error("cannot create a replica", partition=str(tp), why=str(failure))
                if not self._store.online:
                    return None
        log.warning("a replica is in a log directory that is offline", partition=str(tp))
        return None

    def _chosen(self, tp: TopicPartition, state: PartitionImage) -> LogDir | None:
        """Directory for a new log: the requested one, else the one in metadata; None: the one with the fewest logs."""
        return self._moves.wished(tp) or self._online().get(state.directory_id_of(self._node_id))

    def _is_elsewhere(self, state: PartitionImage) -> bool:
        """The replica may be in an offline directory: do not create it again (KIP-858)."""
        assigned, online = state.directory_id_of(self._node_id), self._online()
        is_known = assigned not in (UNASSIGNED_DIRECTORY, LOST_DIRECTORY)
        return is_known and assigned not in online and len(online) < len(self._store.directories)

    def _online(self) -> dict[UUID, LogDir]:
        return {one.meta.directory_id: one for one in self._store.online if one.meta is not None}

    # -- directories ------------------------------------------------------------------------------------------------

    def take_offline(self, directory: LogDir) -> None:
        """A log directory failed: its replicas are neither led nor followed here; the others go on."""
        failure = directory.failure
        assert failure is not None
        for tp in directory.logs:
            partition = self._replicas.get(tp)
            if partition is not None:
                self._driver.on_storage_failed(partition, failure)

    def _remove(self, tp: TopicPartition) -> None:
        self._missing.pop(tp, None)
        self._replicas.offline.pop(tp, None)
        partition = self._replicas.get(tp)
        if partition is not None:
            self._driver.on_removed(partition)
        elif self._store.get(tp) is not None:  # it was to be opened still
            self._store.delete(tp)

    # -- what else changes ------------------------------------------------------------------------------------------

    def _note_configs(self, changed: Iterable[ConfigResource], image: MetadataImage) -> None:
        """A change of the brokers' settings concerns every replica here; each is told in its portion."""
        topics = {resource.name for resource in changed if resource.resource_type is ConfigResourceType.TOPIC}
        is_of_brokers = any(resource.resource_type is ConfigResourceType.BROKER for resource in changed)
        if is_of_brokers:
            node = image.config_of(ConfigResource(ConfigResourceType.BROKER, str(self._node_id)))
            cluster = image.config_of(ConfigResource(ConfigResourceType.BROKER, ""))
            self._config = self._static_config.overridden(node, cluster)
            self._topic_configs.clear()
        here = [partition.topic_partition for partition in self._replicas]
        self.due.note([here if is_of_brokers else [tp for tp in here if tp.topic in topics]])

    def _configure(self, partition: Partition, config: TopicConfig) -> None:
        if config is not partition.config:
            partition.configure(config)
            effects = partition.replica.configure(self._settings(config), self._clock.monotonic_ms())
            self._driver.carry_out(partition, effects)

    def _topic_config(self, topic: str, image: MetadataImage) -> TopicConfig:
        """Topics of equal settings share them: mostly there are a few kinds of topics, and thousands of partitions."""
        overrides = image.topic_overrides(topic)
        key = tuple(sorted(overrides.items()))
        config = self._topic_configs.get(key)
        if config is None:
            if len(self._topic_configs) >= TOPIC_CONFIGS_MAX:
                self._topic_configs.clear()
            config = self._topic_configs[key] = TopicConfig(overrides, self._config)
        return config

    def _on_registered(self) -> None:
        """This node registered again, and goes on leading."""
        for partition in self._replicas:
            partition.replica.on_registered()


def _named(topic: TopicImage) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for index in sorted(topic.partitions)]
