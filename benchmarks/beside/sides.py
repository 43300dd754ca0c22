"""The clusters that are compared: all are up at the same time, with three brokers on this machine."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.apache_kafka import ApacheKafka, class_path, running_apache_kafka
from benchmarks.beside.generator import running_mock
from benchmarks.clusters import BROKERS, of_librdkafka, running_cluster
from benchmarks.machine import cpu_seconds, rss_bytes
from minikafka.chaos.local_cluster import LocalCluster

OURS: Final = "minikafka"
THEIRS: Final = "Apache Kafka"
MOCK: Final = "librdkafka's mock"
PARTITIONS: Final = 3
_PATIENCE_S: Final = 120
_SETTLES_S: Final = 0.5
"""What a node does for a topic after it has told of it is not measured."""


class Nodes(Protocol):
    """The processes of a cluster, by node id."""

    @property
    def pids(self) -> dict[int, int]:
        """Of those that are up."""
        ...

    @property
    def directory(self) -> Path:
        """What they write is in it."""
        ...

    def client_port(self, node_id: int) -> int: ...
    def end(self, node_id: int, number: signal.Signals) -> None:
        """Signal it, and wait until it is gone."""
        ...

    def start_node(self, node_id: int) -> None: ...


class OurNodes:
    """Those of a cluster of ours."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.client_port = cluster.layout.client_port

    @property
    def pids(self) -> dict[int, int]:
        return {node_id: process.pid for node_id, process in self._cluster.running().items()}

    @property
    def directory(self) -> Path:
        return self._cluster.layout.directory

    def end(self, node_id: int, number: signal.Signals) -> None:
        if number is signal.SIGKILL:
            self._cluster.kill(node_id)
        else:
            self._cluster.stop_node(node_id)

    def start_node(self, node_id: int) -> None:
        self._cluster.start_node(node_id)


class Side:
    """A cluster: its name, how to connect, and its processes; of a real one they are ``nodes``."""

    def __init__(
        self, name: str, connecting: dict[str, Any], pids: Callable[[], Iterable[int]], nodes: Nodes | None = None
    ) -> None:
        self.name = name
        self.connecting = connecting
        self._pids = pids
        self._nodes = nodes

    @property
    def nodes(self) -> Nodes:
        """To be broken, and looked into."""
        assert self._nodes is not None, f"{self.name} is one process"
        return self._nodes

    def cpu_seconds(self) -> float:
        """CPU seconds that its nodes have used so far."""
        return sum(map(cpu_seconds, self._pids()))

    def rss_mb(self) -> float:
        """Memory of all its nodes that is resident."""
        return sum(map(rss_bytes, self._pids())) / 1e6

    @contextmanager
    def topic(self, copies: int, partitions: int = PARTITIONS) -> Iterator[str]:
        """A new topic, deleted afterwards; its name."""
        name = f"t{time.time_ns()}"  # deleting takes its time
        if self.name == MOCK:
            yield name  # it makes what it is asked for, with four partitions, and deletes nothing
            return
        admin = AdminClient(self.connecting | {"log_level": 0})
        new = NewTopic(name, partitions, copies, config={"min.insync.replicas": str(min(2, copies))})
        admin.create_topics([new])[name].result(timeout=_PATIENCE_S)
        self.wait_until_whole(name)
        time.sleep(_SETTLES_S)
        yield name
        admin.delete_topics([name])[name].result(timeout=_PATIENCE_S)
        time.sleep(_SETTLES_S)

    def wait_until_whole(self, topic: str) -> None:
        """Each node says that all of them are there, and all copies of the topic in sync. TimeoutError."""
        give_up_s = time.monotonic() + _PATIENCE_S
        for node_id in self.nodes.pids:
            while not _is_whole(self.connecting, self.nodes.client_port(node_id), topic):
                if time.monotonic() > give_up_s:
                    raise TimeoutError(f"{self.name} was not whole after {_PATIENCE_S} s")
                time.sleep(0.1)


def _is_whole(connecting: dict[str, Any], port: int, topic: str) -> bool:
    host = connecting["bootstrap.servers"].partition(":")[0]  # that of its certificate
    asked = AdminClient({**connecting, "bootstrap.servers": f"{host}:{port}", "log_level": 0})
    with suppress(KafkaException):
        told = asked.list_topics(topic, timeout=5)
        partitions = told.topics[topic].partitions.values()
        in_sync = (len(each.isrs) == len(each.replicas) > 0 for each in partitions)
        return len(partitions) > 0 and all(in_sync) and len(told.brokers) == BROKERS
    return False


def of_cluster(cluster: LocalCluster, name: str = OURS) -> Side:
    """One of ours."""
    return _of_nodes(name, of_librdkafka(cluster), OurNodes(cluster))


def of_apache_kafka(cluster: ApacheKafka) -> Side:
    """One of theirs."""
    return _of_nodes(THEIRS, cluster.connecting, cluster)


def _of_nodes(name: str, connecting: dict[str, Any], nodes: Nodes) -> Side:
    return Side(name, connecting, lambda: nodes.pids.values(), nodes)


@contextmanager
def running_theirs(settings: dict[str, str] | None = None) -> Iterator[Side]:
    """Three nodes of Apache Kafka, with these settings besides: NotHereError without what they need."""
    with running_apache_kafka(class_path(), settings or {}) as cluster:
        yield of_apache_kafka(cluster)


@contextmanager
def running_ours(settings: dict[str, str] | None = None) -> Iterator[Side]:
    """Three of ours."""
    with running_cluster(settings) as cluster:
        yield of_cluster(cluster)


@contextmanager
def running_sides(*, mock: bool = False, settings: dict[str, str] | None = None) -> Iterator[list[Side]]:
    """The other, and ours, with these settings besides: NotHereError without what it needs."""
    with ExitStack() as stack:
        if mock:
            servers, pid = stack.enter_context(running_mock(BROKERS))
            other = Side(MOCK, {"bootstrap.servers": servers}, lambda: (pid,))
        else:
            other = stack.enter_context(running_theirs(settings))
        yield [other, stack.enter_context(running_ours(settings))]
