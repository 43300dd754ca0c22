"""What committed metadata makes of the local replicas: created, led, followed, deleted (rows R9, R14, C2, C5).

A node that comes back replays the metadata log from where its disk has it, and on the way sees itself lead partitions
that others lead since. So nothing is acted on before its own new registration has been replayed: by then the controller
has taken every leadership of the former incarnation away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

import structlog

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.assignments import LOST_DIRECTORY, DirectoryAssignments
from minikafka.broker.drivers.moves import DirectoryMoves
from minikafka.broker.drivers.replication import ReplicaFetchers
from minikafka.broker.partition import Partition, log_config
from minikafka.broker.replicas import Replicas
from minikafka.config import BrokerConfig, TopicConfig
from minikafka.metadata.delta import MetadataDelta, difference
from minikafka.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage, PartitionImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.model import CLUSTER_METADATA_TOPIC, NO_NODE, UNASSIGNED_DIRECTORY, TopicPartition
from minikafka.replication.leader import LeaderState
from minikafka.storage.config import LogConfig
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore

log = structlog.get_logger(__name__)


class PartitionRoles:
    """Subscriber to metadata that gives each local replica its role. Runs to the end without suspending."""

    def __init__(
        self,
        config: BrokerConfig,
        store: LogStore,
        replicas: Replicas,
        fetchers: ReplicaFetchers,
        assignments: DirectoryAssignments,
        moves: DirectoryMoves,
        clock: Clock,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._static_config = config
        self._config = config
        self._node_id = config.node_id
        self._store = store
        self._replicas = replicas
        self._fetchers = fetchers
        self._assignments = assignments
        self._moves = moves
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._image: MetadataImage | None = None  # None until this node acts on metadata
        self.on_leading: Callable[[Partition], None] = lambda _partition: None
        self.on_leading_no_more: Callable[[TopicPartition], None] = lambda _where: None

    @property
    def has_begun(self) -> bool:
        """True once metadata is acted on."""
        return self._image is not None

    def begin(self, image: MetadataImage) -> None:
        """This incarnation's registration was replayed: take up the roles that the image gives this node."""
        self._remove_strays(image)
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
        for broker_id in delta.brokers:
            self._on_broker_changed(broker_id, delta)

    def _remove_strays(self, image: MetadataImage) -> None:
        """Logs of topics deleted, or moved away, while this node was down."""
        for log_ in list(self._store):
            where = log_.topic_partition
            if where.topic == CLUSTER_METADATA_TOPIC:
                continue
            topic = image.topic(where.topic)
            state = image.partition(where)
            if topic is None or topic.topic_id != log_.topic_id or state is None or self._node_id not in state.replicas:
                log.info("removing a log that is no longer placed here", partition=str(where))
                self._store.delete(where)

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
        if partition is None or partition.is_failed:
            return
        self._report_directory(partition, state)
        if state.leader == self._node_id:
            self._lead(partition, state)
        else:
            self._follow(partition, state)

    def _open(self, where: TopicPartition, state: PartitionImage, image: MetadataImage) -> Partition | None:
        topic = image.topic(where.topic)
        assert topic is not None
        config = TopicConfig(image.topic_overrides(where.topic), self._config)
        log_ = self._store.get(where)
        if log_ is not None and log_.topic_id != topic.topic_id:
            self._store.delete(where)
            log_ = None
        if log_ is None:
            log_ = self._create(where, state, topic.topic_id, log_config(config))
        if log_ is None or log_.is_offline:
            self._replicas.offline[where] = None
            return None
        partition = Partition(where, topic.topic_id, log_, config, self._store.high_watermark(where))
        self._replicas.offline.pop(where, None)
        self._replicas.add(partition)
        return partition

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
            if partition is None:
                continue
            self._fetchers.unfollow([where])
            self._replicas.fail(partition, failure)
            if partition.leader is not None:
                self.on_leading_no_more(where)

    def on_moved(self, partition: Partition) -> None:
        """A replica is in another directory from now on."""
        state = None if self._image is None else self._image.partition(partition.topic_partition)
        if state is not None:
            self._report_directory(partition, state)

    def look_for_damage(self) -> None:
        """A replica in the ISR was found damaged while it was read: others shall lead, and it be fetched again.

        Like a replica in a lost directory it cannot lead or be in sync. Not when there is no other: what is left of it
        is better than nothing.
        """
        for partition in self._replicas:
            if partition.log.corruption is not None and not partition.is_failed and self._image is not None:
                state = self._image.partition(partition.topic_partition)
                if state is not None:
                    self._report_directory(partition, state)

    def _report_directory(self, partition: Partition, state: PartitionImage) -> None:
        directory = self._store.directory_of(partition.topic_partition)
        if directory is None or directory.meta is None:
            return
        told, actual = state.directory_of(self._node_id), directory.meta.directory_id
        complete = (*state.isr, *state.elr)
        if partition.log.corruption is not None and self._node_id in complete:
            actual = LOST_DIRECTORY if len(complete) > 1 and not partition.is_refetching else actual
        if told != actual and (
            told != UNASSIGNED_DIRECTORY or len(self._store.directories) > 1 or actual == LOST_DIRECTORY
        ):
            self._assignments.report(partition.topic_partition, partition.topic_id, actual)

    def _lead(self, partition: Partition, state: PartitionImage) -> None:
        now_ms = self._clock.monotonic_ms()
        where = partition.topic_partition
        if partition.leader is not None and partition.leader_epoch == state.leader_epoch:
            moved = partition.leader.on_metadata(state.isr, state.partition_epoch, state.replicas, now_ms)
            self._replicas.on_isr_changed(partition, high_watermark_moved=moved)
            return
        self._fetchers.unfollow([where])
        log_ = partition.log
        log_.begin_epoch(state.leader_epoch)
        leader = LeaderState(
            where,
            self._node_id,
            state.leader_epoch,
            leader_epoch_start_offset=log_.log_end_offset,
            replicas=state.replicas,
            isr=state.isr,
            partition_epoch=state.partition_epoch,
            high_watermark=partition.high_watermark,
            log_end_offset=log_.log_end_offset,
            lag_time_max_ms=self._config.replica_lag_time_max_ms,
            now_ms=now_ms,
            min_insync_replicas=partition.config.min_insync_replicas,
            local_broker_epoch=self._broker_epoch(),
            is_eligible=self.is_eligible,
        )
        partition.become_leader(leader, self._node_id)
        log.info("leads", partition=str(where), epoch=state.leader_epoch, log_end_offset=log_.log_end_offset)
        self._replicas.release_waiting(where)
        self.on_leading(partition)

    def _follow(self, partition: Partition, state: PartitionImage) -> None:
        """Row R14: no longer lead, refuse produce, stop fetching, answer who waits, fetch from the new leader.

        Not from there on if this node is on its way out: let out of the ISR, its copy is nobody's hope any more.
        """
        where = partition.topic_partition
        if partition.leader is None and partition.leader_epoch == state.leader_epoch:
            self._maybe_end_refetch(partition, state)
            if self._must_refetch(partition, state) and state.leader != NO_NODE:
                self._fetchers.unfollow([where])
                self._maybe_begin_refetch(partition, state)
                self._fetchers.follow(partition)
            return
        led = partition.leader is not None
        partition.become_follower(state.leader, state.leader_epoch)
        self._fetchers.unfollow([where])
        self._replicas.release_waiting(where)
        if led:
            log.info("leads no longer", partition=str(where), leader=state.leader, epoch=state.leader_epoch)
            self.on_leading_no_more(where)
        if state.leader != NO_NODE and not self._is_leaving(state):
            self._maybe_begin_refetch(partition, state)
            self._fetchers.follow(partition)

    def _is_leaving(self, state: PartitionImage) -> bool:
        broker = None if self._image is None else self._image.broker(self._node_id)
        return broker is not None and broker.in_controlled_shutdown and self._node_id not in state.isr

    def _maybe_begin_refetch(self, partition: Partition, state: PartitionImage) -> None:
        """Damaged bytes were found: fetch everything from there on again. Not while others may count on this copy."""
        damage = partition.log.corruption
        if damage is None or not self._must_refetch(partition, state):
            return
        partition.is_refetching = True
        log.warning(
            "refetching from where the log is damaged", partition=str(partition.topic_partition), why=str(damage)
        )
        partition.log.truncate_to(damage.offset)
        partition.follow_high_watermark(partition.high_watermark)

    def _must_refetch(self, partition: Partition, state: PartitionImage) -> bool:
        is_damaged = partition.log.corruption is not None and not partition.is_refetching
        return is_damaged and self._node_id not in (*state.isr, *state.elr)

    def _maybe_end_refetch(self, partition: Partition, state: PartitionImage) -> None:
        """In the ISR again: whatever was damaged has been replaced."""
        if partition.is_refetching and partition.log.corruption is not None and self._node_id in state.isr:
            partition.log.refetched()
            partition.is_refetching = False
            log.info("the log is whole again", partition=str(partition.topic_partition))

    def _remove(self, partitions: Iterable[TopicPartition]) -> None:
        for where in partitions:
            self._fetchers.unfollow([where])
            self._assignments.forget(where)
            self._replicas.offline.pop(where, None)
            partition = self._replicas.remove(where)
            if partition is not None:
                if partition.leader is not None:
                    self.on_leading_no_more(where)
                self._store.delete(where)

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
            if topic not in topics:
                continue
            partition.configure(TopicConfig(image.topic_overrides(topic), self._config))
            if partition.leader is not None:
                moved = partition.leader.set_min_insync_replicas(partition.config.min_insync_replicas, now_ms)
                self._replicas.on_isr_changed(partition, high_watermark_moved=moved)

    def _on_broker_changed(self, broker_id: int, delta: MetadataDelta) -> None:
        """A leader that registered again may be reached elsewhere; a replica that is live again may join now."""
        if broker_id == self._node_id:
            epoch = self._broker_epoch()
            for partition in self._replicas:
                if partition.leader is not None:
                    partition.leader.local_broker_epoch = epoch
