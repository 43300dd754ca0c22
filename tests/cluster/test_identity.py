"""Nodes that are not who they must be: refused, with a line that says why, and no harm to the cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, controller_of, eventually, free_base_port

from minikafka.chaos.layout import new_cluster_id
from minikafka.chaos.local_cluster import LocalCluster

Run = Callable[..., "Intruder"]


class Intruder:
    """A node started by hand, with settings of its own; what it printed."""

    def __init__(self, properties: Path, log: Path) -> None:
        self.log = log
        words = [sys.executable, "-m", "minikafka.broker", "--config", str(properties)]
        with log.open("wb") as output:
            self.process = subprocess.Popen(words, stdout=output, stderr=output, cwd=properties.parent)

    def says(self, words: str) -> bool:
        return words in self.log.read_text()


@pytest.fixture
def intrude(cluster: LocalCluster, tmp_path: Path) -> Iterator[Run]:
    """Starts a node with the configuration of one of the cluster's, some lines of it changed."""
    started: list[Intruder] = []

    def run(like: int, **changes: str) -> Intruder:
        layout = cluster.layout
        text = layout.config_file(like).read_text()
        rows = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
        rows |= {name.replace("_", "."): value for name, value in changes.items()}
        directory = tmp_path / f"intruder-{len(started)}"
        directory.mkdir()
        properties = directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in rows.items()))
        started.append(Intruder(properties, directory / "log"))
        return started[-1]

    yield run
    for intruder in started:
        intruder.process.kill()
        intruder.process.wait()


def own_listeners() -> str:
    port = free_base_port(1)
    return f"CLIENT://127.0.0.1:{port},REPLICATION://127.0.0.1:{port + 100},CONTROLLER://127.0.0.1:{port + 200}"


def assert_unharmed(cluster: LocalCluster, pids: dict[int, int]) -> None:
    assert {node_id: process.pid for node_id, process in cluster.running().items()} == pids
    cluster.wait_ready(timeout_s=PATIENCE_S)
    for node_id in cluster.node_ids:
        view = cluster.probe(node_id)
        assert view is not None
        assert view.broker_ids == set(cluster.node_ids)


@pytest.fixture
def pids(cluster: LocalCluster) -> dict[int, int]:
    return {node_id: process.pid for node_id, process in cluster.running().items()}


@pytest.mark.spec("P6", "C3")
def test_a_second_node_of_the_same_id_is_refused(
    cluster: LocalCluster, pids: dict[int, int], intrude: Run, tmp_path: Path
) -> None:
    node_id = next(node_id for node_id in cluster.node_ids if node_id != controller_of(cluster))
    intruder = intrude(node_id, log_dirs=str(tmp_path / "data-of-the-second"), listeners=own_listeners())
    eventually(lambda: intruder.says("DUPLICATE_BROKER_REGISTRATION"), "the intruder to be told why")
    assert_unharmed(cluster, pids)


@pytest.mark.spec("P6")
def test_a_node_of_another_cluster_is_refused(
    cluster: LocalCluster, pids: dict[int, int], intrude: Run, tmp_path: Path
) -> None:
    foreign = new_cluster_id()
    intruder = intrude(3, cluster_id=foreign, log_dirs=str(tmp_path / "foreign-data"), listeners=own_listeners())

    def is_told() -> bool:
        return any(
            foreign in line and cluster.layout.cluster_id in line
            for log in (intruder.log, *(cluster.layout.log_file(n) for n in cluster.node_ids))
            for line in log.read_text().splitlines()
        )

    eventually(is_told, "a line that names both clusters")
    assert_unharmed(cluster, pids)


@pytest.mark.spec("P6")
def test_a_directory_of_another_cluster_or_node_is_not_opened(cluster: LocalCluster, intrude: Run) -> None:
    cluster.kill(3)
    data = str(cluster.layout.data_directory(3))
    for changes in ({"cluster_id": new_cluster_id()}, {"node_id": "1"}):
        intruder = intrude(3, log_dirs=data, listeners=own_listeners(), **changes)
        assert intruder.process.wait(PATIENCE_S) != 0
        text = intruder.log.read_text()
        assert f"{data} belongs to" in text
        assert "Traceback" not in text
    cluster.start_node(3, PATIENCE_S)
    cluster.wait_in_sync(PATIENCE_S)


@pytest.mark.spec("P6")
def test_a_node_without_the_cluster_secret_is_refused(
    cluster: LocalCluster, pids: dict[int, int], intrude: Run, tmp_path: Path
) -> None:
    secret = tmp_path / "another.secret"
    secret.write_text("not the secret of this cluster\n")
    intruder = intrude(
        3, cluster_secret_file=str(secret), log_dirs=str(tmp_path / "strange-data"), listeners=own_listeners()
    )
    logs = (intruder.log, *(cluster.layout.log_file(n) for n in cluster.node_ids))
    eventually(lambda: any("secret" in log.read_text() for log in logs), "a line that speaks of the secret")
    assert_unharmed(cluster, pids)
