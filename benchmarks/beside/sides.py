"""The clusters that are compared: all are up at the same time, with three brokers on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.apache_kafka import class_path, running_apache_kafka
from benchmarks.beside.generator import running_mock
from benchmarks.clusters import BROKERS, broker_cpu, of_librdkafka, running_cluster
from benchmarks.machine import cpu_seconds
from minikafka.chaos.local_cluster import LocalCluster

OURS: Final = "minikafka"
THEIRS: Final = "Apache Kafka"
MOCK: Final = "librdkafka's mock"
PARTITIONS: Final = 3
_PATIENCE_S: Final = 60


class Side(NamedTuple):
    """A cluster: its name, how to connect, and the CPU seconds that its brokers have used."""

    name: str
    connecting: dict[str, Any]
    cpu_seconds: Callable[[], float]

    @contextmanager
    def topic(self, copies: int) -> Iterator[str]:
        """A new topic of PARTITIONS, deleted afterwards; its name."""
        name = f"t{time.time_ns()}"  # deleting takes its time
        if self.name == MOCK:
            yield name  # it makes what it is asked for, with four partitions, and deletes nothing
            return
        admin = AdminClient(self.connecting | {"log_level": 0})
        new = NewTopic(name, PARTITIONS, copies, config={"min.insync.replicas": str(min(2, copies))})
        admin.create_topics([new])[name].result(timeout=_PATIENCE_S)
        time.sleep(0.5)
        yield name
        admin.delete_topics([name])[name].result(timeout=_PATIENCE_S)
        time.sleep(0.5)


def of_cluster(name: str, cluster: LocalCluster) -> Side:
    """One of ours."""
    return Side(name, of_librdkafka(cluster), lambda: sum(broker_cpu(cluster).values()))


@contextmanager
def running_sides(*, mock: bool = False) -> Iterator[list[Side]]:
    """Ours, and the other: NotHereError without what it needs."""
    with ExitStack() as stack:
        if mock:
            servers, pid = stack.enter_context(running_mock(BROKERS))
            other = Side(MOCK, {"bootstrap.servers": servers}, lambda: cpu_seconds(pid))
        else:
            theirs = stack.enter_context(running_apache_kafka(class_path(), {}))
            other = Side(THEIRS, theirs.connecting, theirs.cpu_seconds)
        yield [other, of_cluster(OURS, stack.enter_context(running_cluster()))]
