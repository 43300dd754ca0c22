"""Clusters of real broker processes for tests: started in a temporary directory, killed whatever happens.

Nothing here sleeps to let time pass: a test waits for a condition (:func:`eventually`), for at most a minute.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.client import HTTPConnection, HTTPException
from itertools import cycle, islice
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from minikafka.chaos.layout import CONTROLLER_PORT_OFFSET, METRICS_PORT_OFFSET, REPLICATION_PORT_OFFSET
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import is_free
from minikafka.chaos.probe import PartitionView
from minikafka.storage.disk import OsDisk
from minikafka.storage.dump import DumpedBatch, dump_log

PATIENCE_S: Final = 60.0
FIRST_PORT: Final = 11_000
PORTS_OF_A_PROCESS: Final = 400  # four kinds, of which each has a hundred
PROCESSES: Final = 50
PORT_LOCKS: Final = "/tmp/minikafka-test-ports-{}"  # one place for all runs, wherever each has its files
BASE_PORTS_APART: Final = 6
NEVER_MS: Final = 24 * 3600 * 1000  # longer than any test

StartCluster = Callable[..., LocalCluster]
"""``start_cluster(brokers, **settings)``: a cluster that ends with the test; settings have underscores for dots."""

T = TypeVar("T")


@cache
def _base_ports() -> Iterator[int]:
    """Those of this process, round and round. A lock, held until it ends, keeps other test processes from taking them:
    the port of a node that is down for a moment looks free."""
    for first in range(FIRST_PORT, FIRST_PORT + PROCESSES * PORTS_OF_A_PROCESS, PORTS_OF_A_PROCESS):
        try:
            lock = os.open(PORT_LOCKS.format(first), os.O_WRONLY | os.O_CREAT)
        except PermissionError:
            continue  # another user's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return cycle(range(first, first + REPLICATION_PORT_OFFSET - BASE_PORTS_APART, BASE_PORTS_APART))
    raise AssertionError(f"{PROCESSES} test processes run already")


def eventually(condition: Callable[[], T], what: str, timeout_s: float = PATIENCE_S) -> T:
    """The first truthy result of `condition`, asked again and again; fails when there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s in vain for {what}"
        time.sleep(0.02)
    return result


