"""Many partitions in one request: brokers take them in portions, and their loops go on between."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_cluster import eventually, partition_directories, running_cluster, wait_until_known
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

TOPIC = "many"
COUNT = 1_000
TOPICS = 500

pytestmark = pytest.mark.spec("P6")


def leaderships(cluster: LocalCluster) -> int:
    return cluster.layout.log_file(1).read_text().count("] leads  ")


def test_a_topic_of_a_thousand_partitions_comes_and_goes(tmp_path: Path) -> None:
    """No turn of the loop is long: the watchdog of the cluster says so at its end. It was 0.5 s and more."""
    with running_cluster(tmp_path / "cluster", brokers=1) as cluster, Wire(cluster.layout.client_port(1)) as wire:
        before = leaderships(cluster)
        topic = CreatableTopic(name=TOPIC, num_partitions=COUNT, replication_factor=1)
        (created,) = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics
        assert created.error_code == ErrorCode.NONE, created.error_message
        wait_until_known(cluster, TOPIC, COUNT)
        eventually(lambda: leaderships(cluster) - before == COUNT, "every partition to be led")
        assert wire.produce(TOPIC, b"x", partition=COUNT - 1) == 0
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=30_000)
        assert wire.ask(deletion, 6).responses[0].error_code == ErrorCode.NONE
        eventually(lambda: not partition_directories(cluster, 1, TOPIC), "the directories to go")


def test_hundreds_of_topics_come_and_go(tmp_path: Path) -> None:
    names = [f"{TOPIC}-{number}" for number in range(TOPICS)]
    with running_cluster(tmp_path / "cluster", brokers=1) as cluster, Wire(cluster.layout.client_port(1)) as wire:
        before = leaderships(cluster)
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        answer = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
        assert {each.error_code for each in answer.topics} == {ErrorCode.NONE}
        eventually(lambda: leaderships(cluster) - before == TOPICS, "every partition to be led")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=30_000)
        assert {each.error_code for each in wire.ask(request, 6).responses} == {ErrorCode.NONE}
        eventually(lambda: not partition_directories(cluster, 1, TOPIC), "the directories to go")
