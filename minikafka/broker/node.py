"""The composition root: one node, made of its parts and wired together here and nowhere else.

Clock, randomness and disk are handed in; sockets are the event loop's. So the same node runs on uvloop and on a loop
with virtual time. Start-up order: recover logs, load the metadata snapshot, listen, join the quorum, register; serve
when unfenced. Shut-down order: move leaderships away, resign, stop listening, stop tasks, write checkpoints.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import structlog

from minikafka.broker import descriptors
from minikafka.broker.absences import Absences
from minikafka.broker.clock import Clock
from minikafka.broker.dispatch import Dispatcher
from minikafka.broker.drivers.controller import ControllerDriver
from minikafka.broker.drivers.controller_client import METHOD as CONTROLLER_METHOD
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.drivers.isr import IsrProposals
from minikafka.broker.drivers.lifecycle import Lifecycle
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.drivers.metadata_log import MetadataLog, batch_spans
from minikafka.broker.drivers.partitions import PartitionRoles
from minikafka.broker.drivers.raft import METHOD as RAFT_METHOD
from minikafka.broker.drivers.raft import RaftDriver
from minikafka.broker.drivers.replication import ReplicaFetchers
from minikafka.broker.flusher import Flusher
from minikafka.broker.handlers import tables
from minikafka.broker.handlers.metadata import TopicEncodings
from minikafka.broker.handlers.produce import PendingProduce
from minikafka.broker.logs import one_line
from minikafka.broker.maintenance import Maintenance
from minikafka.broker.partition import log_config
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.replicas import Replicas
from minikafka.broker.timers import Timers
from minikafka.broker.topic_creation import TopicCreation
from minikafka.config import BrokerConfig, TopicConfig
from minikafka.config.node import CLIENT, CONTROLLER, REPLICATION
from minikafka.errors import KafkaError
from minikafka.metadata.controller.controller import Controller
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.effective import broker_config
from minikafka.metadata.image import MetadataImage
from minikafka.model import CLUSTER_METADATA_TOPIC, CLUSTER_METADATA_TOPIC_ID, Endpoint, TopicPartition
from minikafka.net.control import ControlLink, ControlServer, is_refused
from minikafka.net.identity import Identity
from minikafka.net.listener import Listener, ListenerLimits
from minikafka.net.tasks import TaskOwner
from minikafka.raft import RaftConfig, RaftNode, VoterSet
from minikafka.replication.session_cache import FetchSessionCache
from minikafka.storage.config import NEVER, UNLIMITED, LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.meta import MetaError
from minikafka.wire.control import CONTROL_FRAME_SIZE_MAX
from minikafka.wire.hot import ProduceResponses

log = structlog.get_logger(__name__)

METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
METADATA_LOG_CONFIG: Final = LogConfig(retention_ms=UNLIMITED, retention_bytes=UNLIMITED, segment_ms=NEVER)
CONTROLLED_SHUTDOWN_TIMEOUT_S: Final = 5.0


class Node:
    """Broker and controller in one process. :meth:`start`, wait for ``stopped``, :meth:`stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster_id: str,
        secret: bytes,
        disk: Disk,
        clock: Clock,
        rng: random.Random,
        nonce: Callable[[], bytes] = lambda: os.urandom(32),
    ) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self.clock = clock
        self.failure: BaseException | None = None
        self.stopped = asyncio.Event()
        self.produced: list[PendingProduce] = []
        self.produce_responses = ProduceResponses()
        self.topic_encodings = TopicEncodings()
        self._rng = rng
        self._disk = disk
        self._loop = asyncio.get_running_loop()
        self._descriptors = descriptors.shares(descriptors.limit())
        self.identity = Identity(cluster_id, config.node_id, secret, nonce)
        self.tasks = TaskOwner(f"node-{config.node_id}", self._on_task_failure)
        self.timers = Timers(clock, self._loop)
        self.store = self._open_store()
        self.replicas = Replicas(config.node_id, clock, self.timers)
        self._links = {
            peer_id: ControlLink(self.identity, peer_id, endpoint)
            for peer_id, endpoint in config.voters.items()
            if peer_id != config.node_id
        }
        self._build_metadata()
        self._build_replication()
        self._build_service()
        self._wire()

    # -- building ---------------------------------------------------------------------------------------------------

    def _open_store(self) -> LogStore:
        overrides = TopicConfig({}, self.config)

        def config_for(where: TopicPartition) -> LogConfig:
            return METADATA_LOG_CONFIG if where == METADATA_PARTITION else log_config(overrides)

        return LogStore.open(
            self._disk,
            self.config.log_dirs,
            node_id=self.config.node_id,
            cluster_id=self.cluster_id,
            new_uuid=self._new_uuid,
            config_for=config_for,
            on_failure=self._on_directory_failure,
        )

    def _build_metadata(self) -> None:
        config = self.config
        log_ = self.store.get(METADATA_PARTITION)
        if log_ is None:
            log_ = self.store.create(METADATA_PARTITION, CLUSTER_METADATA_TOPIC_ID, METADATA_LOG_CONFIG)
        metadata_log = MetadataLog(log_.directory, log_, self._disk, self._run_in_thread, self.clock.wall_ms)
        summary, election, must_repair = metadata_log.recover()
        machine = RaftNode(
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            voters=VoterSet(config.voters),
            rng=self._rng,
            batch_spans=batch_spans,
            log=summary,
            election=election,
            config=RaftConfig(
                election_timeout_ms=config.controller_quorum_election_timeout_ms,
                fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
                election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
                retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
                request_timeout_ms=config.controller_quorum_request_timeout_ms,
                fetch_max_wait_ms=min(500, config.controller_quorum_fetch_timeout_ms // 2),
            ),
            vote_disabled=must_repair,
        )
        self._raft = RaftDriver(machine, metadata_log, self._links, self.clock, self.tasks, self._on_fatal)
        self.metadata = Metadata(metadata_log)
        self._controller_driver = ControllerDriver(
            config.node_id,
            Controller(
                config.node_id,
                self.cluster_id,
                config,
                self._rng,
                replicas_per_broker_max=self._descriptors.replicas,
            ),
            self._raft,
            self.metadata,
            self.clock,
            self.tasks,
        )
        self.controller = ControllerClient(
            config.node_id, self._controller_driver, self._links, lambda: self._raft.leader_id, self._rng
        )

    def _build_replication(self) -> None:
        config = self.config
        self._lifecycle = Lifecycle(
            config,
            self.cluster_id,
            self._new_uuid(),
            self._advertised,
            self.controller,
            lambda: self.metadata.applied_offset - 1,
            self._rng,
        )
        flusher = Flusher(self.clock, self.tasks, self._run_in_thread, self.replicas.on_flushed, self.replicas.fail)
        self.replicas.request_flush = flusher.request
        self._fetchers = ReplicaFetchers(
            config,
            self.replicas,
            self.identity,
            self.clock,
            self.tasks,
            flusher,
            self._replication_endpoint,
            lambda: self._lifecycle.broker_epoch,
        )
        self.absences = Absences(config.node_id, self.tasks, is_refused)
        self._fetchers.on_connection_lost = self.absences.on_connection_lost
        self._roles = PartitionRoles(
            config, self.store, self.replicas, self._fetchers, self.clock, lambda: self._lifecycle.broker_epoch
        )
        self._isr = IsrProposals(
            config.node_id, self.replicas, self.controller, self.clock, lambda: self._lifecycle.broker_epoch, self._rng
        )
        self._maintenance = Maintenance(config, self.replicas, self.store, self.clock, self._run_in_thread)

    def _build_service(self) -> None:
        config = self.config
        self.groups = Groups(
            config,
            self.replicas,
            self.clock,
            self.timers,
            self.tasks,
            lambda: str(self._new_uuid()),
            lambda: self.image,
        )
        self.fetch_sessions = FetchSessionCache(
            self._rng, self._topic_name, max_slots=config.max_incremental_fetch_session_cache_slots
        )
        self.topic_creation = TopicCreation(config, self.controller, self.metadata)
        self.producer_ids = ProducerIds(config.node_id, self.controller, lambda: self._lifecycle.broker_epoch)
        limits = ListenerLimits(
            max_connections=min(config.max_connections, self._descriptors.clients),
            max_frame_bytes=config.socket_request_max_bytes,
            idle_timeout_s=config.connections_max_idle_ms / 1000,
        )
        peer_limits = replace(limits, max_connections=self._descriptors.peers, is_for_peers=True)
        control = ControlServer(
            self.identity,
            {RAFT_METHOD: self._raft.handle_call, CONTROLLER_METHOD: self._controller_driver.handle_call},
            self.tasks,
            self._controller_driver.on_peer_lost,
        )
        clients = Dispatcher(self, tables.CLIENT_HANDLERS, tables.CLIENT_DIRECT)
        followers = Dispatcher(
            self,
            tables.REPLICATION_HANDLERS,
            tables.REPLICATION_DIRECT,
            open_to_strangers=tables.REPLICATION_OPEN,
        )
        control_limits = replace(peer_limits, max_frame_bytes=CONTROL_FRAME_SIZE_MAX)
        self._listeners = [
            Listener(CONTROLLER, config.listeners[CONTROLLER], control, control_limits),
            Listener(REPLICATION, config.listeners[REPLICATION], followers, peer_limits),
            Listener(CLIENT, config.listeners[CLIENT], clients, limits),
        ]

    def _wire(self) -> None:
        """Who hears of what."""
        raft, controller = self._raft, self._controller_driver
        raft.on_high_watermark = self.metadata.advance
        raft.on_snapshot_installed = self.metadata.install
        raft.on_became_leader = controller.on_became_leader
        raft.on_lost_leadership = controller.on_lost_leadership
        raft.on_leader_changed = self._lifecycle.nudge
        controller.on_active = self._lifecycle.nudge
        self.replicas.on_isr_proposal = self._isr.propose
        self.replicas.is_known = lambda where: self.image.partition(where) is not None
        self._roles.on_leading = self.groups.on_leading
        self._roles.on_leading_no_more = self.groups.on_leading_no_more
        self._lifecycle.on_fatal = self._on_fatal
        self._lifecycle.on_registered = self._maybe_take_up_roles
        for subscriber in (
            self.absences.on_metadata,
            self._roles.apply,
            controller.on_metadata,
            self.groups.on_metadata,
            self._on_metadata,
        ):
            self.metadata.subscribe(subscriber)

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen and join the cluster; returns before the node is unfenced. OSError when a port is taken."""
        self.metadata.load_latest_snapshot()
        for listener in self._listeners:
            await listener.bind()
        for listener in self._listeners[:-1]:
            await listener.serve()
        self._raft.start()
        self.tasks.start(self._controller_driver.run(), "controller")
        self.tasks.start(self._isr.run(), "isr")
        self.tasks.start(self._snapshot_forever(), "snapshots")
        self._maintenance.start(self.tasks)
        self.tasks.start(self._lifecycle.run(), "lifecycle")
        log.info("started", listeners={listener.name: str(listener.endpoint) for listener in self._listeners})

    async def stop(self) -> None:
        """An orderly end: leaderships move first, then everything is made durable and marked clean."""
        is_member = self._lifecycle.broker_epoch >= 0  # a start that failed has nothing to hand over
        if self.config.controlled_shutdown_enable and is_member and self.failure is None:
            await self._leave_cluster()
        for listener in self._listeners:
            await listener.close()
        self._raft.close()
        self.timers.close()
        await self.tasks.close()
        for link in self._links.values():
            link.close()
        if self.failure is None:
            self.store.close(self._maintenance.high_watermarks(), broker_epoch=self._lifecycle.broker_epoch)
        else:
            self.store.abandon()
        log.info("stopped")

    async def _leave_cluster(self) -> None:
        self._lifecycle.begin_shutdown()
        watch = self.tasks.start(self._watch_quorum(), "quorum watch")
        try:
            async with asyncio.timeout(CONTROLLED_SHUTDOWN_TIMEOUT_S):
                await self._lifecycle.may_shut_down.wait()
                await self._raft.resign()
        except TimeoutError:
            log.warning("leaving without the controller's word: it did not answer in time")
        finally:
            watch.cancel()

    async def _watch_quorum(self) -> None:
        """Nobody can give leave once most of the quorum is gone: the whole cluster is being stopped."""
        majority = len(self.config.voters) // 2 + 1
        while True:
            gone = [await is_refused(link.endpoint) for link in self._links.values()]
            if len(self.config.voters) - sum(gone) < majority:
                log.info("leaving: most of the quorum is gone")
                self._lifecycle.may_shut_down.set()
            await asyncio.sleep(0.1)

    # -- what handlers ask ------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The cluster as this node has applied it."""
        return self.metadata.image

    def effective_config(self) -> BrokerConfig:
        """This node's settings with the dynamic ones on top."""
        return broker_config(self.image, self.config)

    def controller_id_for_clients(self) -> int:
        """A live node that carries out or forwards admin requests: the active controller if it is live, else this."""
        leader_id = self._raft.leader_id
        if leader_id is not None and self.image.is_live(leader_id):
            return leader_id
        return self.config.node_id

    def new_future(self) -> asyncio.Future[Any]:
        """A future of this node's loop."""
        return self._loop.create_future()

    def on_read_event_end(self) -> None:
        """A connection's frames were handled: write what they staged, then answer."""
        self.replicas.commit_staged()
        if self.produced:
            produced, self.produced = self.produced, []
            for pending in produced:
                pending.on_written()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _on_metadata(self, delta: MetadataDelta) -> None:
        self._maybe_take_up_roles()
        if self._lifecycle.is_fenced:
            self._lifecycle.nudge()

    def _maybe_take_up_roles(self) -> None:
        registered_at = self._lifecycle.broker_epoch
        if not self._roles.has_begun and 0 <= registered_at < self.metadata.applied_offset:
            self._roles.begin(self.image)
            # Not before: what this node would tell clients of the cluster may be long out of date.
            self.tasks.start(self._listeners[-1].serve(), "serve-clients")

    async def _snapshot_forever(self) -> None:
        while True:
            await asyncio.sleep(5)
            snapshot = await self.metadata.maybe_snapshot(self._raft.machine.log.flushed_offset)
            if snapshot is not None:
                self._raft.on_snapshot_created(snapshot)

    def _advertised(self) -> dict[str, Endpoint]:
        """Where others reach this broker; a listener that took any free port is reached at the one it was given."""
        given = self.config.advertised
        bound = {listener.name: listener.endpoint for listener in self._listeners if listener.name != CONTROLLER}
        return {name: Endpoint(given[name].host, given[name].port or at.port) for name, at in bound.items()}

    def _replication_endpoint(self, node_id: int) -> Endpoint | None:
        broker = self.image.broker(node_id)
        return None if broker is None else broker.listeners.get(REPLICATION)

    def _topic_name(self, topic_id: UUID) -> str | None:
        topic = self.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _new_uuid(self) -> UUID:
        return UUID(int=self._rng.getrandbits(128), version=4)

    def _run_in_thread(self, act: Callable[[], Any]) -> asyncio.Future[Any]:
        return self._loop.run_in_executor(None, act)

    def _on_task_failure(self, name: str, error: BaseException) -> None:
        log.error("a task failed", task=name, why=one_line(error), exc_info=error)
        if not isinstance(error, (KafkaError, OSError)):
            self._on_fatal(error)

    def _on_directory_failure(self, directory: LogDir, failure: StorageFailure) -> None:
        """The directory is offline and nothing in it was acknowledged since; the other replicas take over."""
        log.error("log directory offline", path=directory.path, why=str(failure))
        self._on_fatal(failure)

    def _on_fatal(self, error: BaseException) -> None:
        """Nothing good can come of going on: the process ends, and the cluster heals around it."""
        if self.failure is None:
            self.failure = error
            log.critical("the node stops", why=one_line(error))
            self.stopped.set()


__all__ = ["MetaError", "Node"]
