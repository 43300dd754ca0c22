"""Nodes for tests: the real one, on free ports of this machine, with a directory of its own."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from minikafka.broker.clock import Clock
from minikafka.broker.first_users import first_users_of
from minikafka.broker.node import Node
from minikafka.broker.partition import Partition
from minikafka.broker.tls import Tls
from minikafka.config import BrokerConfig
from minikafka.metadata.controller.configs import AlterConfigOp
from minikafka.metadata.image import ConfigResource
from minikafka.metadata.records import ConfigResourceType
from minikafka.model import CLUSTER_METADATA_TOPIC, TopicPartition
from minikafka.net.listener import Listener
from minikafka.records.batch import Buffer
from minikafka.storage.disk import Disk, File, OsDisk, OsFile
from minikafka.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

T = TypeVar("T")

PATIENCE_S = 30.0
SEEDS = itertools.count(1)  # no two nodes, and no two incarnations of one, draw the same
SECRET = b"a secret of some length"
CLUSTER_ID = "test-cluster"
ANY_PORTS = "CLIENT://127.0.0.1:0,REPLICATION://127.0.0.1:0,CONTROLLER://127.0.0.1:0"


async def eventually(condition: Callable[[], T], what: str) -> T:
    """The first truthy result of ``condition``; fails when there is none in time."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PATIENCE_S
    while not (result := condition()):
        assert loop.time() < deadline_s, f"waited in vain for {what}"
        await asyncio.sleep(0.001)
    return result


async def in_time(awaitable: Awaitable[T]) -> T:
    """Its result, unless it takes for ever."""
    async with asyncio.timeout(PATIENCE_S):
        return await awaitable


async def turns(count: int = 3) -> None:
    """Let the loop run everything that is ready, a few times over."""
    for _ in range(count):
        await asyncio.sleep(0)


def make_node(
    directory: Path,
    *,
    disk: Disk | None = None,
    wall_s: Callable[[], float] | None = None,
    secret: bytes = SECRET,
    cluster_id: str = CLUSTER_ID,
    boot_id: str | None = None,
    **settings: object,
) -> Node:
    """A node that is not started."""
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    config = BrokerConfig({"log.dirs": str(directory), "listeners": ANY_PORTS, "cluster.id": cluster_id, **named})
    loop = asyncio.get_running_loop()
    return Node(
        config,
        cluster_id=cluster_id,
        secret=secret,
        tls=Tls(config) if config.ssl_keystore_location else None,
        first_users=first_users_of(config),
        disk=disk or HastyDisk(),
        clock=Clock(loop) if wall_s is None else Clock(loop, wall_s),
        rng=random.Random(next(SEEDS)),
        boot_id=boot_id,
    )


async def wait_until_ready(node: Node) -> None:
    """Registered, unfenced, and seen so by itself."""
    await eventually(
        lambda: node.image.is_live(node.config.node_id) and node.data_plane.roles.has_begun, "the node to serve"
    )


def listener_of(node: Node, name: str = "CLIENT") -> Listener:
    return next(listener for listener in node.listeners if listener.name == name)


async def create_topic(
    node: Node, name: str, partitions: int = 1, *, replicas: list[list[int]] | None = None, **configs: object
) -> TopicPartition:
    """Create a topic and wait until this node serves it; its first partition."""
    tp = await create_in_metadata(node, name, partitions, replicas=replicas, **configs)
    await eventually(lambda: _serves(node, name), f"the replicas of {name}")  # their files are made in a thread
    return tp


async def create_in_metadata(
    node: Node, name: str, partitions: int = 1, *, replicas: list[list[int]] | None = None, **configs: object
) -> TopicPartition:
    """Create a topic and wait until this node's image has it; its first partition."""
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if replicas else partitions,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in enumerate(replicas or [])
        ],
        configs=[
            CreatableTopicConfig(name=name.replace("_", "."), value=str(value)) for name, value in configs.items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic])
    answer = await node.controller.call(request, CreateTopicsResponse, timeout_s=PATIENCE_S)
    assert not answer.topics[0].error_code, answer
    await eventually(lambda: node.image.topic(name), f"topic {name}")
    return TopicPartition(name, 0)