def free_base_port(brokers: int = 3) -> int:
    """The next base port whose ports are all free."""
    assert brokers <= BASE_PORTS_APART
    for base_port in islice(_base_ports(), REPLICATION_PORT_OFFSET // BASE_PORTS_APART):
        kinds = (0, REPLICATION_PORT_OFFSET, CONTROLLER_PORT_OFFSET, METRICS_PORT_OFFSET)
        if all(is_free(base_port + kind + node) for kind in kinds for node in range(brokers)):
            return base_port
    raise AssertionError("all ports of this process are in use")


@contextmanager
def running_cluster(
    directory: Path, brokers: int = 3, *, has_racks: bool = False, **settings: str
) -> Iterator[LocalCluster]:
    """A cluster that is ready, with settings by Kafka's names, dots written as underscores. With racks, node 1 is in
    r1, and so on.

    A broker that reported an unhandled exception fails the test whatever the clients saw. (So does one whose loop was
    busy for long in one turn, of whatever cluster: ``live_turns``.)
    """
    with unjudged_cluster(directory, brokers, has_racks=has_racks, **settings) as cluster:
        yield cluster
    assert_no_complaints(cluster)


@contextmanager
def unjudged_cluster(
    directory: Path, brokers: int = 3, *, has_racks: bool = False, **settings: str
) -> Iterator[LocalCluster]:
    """The same for a test that judges the nodes' logs itself.

    At the end every node gets SIGKILL, paused or not. Records of tests may be of 1970: retention looks for old ones
    only where a test says how often. What is deleted goes at once.
    """
    named = {
        "log.retention.check.interval.ms": str(NEVER_MS),
        "log.segment.delete.delay.ms": "0",
    } | {name.replace("_", "."): value for name, value in settings.items()}
    cluster = LocalCluster.create(
        directory, brokers=brokers, base_port=free_base_port(brokers), settings=named, detached=False
    )
    cluster.layout.write_files()
    for node_id in cluster.layout.node_ids if has_racks else ():
        with cluster.layout.config_file(node_id).open("a") as file:
            file.write(f"broker.rack=r{node_id}\n")
    try:
        cluster.start(PATIENCE_S)
        yield cluster
    finally:
        cluster.kill_all()


def assert_no_complaints(cluster: LocalCluster) -> None:
    """No node reported an unhandled exception."""
    assert not (complaints := [*unhandled_exceptions(cluster)]), "\n".join(complaints)


def unhandled_exceptions(cluster: LocalCluster) -> Iterator[str]:
    """What the nodes' logs say of exceptions that nobody handled."""
    for node_id in cluster.node_ids:
        lines = _log_lines(cluster, node_id)
        for number, line in enumerate(lines):
            if "Traceback" in line or "[critical" in line:
                yield f"node {node_id}: " + "\n".join(lines[max(0, number - 3) : number + 30])


def metrics_url(cluster: LocalCluster, node_id: int) -> str:
    """Where a node with ``metrics.listener=127.0.0.1:0`` serves metrics, as it said at its last start."""
    lines = _log_lines(cluster, node_id)
    return next(line.rpartition("url=")[2].strip() for line in reversed(lines) if "metrics served" in line)


def http_get(url: str, path: str) -> tuple[int, str]:
    """Status and body of a GET for another path of the server that a URL names. OSError when it does not answer."""
    server = urlsplit(url).netloc
    connection = HTTPConnection(server, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except HTTPException as error:  # closed in the middle
        raise ConnectionError(f"{server}: {error!r}") from error
    finally:
        connection.close()


def _log_lines(cluster: LocalCluster, node_id: int) -> list[str]:
    """What a node logged: nothing, if it never started."""
    path = cluster.layout.log_file(node_id)
    return path.read_text().splitlines() if path.exists() else []


def partition_view(cluster: LocalCluster, topic: str, partition: int = 0) -> PartitionView:
    """The partition as the cluster sees it, as soon as it has a leader that is alive."""

    def look() -> PartitionView | None:
        view = cluster.view()
        for found in view.partitions if view else ():
            if (found.topic, found.partition) == (topic, partition) and view and found.leader_id in view.broker_ids:
                return found
        return None

    return eventually(look, f"{topic}-{partition} to have a leader")


def leader_of(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    """Who leads the partition."""
    return partition_view(cluster, topic, partition).leader_id


def wait_until_known(cluster: LocalCluster, topic: str, partitions: int) -> None:
    """Wait until every node knows that many partitions of the topic (0: that it is gone), whichever is asked next."""

    def known(node_id: int) -> int:
        view = cluster.probe(node_id)
        return -1 if view is None else sum(partition.topic == topic for partition in view.partitions)

    eventually(
        lambda: all(known(node_id) == partitions for node_id in cluster.node_ids),
        f"every node to know {partitions} partitions of {topic}",
    )


def controller_of(cluster: LocalCluster) -> int:
    """The active controller."""
    cluster.wait_for(lambda view: view.has_controller, "a controller")
    view = cluster.view()
    assert view is not None
    return view.controller_id


def partition_directories(cluster: LocalCluster, node_id: int, topic: str) -> list[Path]:
    """The directories of the topic's partitions on a node, deleted ones that are not gone yet included; no strays."""
    found = cluster.layout.data_directory(node_id).glob(f"{topic}-*")
    return sorted(path for path in found if not path.name.endswith("-stray"))


def strays(cluster: LocalCluster, node_id: int, topic: str) -> list[Path]:
    """What a node found of the topic at its start and set aside: metadata did not place it there."""
    return sorted(cluster.layout.data_directory(node_id).glob(f"{topic}-*-stray"))


def batches_on_disk(cluster: LocalCluster, node_id: int, topic: str, partition: int = 0) -> list[DumpedBatch]:
    """Every batch of a replica, read from its segment files; fails if they are damaged."""
    directory = cluster.layout.data_directory(node_id) / f"{topic}-{partition}"
    batches = []
    for segment in sorted(directory.glob("*.log")):
        for batch in dump_log(OsDisk(), str(segment)):
            assert isinstance(batch, DumpedBatch), f"{segment}: {batch}"
            assert batch.is_valid, f"{segment}: a wrong checksum at byte {batch.position}"
            batches.append(batch)
    return batches


def assert_replicas_equal(cluster: LocalCluster, topic: str, partition: int = 0) -> list[DumpedBatch]:
    """Once writing has ended and all are in sync, all replicas are byte-equal; answers the batches of one."""
    replicas = partition_view(cluster, topic, partition).replicas

    def read() -> list[list[bytes]]:
        return [[batch.data for batch in batches_on_disk(cluster, n, topic, partition)] for n in replicas]

    cluster.wait_in_sync(PATIENCE_S)
    eventually(lambda: len({len(replica) for replica in read()}) == 1, f"equal lengths of {topic}-{partition}")
    first, *others = read()
    assert all(other == first for other in others), f"replicas of {topic}-{partition} differ"
    return batches_on_disk(cluster, replicas[0], topic, partition)
