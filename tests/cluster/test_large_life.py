"""What happens to a cluster of 1,500 partitions with three copies each, while a client writes.

The attacks of ``tests/hostile`` send requests to one node. Here nodes die, come back with nothing, and take over from
one another, and one request concerns every log. What is quick for ten partitions must not hold a loop for 1,500: the
watchdog of the cluster says so at its end.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from cluster_load import Load
from live_cluster import eventually, partition_directories, running_cluster
from live_wire import Wire, batch

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.metadata.records import ConfigResourceType
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.wire.schema import Message

TOPIC: Final = "many"
NAMES: Final = [f"{TOPIC}-{number}" for number in range(500)]
PARTITIONS: Final = range(3)
"""Of each topic."""
LONG_S: Final = 240.0
TIMEOUT_MS: Final = 60_000


def ask(cluster: LocalCluster, request: Message, version: int) -> Any:
    """A node that is up passes it on."""
    with Wire(cluster.layout.client_port(min(cluster.running()))) as wire:
        return wire.ask(request, version)


def alter(kind: ConfigResourceType, names: list[str], name: str, value: str) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=name, config_operation=0, value=value)]
    resources = [AlterConfigsResource(resource_type=kind, resource_name=each, configs=configs) for each in names]
    return IncrementalAlterConfigsRequest(resources=resources)


def create(cluster: LocalCluster) -> None:
    topics = [CreatableTopic(name=name, num_partitions=len(PARTITIONS), replication_factor=3) for name in NAMES]
    answer = ask(cluster, CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 7)
    assert {each.error_code for each in answer.topics} == {ErrorCode.NONE}
    eventually(lambda: is_written(cluster), "every partition to be written", LONG_S)


def is_written(cluster: LocalCluster) -> bool:
    """A record for each partition, acks=all, by way of its leader."""
    led: dict[int, dict[str, list[int]]] = {}
    for topic in ask(cluster, MetadataRequest(topics=None), 9).topics:
        for partition in topic.partitions if topic.name.startswith(f"{TOPIC}-") else ():
            led.setdefault(partition.leader_id, {}).setdefault(topic.name, []).append(partition.partition_index)
    return all(node_id in cluster.running() and write(cluster, node_id, topics) for node_id, topics in led.items())


def write(cluster: LocalCluster, node_id: int, topics: dict[str, list[int]]) -> bool:
    records = bytes(batch(b"x" * 100))
    data = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=n, records=records) for n in indexes])
        for name, indexes in topics.items()
    ]
    with Wire(cluster.layout.client_port(node_id)) as wire:
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data), 9)
    return not any(partition.error_code for topic in answer.responses for partition in topic.partition_responses)


def kill_the_controller(cluster: LocalCluster) -> None:
    before = ask(cluster, MetadataRequest(topics=[]), 9).controller_id
    cluster.kill(before)
    eventually(lambda: ask(cluster, MetadataRequest(topics=[]), 9).controller_id not in (before, -1), "a controller")
    cluster.start(LONG_S)


def restart_each(cluster: LocalCluster) -> None:
    for node_id in cluster.node_ids:
        assert not cluster.stop_node(node_id, LONG_S), "it had to be killed"
        cluster.start(LONG_S)
        cluster.wait_in_sync(LONG_S)


def kill_all(cluster: LocalCluster) -> None:
    cluster.kill_all()
    cluster.start(LONG_S)


def lose_logs(cluster: LocalCluster) -> None:
    """All of them are fetched again, one portion after the other."""
    cluster.kill(3)
    for directory in partition_directories(cluster, 3, TOPIC):
        shutil.rmtree(directory)
    cluster.start(LONG_S)


def set_for_all_brokers(cluster: LocalCluster) -> None:
    for name, value in (("log.retention.ms", "80000000"), ("unclean.leader.election.enable", "true")):
        answer = ask(cluster, alter(ConfigResourceType.BROKER, [""], name, value), 1)
        assert not answer.responses[0].error_code, answer.responses[0].error_message


def set_for_all_topics(cluster: LocalCluster) -> None:
    for name, value in (("min.insync.replicas", "2"), ("retention.ms", "80000000")):
        answer = ask(cluster, alter(ConfigResourceType.TOPIC, NAMES, name, value), 1)
        assert {each.error_code for each in answer.responses} == {ErrorCode.NONE}


def reassign(cluster: LocalCluster) -> None:
    """To two replicas each, and back to three."""
    for wanted in (
        {index: [index % 3 + 1, (index + 1) % 3 + 1] for index in PARTITIONS},
        {index: [(index + 2) % 3 + 1, index % 3 + 1, (index + 1) % 3 + 1] for index in PARTITIONS},
    ):
        partitions = [ReassignablePartition(partition_index=n, replicas=replicas) for n, replicas in wanted.items()]
        topics = [ReassignableTopic(name=name, partitions=partitions) for name in NAMES]
        answer = ask(cluster, AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 1)
        assert not answer.error_code, answer.error_message
        cluster.wait_in_sync(LONG_S)


def let_all_expire(cluster: LocalCluster) -> None:
    """Each log rolls, and gives up what it had."""
    for name, value in (("segment.ms", "1000"), ("retention.ms", "1000")):
        ask(cluster, alter(ConfigResourceType.TOPIC, NAMES, name, value), 1)
    eventually(lambda: is_written(cluster), "every partition to be written", LONG_S)
    count = len(NAMES) * len(PARTITIONS) * len(cluster.node_ids) // 2
    eventually(lambda: said(cluster).count("segments deleted") > count, "half of them to have expired", LONG_S)


def delete(cluster: LocalCluster) -> None:
    topics = [DeleteTopicState(name=name) for name in NAMES]
    answer = ask(cluster, DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 6)
    assert {each.error_code for each in answer.responses} == {ErrorCode.NONE}
    eventually(
        lambda: not any(partition_directories(cluster, node_id, TOPIC) for node_id in cluster.node_ids),
        "the directories to go",
        LONG_S,
    )


def said(cluster: LocalCluster) -> str:
    return "".join(cluster.layout.log_file(node_id).read_text() for node_id in cluster.node_ids)


EVENTS: Final[tuple[Callable[[LocalCluster], None], ...]] = (
    kill_the_controller,
    restart_each,
    kill_all,
    lose_logs,
    set_for_all_brokers,
    set_for_all_topics,
    reassign,
    let_all_expire,
    delete,
)


@pytest.mark.long
@pytest.mark.spec("P6")
def test_whatever_happens_to_a_large_cluster_holds_no_loop(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "cluster", log_retention_check_interval_ms="3000") as cluster:
        load = Load(cluster)
        create(cluster)
        for event in EVENTS:
            event(cluster)
            cluster.wait_in_sync(LONG_S)
            load.wait_for_more()
        load.finish()
        assert "cannot append" not in said(cluster), "followers were suspected"
