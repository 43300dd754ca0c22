"""One Spark session and one cluster for all tests of this folder; a cluster of its own for a test that breaks one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from live_cluster import running_cluster
from pyspark.sql import SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.spark import start_session

StartCluster = Callable[..., LocalCluster]

# Two tasks at once; a failed one is not tried again, so that no error is hidden. Compiled in a hurry: tests are short.
MASTER = "local[2]"
SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all tests. It must be left as it was found: stop your queries, drop your views."""
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    session = start_session("tests", master=MASTER, settings=SETTINGS | {"spark.sql.warehouse.dir": warehouse})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes for all tests that break nothing."""
    with running_cluster(tmp_path_factory.mktemp("spark") / "cluster") as running:
        yield running


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """Starts clusters (settings by Kafka's names with underscores) that end with the test."""
    with ExitStack() as running:

        def start(brokers: int = 3, **settings: str) -> LocalCluster:
            directory = tmp_path / f"cluster-{len(list(tmp_path.iterdir()))}"
            return running.enter_context(running_cluster(directory, brokers, **settings))

        yield start


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own; the topic is not created."""
    return re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name).strip("-")[:200]
