"""The data half of a node: logs, replicas and their roles, fetchers, syncs, maintenance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minikafka.broker.control_plane import METADATA_LOG_CONFIG, ControlPlane
from minikafka.broker.drivers.assignments import DirectoryAssignments
from minikafka.broker.drivers.isr import IsrProposals
from minikafka.broker.drivers.moves import DirectoryMoves
from minikafka.broker.drivers.partitions import PartitionRoles
from minikafka.broker.drivers.replica import ReplicaDriver
from minikafka.broker.drivers.replication import FetcherParts, ReplicaFetchers
from minikafka.broker.drivers.strays import Strays
from minikafka.broker.drivers.synced_topics import SyncedTopics
from minikafka.broker.drivers.verifications import Verifications
from minikafka.broker.log_jobs import LogJobs
from minikafka.broker.losses import Losses
from minikafka.broker.maintenance import Maintenance
from minikafka.broker.partition import log_config
from minikafka.broker.ports import Ports
from minikafka.broker.quotas import ReplicationQuotas
from minikafka.broker.replicas import Replicas
from minikafka.config import TopicConfig
from minikafka.metadata.effective import broker_config
from minikafka.model import METADATA_PARTITION, TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore


@dataclass(frozen=True, slots=True)
class DataPlane:
    """Its parts, by what they are to the node."""

    store: LogStore
    replicas: Replicas
    jobs: LogJobs
    driver: ReplicaDriver
    fetchers: ReplicaFetchers
    quotas: ReplicationQuotas
    assignments: DirectoryAssignments
    moves: DirectoryMoves
    roles: PartitionRoles
    synced_topics: SyncedTopics
    isr: IsrProposals
    maintenance: Maintenance


def open_store(ports: Ports, on_failure: Callable[[LogDir, StorageFailure], None]) -> LogStore:
    """Open and recover every log; ``on_failure`` is called for a directory that fails. MetaError, StorageFailure."""
    unaltered = TopicConfig({}, ports.config)

    def config_for(tp: TopicPartition) -> LogConfig:
        return METADATA_LOG_CONFIG if tp == METADATA_PARTITION else log_config(unaltered)

    return LogStore.open(
        ports.disk,
        ports.config.log_dirs,
        node_id=ports.config.node_id,
        cluster_id=ports.cluster_id,
        new_uuid=ports.new_uuid,
        boot_id=ports.boot_id,
        config_for=config_for,
        on_failure=on_failure,
        open_segments=ports.descriptors.segments,
    )


def build_data_plane(ports: Ports, store: LogStore, control: ControlPlane) -> DataPlane:
    """Replicas of the logs in ``store``; metadata gives them their roles later."""
    config, clock, metadata = ports.config, ports.clock, control.metadata

    def broker_epoch() -> int:
        return control.lifecycle.broker_epoch

    def move_rate() -> int:
        return broker_config(metadata.image, config).replica_alter_log_dirs_io_max_bytes_per_second

    def producer_expiration_ms() -> int:
        return broker_config(metadata.image, config).producer_id_expiration_ms

    def is_known(tp: TopicPartition) -> bool:
        return metadata.image.partition(tp) is not None

    replicas = Replicas(config.node_id, clock, ports.timers, is_known)
    jobs = LogJobs(clock, ports.tasks, ports.threads.sync)
    quotas = ReplicationQuotas(config, clock)
    fetchers = ReplicaFetchers(
        FetcherParts(
            config,
            replicas,
            ports.identity,
            clock,
            ports.tasks,
            jobs,
            quotas,
            control.endpoint_of,
            broker_epoch,
            control.liveness.doubt,
        )
    )
    assignments = DirectoryAssignments(config.node_id, control.client, broker_epoch, ports.rng)
    isr = IsrProposals(config.node_id, replicas, control.client, clock, broker_epoch, ports.rng)
    losses = Losses(ports.disk, store, clock, ports.tasks, ports.threads.upkeep)
    verifications = Verifications(ports.tasks, ports.threads.read)
    driver = ReplicaDriver(replicas, fetchers, jobs, store, assignments, clock, isr.propose, losses, verifications)
    moves = DirectoryMoves(store, replicas, jobs, move_rate, ports.threads.upkeep, ports.threads.sync)
    strays = Strays(config.node_id, store, config.log_stray_retention_ms, ports.tasks)
    roles = PartitionRoles(
        config,
        store,
        replicas,
        driver,
        moves,
        strays,
        clock,
        broker_epoch,
        control.raft.known_until_ms,
        ports.tasks,
        ports.threads.sync,
        ports.on_fatal,
    )
    jobs.events = driver
    verifications.on_done = driver.look_at
    moves.on_moved, moves.on_lost = driver.on_moved, driver.on_storage_failed
    replicas.carry_out = driver.carry_out
    replicas.on_storage_failed = driver.on_storage_failed
    return DataPlane(
        store,
        replicas,
        jobs,
        driver,
        fetchers,
        quotas,
        assignments,
        moves,
        roles,
        SyncedTopics(config, control.registrations, replicas, jobs, roles.due.wait_all_told, ports.threads.sync),
        isr,
        Maintenance(config, replicas, driver, jobs, store, clock, ports.threads.upkeep, producer_expiration_ms),
    )
