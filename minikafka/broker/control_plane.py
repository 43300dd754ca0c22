"""The control half of a node: metadata quorum, controller, metadata, registration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from minikafka.broker.client_quotas import ClientQuotas
from minikafka.broker.drivers.controller import ControllerDriver
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.lifecycle import Lifecycle
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.drivers.metadata_batches import batch_spans
from minikafka.broker.drivers.metadata_copies import find_metadata_log
from minikafka.broker.drivers.metadata_log import MetadataLog
from minikafka.broker.drivers.metadata_recovery import mark_missing
from minikafka.broker.drivers.raft import RaftDriver
from minikafka.broker.first_users import first_records
from minikafka.broker.liveness import Liveness
from minikafka.broker.ports import Ports
from minikafka.config import BrokerConfig
from minikafka.config.node import REPLICATION
from minikafka.metadata.controller.controller import Controller
from minikafka.model import CLUSTER_METADATA_TOPIC_ID, METADATA_PARTITION, Endpoint
from minikafka.net.control import ControlLink
from minikafka.net.probe import is_refused
from minikafka.raft import Core, RaftConfig, RaftNode, VoterSet
from minikafka.storage.config import NEVER, UNLIMITED, LogConfig
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import Registrations

METADATA_LOG_CONFIG: Final = LogConfig(
    retention_ms=UNLIMITED, retention_bytes=UNLIMITED, segment_ms=NEVER, notes_durable_end=True
)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Its parts, by what they are to the node."""

    links: dict[int, ControlLink]
    """To every other voter."""
    raft: RaftDriver
    metadata: Metadata
    """The committed metadata."""
    controller: ControllerDriver
    """Active while this node leads the quorum."""
    client: ControllerClient
    """Calls the active controller, wherever it is."""
    lifecycle: Lifecycle
    registrations: Registrations
    """The registration files of the log directories."""
    client_quotas: ClientQuotas
    liveness: Liveness
    """Probes whether other nodes' processes are alive."""

    def endpoint_of(self, broker_id: int) -> Endpoint | None:
        """Where other nodes reach a broker; None for one that is not registered."""
        broker = self.metadata.image.broker(broker_id)
        return None if broker is None else broker.listeners.get(REPLICATION)


def build_control_plane(ports: Ports, store: LogStore, advertised: Callable[[], dict[str, Endpoint]]) -> ControlPlane:
    """Recover the metadata log from ``store`` and build the rest. ``advertised``: addresses for the registration."""
    config = ports.config
    links = {
        peer_id: ControlLink(ports.identity, peer_id, endpoint)
        for peer_id, endpoint in config.voters.items()
        if peer_id != config.node_id
    }
    metadata_log = _open_metadata_log(ports, store)
    raft_node = _raft_node(ports, metadata_log, has_registered=store.has_registered)
    metadata = Metadata(metadata_log)
    liveness = Liveness(partial(_endpoint_of, config, metadata), ports.tasks, is_refused)
    raft = RaftDriver(
        raft_node, metadata_log, metadata, links, ports.clock, ports.tasks, ports.on_fatal, liveness.doubt
    )
    machine = Controller(
        config.node_id,
        ports.cluster_id,
        config,
        ports.rng,
        replicas_per_broker_max=ports.descriptors.replicas,
        first_records=partial(first_records, ports.first_users, ports.identity.nonce),
    )
    quotas = ClientQuotas(config, ports.clock)
    controller = ControllerDriver(
        config.node_id, machine, raft, metadata, ports.clock, ports.tasks, quotas, liveness.doubt
    )
    client = ControllerClient(config.node_id, controller, links, lambda: raft.leader_id, ports.rng)
    registrations = Registrations(ports.disk, store, ports.boot_id)
    lifecycle = Lifecycle(
        config,
        ports.cluster_id,
        ports.new_uuid(),
        advertised,
        client,
        lambda: metadata.applied_offset - 1,
        ports.rng,
        registrations,
        ports.threads.sync,
        ports.on_fatal,
    )
    return ControlPlane(links, raft, metadata, controller, client, lifecycle, registrations, quotas, liveness)


def _endpoint_of(config: BrokerConfig, metadata: Metadata, node_id: int) -> Endpoint | None:
    """Address to probe for a node's process: the port that opens first, if it is known."""
    broker = metadata.image.broker(node_id)
    registered = None if broker is None else broker.listeners.get(REPLICATION)
    return config.voters.get(node_id, registered)


def _open_metadata_log(ports: Ports, store: LogStore) -> MetadataLog:
    log = find_metadata_log(ports.disk, store)
    if log is None:
        first = store.directories[0]  # as in Kafka, where nothing else is said
        failures = [directory.failure for directory in store.directories if directory.failure is not None]
        if failures:
            raise StorageFailure(f"the metadata log may be in a log directory that is offline: {failures[0].message}")
        if _is_alone(ports):
            _refuse_unusable(store)
        store.set_unusable_aside(METADATA_PARTITION)
        if store.has_registered or METADATA_PARTITION in store.missing():
            mark_missing(ports.disk, first.path_of(METADATA_PARTITION), store.left_out)
        log = store.create(METADATA_PARTITION, CLUSTER_METADATA_TOPIC_ID, METADATA_LOG_CONFIG, first)
    if log.failure is not None:
        raise log.failure
    threads = ports.threads
    return MetadataLog(log.directory, log, ports.disk, threads.metadata, threads.upkeep, ports.clock.wall_ms)


def _refuse_unusable(store: LogStore) -> None:
    """StorageFailure when the metadata log of the only voter cannot be opened. The log stays in place."""
    why = store.unusable().get(METADATA_PARTITION)
    if why is not None:
        raise StorageFailure(
            f"the metadata log of the only voter cannot be opened, and no other voter can repair it: {why}. It was "
            "left as it is: mend the disk, copy the log directory to another one, or restore it from a backup, then "
            "start this node again",
            remedy="",
        )


def _is_alone(ports: Ports) -> bool:
    return set(ports.config.voters) == {ports.config.node_id}


def _raft_node(ports: Ports, metadata_log: MetadataLog, *, has_registered: bool) -> RaftNode:
    is_alone = _is_alone(ports)
    is_voter = ports.config.node_id in ports.config.voters
    summary, election, must_repair = metadata_log.recover(
        is_alone=is_alone, is_voter=is_voter, has_registered=has_registered
    )
    core = Core(
        node_id=ports.config.node_id,
        cluster_id=ports.cluster_id,
        voters=VoterSet(ports.config.voters),
        rng=ports.rng,
        batch_spans=batch_spans,
        log=summary,
        election=election,
        config=_raft_config(ports.config),
        vote_disabled=must_repair,
        is_new=metadata_log.is_new,
    )
    return RaftNode(core)


def _raft_config(config: BrokerConfig) -> RaftConfig:
    return RaftConfig(
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        fetch_max_wait_ms=min(500, config.controller_quorum_fetch_timeout_ms // 2),
    )
