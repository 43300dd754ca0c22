"""The composition root: all wiring of one node is here.

Its inputs are ``ports``. Its parts are in three groups: ``control_plane`` for metadata and the controller,
``data_plane`` for records, ``services`` for clients. Start: recover logs, load the metadata snapshot, listen, join the
quorum, register, and serve once unfenced. Stop: move leaderships away, resign, stop listening, stop tasks, write
checkpoints.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from typing import Final

from minikafka.broker import descriptors
from minikafka.broker.absences import Absences
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.clock import Clock
from minikafka.broker.control_plane import build_control_plane
from minikafka.broker.data_plane import build_data_plane, open_store
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.drivers.metadata_log import DamagedMetadataLogError
from minikafka.broker.drivers.transactions import Transactions
from minikafka.broker.faults.switchboard import Faults
from minikafka.broker.first_users import FirstUser
from minikafka.broker.key_change import KeyChange
from minikafka.broker.listeners import build_listeners
from minikafka.broker.logs import one_line
from minikafka.broker.metrics.collect import Sources
from minikafka.broker.metrics.endpoint import MetricsEndpoint
from minikafka.broker.metrics.isr_changes import IsrChanges
from minikafka.broker.metrics.loop_lag import LoopLag
from minikafka.broker.metrics.transactions import TransactionSources
from minikafka.broker.partition import Partition
from minikafka.broker.peers import Peers
from minikafka.broker.ports import Ports
from minikafka.broker.services import build_parts
from minikafka.broker.supervision import supervised
from minikafka.broker.threads import Threads, run_job
from minikafka.broker.timers import Timers
from minikafka.broker.tls import Tls
from minikafka.broker.topic_encodings import TopicEncodings
from minikafka.config import BrokerConfig
from minikafka.config.node import CONTROLLER
from minikafka.errors import KafkaError
from minikafka.event_log import get_logger
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import MetadataImage
from minikafka.metrics.requests import Requests
from minikafka.model import METADATA_PARTITION, Endpoint, TopicPartition
from minikafka.net.identity import Identity, plain
from minikafka.net.tasks import TaskOwner
from minikafka.storage.disk import Disk
from minikafka.storage.errors import DISK_REMEDY, StorageFailure
from minikafka.storage.log_dir import LogDir
from minikafka.storage.meta import MetaError

log = get_logger()

CONTROLLED_SHUTDOWN_TIMEOUT_S: Final = 5.0
HANDOVER_TIMEOUT_MS: Final = 1_000  # in-sync replicas are milliseconds behind
SNAPSHOT_CHECK_INTERVAL_S: Final = 5.0


class AbortedError(Exception):
    """The node is to end as if killed."""


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
        boot_id: str | None = None,
        tls: Tls | None = None,
        first_users: tuple[FirstUser, ...] = (),
        faults: Faults | None = None,
    ) -> None:
        """Open and recover the logs.

        ``boot_id`` changes when the machine restarts: unsynced writes of another boot may be lost. None: unknown.
        Raises MetaError or StorageFailure when the logs cannot be used, PassingFailure or OSError for a shortage. No
        log directory is locked then.
        """
        self.config = config
        self.cluster_id = cluster_id
        self.clock = clock
        self.failure: BaseException | None = None
        self.stopped = asyncio.Event()
        self._unforgotten: dict[LogDir, None] = {}  # directories that failed and may still have their registration
        self._is_made = False
        self._leaving: asyncio.Timeout | None = None  # ends what a stop waits for
        self.identity = Identity(cluster_id, config.node_id, secret, nonce, plain if tls is None else tls.dialling)
        self.tasks = TaskOwner(f"node-{config.node_id}", self._on_task_failure)
        self._loop = asyncio.get_running_loop()
        self.timers = Timers(clock, self._loop)
        self.threads = Threads(self._loop)
        ports = Ports(
            config=config,
            cluster_id=cluster_id,
            boot_id=boot_id,
            identity=self.identity,
            disk=disk,
            clock=clock,
            rng=rng,
            tasks=self.tasks,
            timers=self.timers,
            threads=self.threads,
            descriptors=descriptors.shares(descriptors.limit()),
            on_fatal=self._on_fatal,
            tls=tls,
            first_users=first_users,
            faults=faults,
        )
        self.store = open_store(ports, self._on_directory_failure)
        try:
            self._build(ports)
        except BaseException:  # a shortage, say: who begins again finds the log directories free
            self.store.abandon()
            raise
        self._is_made = True

    def _build(self, ports: Ports) -> None:
        """Build all parts on the logs."""
        self.control_plane = control = build_control_plane(ports, self.store, self._advertised)
        self.data_plane = data = build_data_plane(ports, self.store, control)
        self.parts = build_parts(ports, control, data)
        self.listeners = build_listeners(ports, control, self.parts)
        self.metadata, self.controller = control.metadata, control.client
        self.replicas, self.groups = data.replicas, self.parts.part(Groups)
        self.transactions = self.parts.part(Transactions)
        self.metrics = self._build_metrics(ports)
        self._wire()

    def _build_metrics(self, ports: Ports) -> MetricsEndpoint | None:
        if ports.config.metrics_listener is None:
            return None
        control, data = self.control_plane, self.data_plane
        isr_changes = IsrChanges(ports.config.node_id, lambda: data.roles.has_begun)
        self.metadata.subscribe(isr_changes.on_metadata)
        requests = self.parts.part(Requests)
        transactions = self.parts.part(TransactionSources)
        sources = Sources(control, data, self.groups, transactions, requests, self.listeners, isr_changes, LoopLag())
        return MetricsEndpoint(ports, ports.config.metrics_listener, sources)

    def _wire(self) -> None:
        """Connect events to their subscribers."""
        control, data, absences = self.control_plane, self.data_plane, self.parts.part(Absences)
        raft, controller, lifecycle = control.raft, control.controller, control.lifecycle
        raft.on_became_leader = controller.on_became_leader
        raft.on_lost_leadership = controller.on_lost_leadership
        raft.on_leader_changed = lifecycle.nudge
        controller.on_active = lifecycle.nudge
        lifecycle.on_registered = self._maybe_take_up_roles
        for on_gone in (raft.on_gone, controller.on_gone, absences.on_gone):
            control.liveness.subscribe(on_gone)
        data.driver.on_leading = self._on_leading
        data.driver.on_leading_no_more = self._on_leading_no_more
        self.metadata.prepare_by(self.parts.part(Authorizer).prepare)
        for subscriber in (
            absences.on_metadata,
            data.synced_topics.on_metadata,
            data.roles.apply,
            data.quotas.on_metadata,
            control.client_quotas.on_metadata,
            self.parts.part(KeyChange).on_metadata,
            self.listeners.on_metadata,
            self.parts.part(Authorizer).on_metadata,
            self.parts.part(TopicEncodings).on_metadata,
            controller.on_metadata,
            self.groups.on_metadata,
            self.transactions.on_metadata,
            self._on_metadata,
        ):
            self.metadata.subscribe(subscriber)

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen and join the cluster; returns before the node is unfenced. OSError when a port is taken."""
        control, data = self.control_plane, self.data_plane
        await self.metadata.load_latest_snapshot()
        for listener in self.listeners:
            await listener.bind()
        if self.metrics is not None:
            await self.metrics.start()
        await self.listeners.controller.serve()
        await self.listeners.replication.serve()
        control.raft.start()
        self._start_supervised(control.controller.run, "controller")
        self._start_supervised(data.isr.run, "isr")
        self._start_supervised(data.assignments.run, "directories")
        self._start_supervised(data.moves.run, "moves")
        self._start_supervised(data.synced_topics.run, "synced topics")
        self._start_supervised(self._snapshot_forever, "snapshots")
        for keys in self.listeners.token_keys:
            self._start_supervised(keys.run, "keys of tokens")
        data.maintenance.start(self.tasks)
        self._start_supervised(control.lifecycle.run, "lifecycle")
        log.info("started", listeners={listener.name: str(listener.endpoint) for listener in self.listeners})

    def _start_supervised(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        self.tasks.start(supervised(run, name), name)

    def _on_metadata(self, delta: MetadataDelta) -> None:
        self._maybe_take_up_roles()
        if self.control_plane.lifecycle.is_fenced:
            self.control_plane.lifecycle.nudge()

    def _maybe_take_up_roles(self) -> None:
        registered_at = self.control_plane.lifecycle.broker_epoch
        roles = self.data_plane.roles
        if not roles.has_begun and 0 <= registered_at < self.metadata.applied_offset:
            self.data_plane.synced_topics.begin(self.image)
            roles.begin(self.image)
            # Not before: this node's metadata may be long out of date.
            for listener in self.listeners.clients:
                self._start_supervised(listener.serve, f"serve-{listener.name}")

    def _advertised(self) -> dict[str, Endpoint]:
        """Addresses of this broker for others; a listener on port 0 is advertised with its real port."""
        given = self.config.advertised
        bound = {listener.name: listener.endpoint for listener in self.listeners if listener.name != CONTROLLER}
        return {name: Endpoint(given[name].host, given[name].port or at.port) for name, at in bound.items()}

    async def _snapshot_forever(self) -> None:
        raft = self.control_plane.raft
        while True:
            await asyncio.sleep(SNAPSHOT_CHECK_INTERVAL_S)
            try:
                snapshot = await self.metadata.maybe_snapshot(raft.machine.log.flushed_offset)
            except OSError as error:
                log.warning("no snapshot of the metadata was written", why=one_line(error))
                continue
            if snapshot is not None:
                raft.on_snapshot_created(snapshot)

    async def stop(self) -> None:
        """Stop cleanly: move leaderships, then sync everything and mark the log directories clean."""
        control = self.control_plane
        is_member = control.lifecycle.broker_epoch >= 0  # a start that failed has nothing to hand over
        if self.config.controlled_shutdown_enable and is_member and self.failure is None:
            with suppress(TimeoutError):  # :meth:`abort` ends it
                async with asyncio.timeout(None) as self._leaving:
                    await self._leave_cluster()
            self._leaving = None
        for listener in self.listeners:
            await listener.close()
        if self.metrics is not None:
            await self.metrics.close()
        control.raft.close()
        self.timers.close()
        await self.data_plane.jobs.close()
        await self.tasks.close()
        for link in control.links.values():
            link.close()
        self.parts.part(Peers).close()
        if self.failure is None:
            high_watermarks = self.data_plane.maintenance.high_watermarks()
            # One that never registered leaves the logs as it found them: they continue what they did before.
            self.store.close(high_watermarks, broker_epoch=control.registrations.previous_broker_epoch)
        else:
            self.store.abandon()
        while self._unforgotten:  # also those that failed just now, when no task could be started for them
            control.registrations.forget(self._unforgotten.popitem()[0])
        self.threads.close()
        log.info("stopped")

    def abort(self) -> None:
        """Stop as if killed: nothing is handed over, no log is synced, and no log directory is marked clean.

        A stop that is under way goes on so.
        """
        if self.failure is None:
            self.failure = AbortedError()
        self.stopped.set()
        if self._leaving is not None and not self._leaving.expired():
            self._leaving.reschedule(self._loop.time())

    async def _leave_cluster(self) -> None:
        control = self.control_plane
        are_in_sync = asyncio.Event()
        self.data_plane.replicas.waiting.hand_over(HANDOVER_TIMEOUT_MS, are_in_sync.set)
        await are_in_sync.wait()
        control.lifecycle.begin_shutdown()
        watch = self.tasks.start(self._watch_quorum(), "quorum watch")
        try:
            async with asyncio.timeout(CONTROLLED_SHUTDOWN_TIMEOUT_S):
                await control.lifecycle.may_shut_down.wait()
                await control.raft.resign()
        except TimeoutError:
            log.warning("stopping without the controller's permission: it did not answer in time")
        finally:
            watch.cancel()

    async def _watch_quorum(self) -> None:
        """Without a majority of the quorum there is no controller to wait for: the whole cluster is being stopped."""
        majority = len(self.config.voters) // 2 + 1
        while True:
            gone = [await self.control_plane.liveness.look(peer_id) for peer_id in self.control_plane.links]
            if len(self.config.voters) - sum(gone) < majority:
                log.info("stopping: most of the quorum is gone")
                self.control_plane.lifecycle.may_shut_down.set()
            await asyncio.sleep(0.1)

    # -- what ends it -----------------------------------------------------------------------------------------------

    def _on_task_failure(self, name: str, error: BaseException) -> None:
        is_bug = not isinstance(error, (KafkaError, OSError))
        is_explained = self.failure is not None and not is_bug  # why the node stops was said, and this comes of it
        log.error("a task failed", task=name, why=one_line(error), exc_info=None if is_explained else error)
        if is_bug:
            self._on_fatal(error)

    def _on_directory_failure(self, directory: LogDir, failure: StorageFailure) -> None:
        """The directory is offline. Nothing in it is acknowledged any more; the other replicas take over."""
        remedy = _remedy_of(failure)
        log.error("log directory offline", path=directory.path, why=str(failure), **remedy)
        if not failure.is_full:  # else what is written is there, as after a kill
            self._unforgotten[directory] = None
        # Not now: this may be in the middle of an append or while the node is being made.
        self._loop.call_soon(self._lose_directory, directory)

    def _lose_directory(self, directory: LogDir) -> None:
        """The other directories go on (KIP-858), unless none is left or the metadata log was in the failed one."""
        failure = directory.failure
        if not self._is_made or failure is None or self.tasks.is_closed:
            return  # it cannot be made, and says why; or it stops, which forgets them all
        if METADATA_PARTITION in directory.logs or not self.store.online:
            if directory in self._unforgotten:
                self.control_plane.registrations.forget(directory)  # nobody is served any more
                del self._unforgotten[directory]
            self._on_fatal(failure)
            return
        if directory in self._unforgotten:
            self.tasks.start(self._forget_directory(directory), f"forget-{directory.path}")
        self.data_plane.roles.take_offline(directory)
        self.control_plane.lifecycle.nudge()

    async def _forget_directory(self, directory: LogDir) -> None:
        """In threads: a broken disk may take long to say so."""
        registrations = self.control_plane.registrations
        for_it = registrations.prepare_forget(directory)
        await run_job(self.threads.upkeep, for_it)
        for_others = registrations.complete_forget(for_it)
        await run_job(self.threads.sync, for_others)
        registrations.complete(for_others)
        del self._unforgotten[directory]

    def _on_leading(self, partition: Partition) -> None:
        self.groups.on_leading(partition)
        self.transactions.on_leading(partition)

    def _on_leading_no_more(self, tp: TopicPartition) -> None:
        self.groups.on_leading_no_more(tp)
        self.transactions.on_leading_no_more(tp)

    def _on_fatal(self, error: BaseException) -> None:
        """A fatal error: the process ends, and the cluster fails over."""
        if self.failure is None:
            self.failure = error
            if isinstance(error, DamagedMetadataLogError):
                log.error("the metadata log is damaged", why=one_line(error))
            else:
                remedy = _remedy_of(error)
                log.critical("the node stops", why=one_line(error), **remedy)
            self.stopped.set()

    @property
    def image(self) -> MetadataImage:
        """The cluster as this node has applied it."""
        return self.metadata.image


def _remedy_of(error: BaseException) -> dict[str, str]:
    """What an operator does about it, if that is known."""
    if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
        return {"remedy": DISK_REMEDY}
    return {"remedy": error.remedy} if isinstance(error, StorageFailure) and error.remedy else {}


__all__ = ["MetaError", "Node"]