def _serves(node: Node, name: str) -> bool:
    """Whether the node has its replica of each partition of the topic that it leads."""
    topic = node.image.topic(name)
    assert topic is not None, name
    led = [index for index, state in topic.partitions.items() if state.leader == node.config.node_id]
    return all(node.data_plane.replicas.get(TopicPartition(name, index)) for index in led)


async def ask_to_delete(node: Node, name: str) -> DeletableTopicResult:
    """What the controller says to it; this node may still have the topic."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
    answer = await node.controller.call(request, DeleteTopicsResponse, timeout_s=PATIENCE_S)
    return answer.responses[0]


async def delete_topic(node: Node, name: str) -> None:
    """Delete a topic; this node may still have it."""
    result = await ask_to_delete(node, name)
    assert not result.error_code, result


async def alter_setting(node: Node, resource: ConfigResource, name: str, value: str) -> None:
    """Change a setting; this node may not know of it yet."""
    config = AlterableConfig(name=name, config_operation=AlterConfigOp.SET, value=value)
    asked = AlterConfigsResource(resource_type=resource.resource_type, resource_name=resource.name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[asked])
    answer = await node.controller.call(request, IncrementalAlterConfigsResponse, timeout_s=PATIENCE_S)
    assert not answer.responses[0].error_code, answer


async def alter_topic(node: Node, topic: str, name: str, value: str) -> None:
    """Change a setting of a topic; this node may not know of it yet."""
    await alter_setting(node, ConfigResource(ConfigResourceType.TOPIC, topic), name, value)


def led(node: Node, tp: TopicPartition) -> Partition:
    """The partition, which the node leads."""
    return node.replicas.leader_of(tp)


class HastyFile(OsFile):
    """A file whose syncs are left to the operating system."""

    __slots__ = ()

    def fsync(self) -> None:
        """No test here takes the power away."""


class HastyDisk(OsDisk):
    """The operating system's file system without a wait for the device: many nodes start and stop here."""

    def open_append(self, path: str) -> File:
        return HastyFile(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def fsync_path(self, path: str) -> None:
        os.stat(path)  # it must exist

    def _write(self, path: str, data: Buffer, *, durable: bool) -> None:
        super()._write(path, data, durable=False)


class SlowDisk(HastyDisk):
    """A disk on which the metadata log's syncs, and votes, take ``sync_s`` seconds in their thread."""

    def __init__(self, sync_s: float) -> None:
        self._sync_s = sync_s

    def wait(self, path: str) -> None:
        if CLUSTER_METADATA_TOPIC in path and threading.current_thread() is not threading.main_thread():
            time.sleep(self._sync_s)

    def open_append(self, path: str) -> File:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return SlowFile(self, path, fd)

    def _write(self, path: str, data: Buffer, *, durable: bool) -> None:
        super()._write(path, data, durable=False)
        if durable:
            self.wait(path)


class SlowFile(HastyFile):
    """A file of a :class:`SlowDisk`."""

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: SlowDisk, path: str, fd: int) -> None:
        super().__init__(fd)
        self._disk = disk
        self._path = path

    def fsync(self) -> None:
        self._disk.wait(self._path)


