"""A cluster for a test of an application: its brokers are processes or threads, which end with it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import unittest
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from minikafka.chaos.authority import check_installed
from minikafka.chaos.faults import Breakable, RunningNode, finished
from minikafka.chaos.layout import ClusterError, ClusterLayout, NodeDownError, check_brokers
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.managed import ManagedCluster
from minikafka.chaos.observed import READY_TIMEOUT_S
from minikafka.chaos.ports import ReservedPorts
from minikafka.client import Admin, ConsumerRecord, Security
from minikafka.client.other_clients import Kind, client_config
from minikafka.testing import resetting
from minikafka.testing.reading import read_all
from minikafka.testing.resetting import delete_everything

T = TypeVar("T")

Setting = str | int | float
_CLUSTER_DEFAULT: Final = -1


class MiniKafka(Breakable):
    """``with MiniKafka(brokers=3) as kafka:``, or ``async with``. ``settings``: by Kafka's names.

    The brokers end with the block, or with this process, even if that is killed. Their files are removed, except after
    an error in the block (not after Ctrl-C, or a skip): a note to the exception names the brokers' logs. They stay when
    the process is killed, too, in a folder ``minikafka-*`` of the temporary directory. In ``directory`` (empty or
    missing) they stay in any case: for a fixture, which does not see the errors of its tests.

    They are processes, or, with ``in_process``, threads of this one: for a debugger or coverage, or where no process
    may start. Then a kill ends a broker between two turns of its loop, they share the interpreter with the test, and
    their logs have every line in one format, whatever ``logging.level`` and ``logging.format`` say.

    Brokers have ids from 1 on. All methods wait until it is done: in a coroutine, ``await asyncio.to_thread(kafka.kill,
    1)`` lets others go on meanwhile. They raise ClusterError for what cannot be, and KafkaError with a broker's reason.

    A ``secure`` cluster speaks TLS, also between its brokers, and clients log in: as "admin", who may do everything, or
    as "user", who may do what ACLs allow, and nothing at first. :attr:`security` and :meth:`client_config` have all
    that a client needs to be one of them. That takes ``minikafka[secure]``.

    Links, clocks and disks are broken, and requests refused, by the methods of ``Breakable``: ``cut``, ``isolate``,
    ``slow``, ``clock``, ``disk``, ``rule``. Until :meth:`heal`, :meth:`reset`, or until the broker ends.

    A client notices a paused broker only when a request to it times out: librdkafka after ``socket.timeout.ms`` (60 s),
    so set that to some seconds in such a test.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, Setting] | None = None,
        directory: str | Path | None = None,
        in_process: bool = False,
        secure: bool = False,
    ) -> None:
        self._brokers = brokers
        self._settings = resetting.SETTINGS | {name: _text(value) for name, value in (settings or {}).items()}
        self._directory = directory
        self._is_in_process = in_process
        self._is_secure = secure
        self._cluster: ManagedCluster | None = None
        self._ports: ReservedPorts | None = None
        self._starter = 0
        self._ended = False

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the brokers, and return when they are ready. Raises ClusterError when they do not start."""
        if self._cluster is not None:
            raise ClusterError("this cluster was started before; make another one")
        check_brokers(self._brokers)
        if self._is_secure:
            check_installed()
        ports = ReservedPorts(self._brokers)
        chosen = Path(self._directory or tempfile.mkdtemp(prefix="minikafka-"))
        try:
            cluster = self._create(chosen, ports.base_port)
            cluster.check()
        except BaseException:
            ports.close()
            if self._directory is None:
                shutil.rmtree(chosen)  # nothing ran, so there are no logs
            raise
        self._cluster, self._ports, self._starter = cluster, ports, os.getpid()
        try:
            cluster.start()
        except BaseException as error:
            self.close(error if _is_failure(error) else None)
            raise
        return self

    def _create(self, directory: Path, base_port: int) -> ManagedCluster:
        brokers, settings, secure = self._brokers, self._settings, self._is_secure
        if self._is_in_process:
            from minikafka.testing.in_process import ThreadCluster  # the code of a broker, which takes long to import

            return ThreadCluster.create(
                directory, brokers=brokers, base_port=base_port, settings=settings, secure=secure
            )
        return LocalCluster.create(
            directory, brokers=brokers, base_port=base_port, settings=settings, secure=secure, detached=False
        )

    def close(self, error: BaseException | None = None) -> None:
        """Kill the brokers, and remove their files; after an ``error`` they are kept, and a note to it names them.

        Nothing happens if it does not run, nor in a process that was forked by the one that started it.
        """
        if self._cluster is None or self._ports is None or self._ended or self._starter != os.getpid():
            return
        try:
            self._end(self._cluster, self._ports, error)
        except KeyboardInterrupt:  # it takes a moment, and nobody else removes what is left
            self._end(self._cluster, self._ports, error)
            raise

    def _end(self, cluster: ManagedCluster, ports: ReservedPorts, error: BaseException | None) -> None:
        cluster.end()
        ports.close()
        directory = cluster.layout.directory
        if error is not None:
            error.add_note(f"the brokers' logs: {directory}/node-*/broker.log")
        elif self._directory is None and directory.exists():
            shutil.rmtree(directory)
        self._ended = True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(exc if _is_failure(exc) else None)

    async def __aenter__(self) -> Self:
        starting = _in_thread(self.start)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:  # a thread cannot be cancelled, and nobody else would end what it starts
            await _ended(_in_thread(self.close))
            await _ended(starting)
            await _ended(_in_thread(self.close))  # it had only begun before
            raise

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        closing = _in_thread(self.close, exc if _is_failure(exc) else None)
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await _ended(closing)
            raise

    # -- who is who -------------------------------------------------------------------------------------------------

    @property
    def cluster(self) -> ManagedCluster:
        """Its nodes and files. Raises ClusterError before :meth:`start`, and after :meth:`close`."""
        if self._cluster is None:
            raise ClusterError("this cluster was not started yet: `with MiniKafka() as kafka:` does that")
        if self._ended:
            raise ClusterError("this cluster has ended; make another one")
        return self._cluster

    @property
    def _nodes_layout(self) -> ClusterLayout:
        return self.cluster.layout

    @property
    def _running_nodes(self) -> Mapping[int, RunningNode]:
        return self.cluster.running()

    @property
    def bootstrap_servers(self) -> str:
        """For clients; the ports stay when brokers are restarted."""
        return self.cluster.bootstrap_servers

    @property
    def security(self) -> Security:
        """How our own clients connect: ``Producer(kafka.bootstrap_servers, security=kafka.security)``. To a secure
        cluster as "admin"."""
        return self.cluster.layout.security

    def security_of(self, user: str) -> Security:
        """The same as "admin" or "user" of a secure cluster."""
        return self.cluster.layout.security_of(user)

    def client_config(self, client: Kind = "confluent", *, user: str | None = None) -> dict[str, Any]:
        """What a client of another library connects with: ``confluent_kafka.Producer(kafka.client_config())``,
        ``AIOKafkaProducer(**kafka.client_config("aiokafka"))``, as for ``kafka-python``; the properties for ``java``.
        To a secure cluster it connects as "admin", or as ``user="user"``.
        """
        security = self.security if user is None else self.security_of(user)
        return client_config(client, self.bootstrap_servers, security)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition."""
        return self.cluster.leader_of(topic, partition)

    def coordinator_of(self, group: str, *, transactional: bool = False) -> int:
        """The broker that coordinates a group, or a transactional id."""
        return self.cluster.coordinator_of(group, transactional=transactional)

    def controller(self) -> int:
        """The broker that is the active controller."""
        return self.cluster.controller()

    # -- breaking and mending ---------------------------------------------------------------------------------------

    def kill(self, *brokers: int) -> None:
        """End them at once, as SIGKILL does to processes."""
        self.cluster.kill(*brokers)

    def kill_all(self) -> None:
        """Kill every broker that is up."""
        self.cluster.kill_all()

    def stop(self, *brokers: int) -> None:
        """Stop them, one after the other, as SIGTERM does: each hands over what it leads, and ends."""
        for broker in brokers:
            self.cluster.stop_node(broker)

    def pause(self, *brokers: int) -> None:
        """Hold them, as SIGSTOP does: they answer nothing, and do not see time pass."""
        self.cluster.pause(*brokers)

    def resume(self, *brokers: int) -> None:
        """Let go: paused ones go on as if nothing had happened."""
        self.cluster.resume(*brokers)

    def restart(self, *brokers: int) -> None:
        """Start those that are down, or stop and start those that are up, one after the other."""
        for broker in brokers:
            self.cluster.restart(broker)

    def heal(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Resume paused brokers, mend what else is broken, start those that are down, and wait until every replica is
        in sync.
        """
        cluster = self.cluster
        cluster.resume(*(broker for broker, node in cluster.running().items() if node.paused))
        self._mend_running()
        if len(cluster.running()) < len(cluster.node_ids):
            cluster.start(timeout_s)
        self.wait_until_healthy(timeout_s)

    def _mend_running(self) -> None:
        running = self.cluster.running()
        with suppress(NodeDownError):  # a full disk, say, ends one just now; the others are mended all the same
            if running:
                self.mend(running)

    def wait_until_healthy(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until all brokers are live members, and every replica is in sync."""
        self.cluster.wait_ready(timeout_s=timeout_s)
        self.cluster.wait_in_sync(timeout_s)

    def reset(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Begin anew, with the same brokers: heal, then delete every topic, group, transactional id, quota, ACL and
        user, but "admin" and "user" of a secure cluster, and take back what was set of groups, brokers, their logs and
        features. Clients that a test left open find what they knew gone, and may create topics anew, or fail, as
        consumers of KIP-848 do: close them before.
        """
        cluster = self.cluster
        running = cluster.running()
        if len(running) < len(cluster.node_ids) or any(node.paused for node in running.values()):
            self.heal(timeout_s)
        else:
            self._mend_running()
        deleted = finished(delete_everything(cluster.layout))
        cluster.wait_until_without(deleted, timeout_s)

    # -- topics -----------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = _CLUSTER_DEFAULT,
        *,
        replication_factor: int = _CLUSTER_DEFAULT,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        """Create a topic; what is left out is the cluster's default."""
        configs = {key: _text(value) for key, value in (settings or {}).items()}

        async def create(admin: Admin) -> None:
            await admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor, configs=configs
            )

        self._with_admin(create)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""

        async def delete(admin: Admin) -> None:
            await admin.delete_topic(name)

        self._with_admin(delete)

    def records(
        self, topic: str, *, committed: bool = False, timeout_s: float = READY_TIMEOUT_S
    ) -> list[ConsumerRecord]:
        """All records of a topic up to its present end, by partition and offset; ``committed``: no others. Those that
        followers do not have yet are waited for, some seconds. Raises ClusterError when nothing comes for a while, as
        from a paused leader."""
        return finished(
            read_all(self.bootstrap_servers, self.security, topic, committed=committed, timeout_s=timeout_s)
        )

    def _with_admin(self, work: Callable[[Admin], Awaitable[None]]) -> None:
        async def run() -> None:
            async with Admin(self.bootstrap_servers, security=self.security) as admin:
                await work(admin)

        finished(run())


def _in_thread(work: Callable[..., T], *words: Any) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(None, work, *words)


async def _ended(work: asyncio.Future[Any]) -> None:
    """Wait for it, however often this is cancelled meanwhile: anyio does so until its scope is left."""
    while not work.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([work])
    work.exception()  # somebody has looked


def _is_failure(error: BaseException | None) -> bool:
    """Whether somebody will look at the logs. Nobody does after Ctrl-C, nor of a test that is skipped, or is expected
    to fail."""
    no_failures: list[type[BaseException]] = [KeyboardInterrupt, GeneratorExit, unittest.SkipTest]
    if (pytest := sys.modules.get("pytest")) is not None:
        no_failures += (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception)
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return error is not None and not isinstance(error, tuple(no_failures))


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
