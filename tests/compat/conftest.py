"""One three-node cluster for all clients; each test has topics of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import live_cluster
import pytest
from live_cluster import batches_on_disk, eventually, leader_of, running_cluster

from minikafka.chaos.local_cluster import LocalCluster

sys.path.insert(0, str(Path(__file__).parent))

import clients_table  # from this folder
from compat_secure import Secured, running_secured

_numbers = count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Notes which features the tests of Python's clients and of kcat are marked with, before any is deselected."""
    for item in items:
        for name in _features(item):
            clients_table.CLAIMS.setdefault(_client(item), set()).add(name)


@pytest.fixture(autouse=True)
def _tell_of_its_features(request: pytest.FixtureRequest) -> Iterator[None]:
    """To the README's table."""
    yield
    for name in _features(request.node):
        client = _client(request.node)
        clients_table.tell(client, name, clients_table.installed_version(client))


def _features(item: pytest.Item) -> set[str]:
    return {name for mark in item.iter_markers("feature") for name in mark.args}


def _client(item: pytest.Item) -> str:
    assert isinstance(item, pytest.Function)
    name: str = item.module.CLIENT
    return name


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    interval = dict.fromkeys(
        ("group_consumer_heartbeat_interval_ms", "group_consumer_min_heartbeat_interval_ms"), "500"
    )
    settings = {"num_partitions": "4", **interval}
    with running_cluster(tmp_path_factory.mktemp("compat") / "cluster", has_racks=True, **settings) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def servers(cluster: LocalCluster) -> str:
    """What a client is given to find the cluster."""
    return cluster.bootstrap_servers


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A node that asks clients who they are."""
    with running_secured(tmp_path_factory.mktemp("secured")) as secured:
        yield secured


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses; the topic does not exist yet."""
    client = request.path.stem.removeprefix("test_").replace("_", "-")
    return f"{client}-{next(_numbers)}"


@pytest.fixture(scope="package")
def wait_until_known(cluster: LocalCluster) -> Callable[[str, int], None]:
    """Waits until every node knows so many partitions of a topic: clients ask whichever they like."""
    return partial(live_cluster.wait_until_known, cluster)


@pytest.fixture
def stored_compressions(cluster: LocalCluster) -> Callable[[str], set[str]]:
    """With which codecs the batches of a topic's first partition lie on the leader's disk."""

    def look(topic: str) -> set[str]:
        batches = eventually(
            lambda: batches_on_disk(cluster, leader_of(cluster, topic), topic), f"batches of {topic} on disk"
        )
        return {batch.header.compression.name.lower() for batch in batches}

    return look


@pytest.fixture(scope="package")
def kcat() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts kcat with arguments and its three streams piped; whatever still runs at the end is killed."""
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        why = "kcat is not installed; get it with: apt-get install kcat (Debian, Ubuntu) or brew install kcat (macOS)"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen([program, *arguments], stdin=pipe, stdout=pipe, stderr=pipe)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
