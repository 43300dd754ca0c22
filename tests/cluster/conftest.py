"""Clusters of real processes: one of its own for a test that breaks it, one for all tests of bad input."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from live_attack import Honest, create_honest_topic, quiet_p99_s, unharmed
from live_cluster import StartCluster, eventually, leader_of, running_cluster
from live_java import NotHereError
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2]))  # benchmarks, which start Apache Kafka

from cluster_load import Load
from cluster_tools import Tools, running_tools

LOG_LINES_SHOWN: Final = 60
HONEST_PAUSE_S: Final = 0.05  # it writes beside many tests


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """Starts clusters (settings by Kafka's names with underscores) that end with the test."""
    with ExitStack() as running:

        def start(brokers: int = 3, **settings: str) -> LocalCluster:
            directory = tmp_path / f"cluster-{len(list(tmp_path.iterdir()))}"
            return running.enter_context(running_cluster(directory, brokers, **settings))

        yield start


@pytest.fixture
def cluster(start_cluster: StartCluster) -> LocalCluster:
    """Three nodes of the test's own."""
    return start_cluster()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A failing test shows what the nodes of its own cluster logged last."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(cluster, LocalCluster):
        for node_id in cluster.node_ids:
            path = cluster.layout.log_file(node_id)
            if not path.exists():
                continue  # the test passed, and a loop was found slow when all was removed
            lines = path.read_text(errors="replace").splitlines()
            report.sections.append((f"node {node_id}", "\n".join(lines[-LOG_LINES_SHOWN:])))
    return report


@pytest.fixture
def load(cluster: LocalCluster) -> Iterator[Load]:
    """A producer that writes to the test's own cluster."""
    load = Load(cluster)
    yield load
    load.abandon()


# -- for Kafka's tools ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="package")
def tooled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes for all of Kafka's tools."""
    directory = tmp_path_factory.mktemp("tools") / "cluster"
    with running_cluster(directory, group_initial_rebalance_delay_ms="0") as cluster:
        yield cluster


@pytest.fixture(scope="package")
def tools(tooled: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """The JVM that runs them, where their libraries are."""
    try:
        with running_tools(tmp_path_factory.mktemp("java"), tooled.bootstrap_servers) as tools:
            yield tools
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What a tool is given as a file."""
    return tmp_path / "plan.json"


# -- for bad input ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes that no input can hurt."""
    with running_cluster(tmp_path_factory.mktemp("server") / "cluster") as cluster:
        yield cluster


@pytest.fixture
def port(server: LocalCluster) -> int:
    """Where node 1 of the server listens for clients."""
    return server.layout.client_port(1)


@pytest.fixture
def wire(port: int) -> Iterator[Wire]:
    """A connection to node 1 of the server."""
    with Wire(port) as connection:
        yield connection


@pytest.fixture
def topic(request: pytest.FixtureRequest, server: LocalCluster, port: int) -> str:
    """A topic with one partition, led by node 1 of the server."""
    name = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name)[:200]
    with Wire(port) as connection:
        connection.create_topic(name, [[1, 2, 3]])
    eventually(lambda: leader_of(server, name) == 1, "node 1 to lead the topic")
    return name


@pytest.fixture(scope="package")
def quiet_s(server: LocalCluster) -> float:
    """How long the server's honest producer waits while nobody attacks."""
    create_honest_topic(server)
    return quiet_p99_s(server)


@pytest.fixture(scope="module")
def honest(server: LocalCluster, quiet_s: float) -> Iterator[Honest]:
    """Writes to the server beside all tests of a module, after which no node may have come to harm."""
    with unharmed(server, quiet_s, HONEST_PAUSE_S) as honest:
        yield honest


@pytest.fixture
def nodes_are_unharmed(server: LocalCluster, honest: Honest) -> Iterator[None]:
    """After the test the server's nodes are the same processes as before, and the honest producer goes on."""
    before = [server.process(node_id) for node_id in server.node_ids]
    yield
    after = [server.process(node_id) for node_id in server.node_ids]
    assert [process and process.pid for process in after] == [process and process.pid for process in before]
    assert not honest.failures
