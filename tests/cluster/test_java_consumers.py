"""Java's consumers in groups of the newer protocol (KIP-848): their coordinator is killed; they change the protocol."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from select import select
from typing import IO

import pytest
from confluent_kafka import Producer
from live_cluster import PATIENCE_S, StartCluster, wait_until_known
from live_java import FAST, LIBRARIES_OF_CLIENTS, VERSION, NotHereError, compiled
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster

WANTED = f"org.apache.kafka:kafka-clients:{VERSION}"
TOPIC, GROUP, RECORDS = "work", "java-workers", 60
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 2


@pytest.fixture(scope="package")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = Path(__file__).with_name("ConsumerGroup.java")
    try:
        return compiled(tmp_path_factory.mktemp("consumers"), program, LIBRARIES_OF_CLIENTS, WANTED)
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.fixture
def cluster(start_cluster: StartCluster) -> LocalCluster:
    cluster = start_cluster(group_consumer_heartbeat_interval_ms="500", group_consumer_min_heartbeat_interval_ms="500")
    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic(TOPIC, REPLICAS)
    wait_until_known(cluster, TOPIC, len(REPLICAS))
    return cluster


@pytest.fixture
def java(cluster: LocalCluster, class_path: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The program; what it has to complain of is in a file."""
    command = ("java", *FAST, "-cp", class_path, "ConsumerGroup", cluster.bootstrap_servers, TOPIC, GROUP)
    with (tmp_path / "java.log").open("w") as complaints:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True)
        yield process
        process.kill()
        process.wait()


def of(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@pytest.mark.spec("G1", "G7", "G8", "G10", "G11", "G14")
@pytest.mark.long
def test_members_go_on_when_their_coordinator_dies(cluster: LocalCluster, java: subprocess.Popen[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def says(word: str) -> None:
        """In time: each word is a line of its own, and the next one comes only after a command."""
        assert select([java.stdout], [], [], PATIENCE_S)[0], f"waited in vain for {word!r}"
        assert of(java.stdout).readline().strip() == word

    def let_it_read(round_: int) -> None:
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%d/%d" % (round_, number), partition=number % len(REPLICAS))
        assert producer.flush(PATIENCE_S) == 0
        of(java.stdin).write(f"{RECORDS}\n")
        of(java.stdin).flush()

    says("shared")
    let_it_read(1)
    says("read")
    cluster.kill(cluster.coordinator_of(GROUP))
    let_it_read(2)
    says("refused")
    let_it_read(3)
    says("done")
    says("rolled")
    assert java.wait(PATIENCE_S) == 0
