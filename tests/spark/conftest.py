"""One Spark session and one cluster for all tests of this folder; a cluster of its own for a test that breaks one."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from live_cluster import StartCluster, running_cluster
from pyspark.sql import SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.spark import start_session

sys.path.insert(0, str(Path(__file__).parent))

from kafka_connector import REQUIRED, Connector, find_connector
from librdkafka import create_topic

# Two tasks at once; a failed one is not tried again, so that no error is hidden. Compiled in a hurry, expressions
# not at all, and no plan is made anew half way: for a few rows each of these would take a third more. Verbs and drivers
# that are killed do as users do.
MASTER = "local[2]"
SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.pollingDelay": "50",  # ms, between two looks for new records, each of which asks brokers
}


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all tests. It must be left as it was found: stop your queries, drop your views."""
    settings = SETTINGS | {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = start_session("tests", master=MASTER, settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="package")
def found_connector(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Connector:
    """Spark's own Kafka connector, as far as it could be found, which the session knows from then on."""
    found = find_connector(tmp_path_factory.mktemp("connector"))
    for jar in found.jars:
        spark.sql(f"ADD JAR '{jar}'")
    if found.missing:
        instead = f"; the tests run with {found.version}" if found.version else ""
        warnings.warn(f"no reference of the same version: {found.missing}{instead}", stacklevel=1)
    return found


@pytest.fixture
def connector(found_connector: Connector) -> Connector:
    """Makes ``format("kafka")`` work; the test is skipped where no version can be had."""
    if found_connector.missing and os.environ.get(REQUIRED) == "required":
        pytest.fail(found_connector.missing)
    if not found_connector.jars:
        pytest.skip(found_connector.missing)
    return found_connector


@pytest.fixture(scope="package")
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


@pytest.fixture
def created(cluster: LocalCluster, topic: str) -> str:
    """A topic of the test's own with three partitions."""
    return create_topic(cluster, topic)