class FailingDisk(HastyDisk):
    """A disk that can be told to refuse: ``refuse("append", "orders-0")`` fails appends to paths that contain that."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[str, int]] = {}
        self.counts: Counter[str] = Counter()

    def refuse(self, operation: str, where: str = "", error: int = errno.ENOSPC) -> None:
        """From now on; operations are append, fsync, write, mkdir, rename."""
        self._refused[operation] = (where, error)

    def allow(self) -> None:
        """From now on everything works again."""
        self._refused.clear()

    def check(self, operation: str, path: str) -> None:
        self.counts[operation] += 1
        where, error = self._refused.get(operation, (None, 0))
        if where is not None and where in path:
            raise OSError(error, os.strerror(error), path)

    def open_append(self, path: str) -> File:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return FailingFile(self, path, fd)

    def fsync_path(self, path: str) -> None:
        self.check("fsync", path)

    def mkdir(self, path: str) -> None:
        self.check("mkdir", path)
        super().mkdir(path)

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        super().rename(source, target)

    def _write(self, path: str, data: Buffer, *, durable: bool) -> None:
        self.check("write", path)
        super()._write(path, data, durable=durable)


class FailingFile(HastyFile):
    """A file of a :class:`FailingDisk`."""

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: FailingDisk, path: str, fd: int) -> None:
        super().__init__(fd)
        self._disk = disk
        self._path = path

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._disk.check("append", self._path)
        return super().append(buffers)

    def fsync(self) -> None:
        self._disk.check("fsync", self._path)


class Cluster:
    """Nodes 1, 2, ... in one process, with timings for tests; ``kill`` is as sudden as it can be in-process."""

    def __init__(self, directory: Path, size: int, **settings: object) -> None:
        self.nodes: dict[int, Node] = {}
        self._directory = directory
        self._sockets = [[_bound() for _ in range(3)] for _ in range(size)]
        self._ports = [[each.getsockname()[1] for each in sockets] for sockets in self._sockets]
        self._voters = ",".join(f"{index + 1}@127.0.0.1:{ports[2]}" for index, ports in enumerate(self._ports))
        self._settings = settings

    @property
    def node_ids(self) -> list[int]:
        return [index + 1 for index in range(len(self._ports))]

    async def start(self, *node_ids: int, **settings: object) -> None:
        """Start these nodes, or all; returns before they are ready."""
        for node_id in node_ids or self.node_ids:
            for each in self._sockets[node_id - 1]:
                each.close()
            client, replication, controller = self._ports[node_id - 1]
            how = {
                "node_id": node_id,
                "cluster_id": CLUSTER_ID,
                "cluster_secret": SECRET.decode(),
                "controller_quorum_voters": self._voters,
                "listeners": f"CLIENT://127.0.0.1:{client},REPLICATION://127.0.0.1:{replication}"
                f",CONTROLLER://127.0.0.1:{controller}",
                "replica_fetch_backoff_ms": 20,
                "replica_lag_time_max_ms": 2000,
                **self._settings,
                **settings,
            }
            node = make_node(self._directory / f"node-{node_id}", **how)  # type: ignore[arg-type]
            self.nodes[node_id] = node
            await node.start()

    async def ready(self) -> None:
        """Wait until every running node sees every running node alive."""
        for node in self.nodes.values():
            await eventually(lambda node=node: self._sees_all(node), "all nodes to be alive")  # type: ignore[misc]

    def _sees_all(self, node: Node) -> bool:
        return {broker.broker_id for broker in node.image.live_brokers()} >= set(
            self.nodes
        ) and node.data_plane.roles.has_begun

    @property
    def controller(self) -> Node:
        """The node that is the active controller."""
        return next(node for node in self.nodes.values() if node.control_plane.controller.is_active)

    async def wait_for_controller(self) -> Node:
        await eventually(
            lambda: any(node.control_plane.controller.is_active for node in self.nodes.values()), "a controller"
        )
        return self.controller

    async def kill(self, node_id: int) -> None:
        """End a node without a word to anybody and without a checkpoint."""
        node = self.nodes.pop(node_id)
        node._on_fatal(RuntimeError("killed by the test"))
        await node.stop()

    async def stop(self) -> None:
        for sockets in self._sockets:
            for each in sockets:
                each.close()
        nodes, self.nodes = self.nodes, {}
        for node in nodes.values():
            node._on_fatal(RuntimeError("the test is over"))
            await node.stop()


def _bound() -> socket.socket:
    """Keeps a free port until it is needed."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    return sock
