"""A deleted topic is gone from disk, on nodes that were down at the time too; its name may be used again."""

from __future__ import annotations

from functools import partial

import pytest
from live_cluster import (
    PATIENCE_S,
    StartCluster,
    assert_replicas_equal,
    eventually,
    leader_of,
    partition_directories,
    strays,
)
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

TOPIC = "ephemeral"


def write(cluster: LocalCluster, partitions: int, value: bytes) -> None:
    for partition in range(partitions):
        with Wire(cluster.layout.client_port(leader_of(cluster, TOPIC, partition))) as wire:
            eventually(partial(_is_written, wire, value, partition), "a write")


def _is_written(wire: Wire, value: bytes, partition: int) -> bool:
    return wire.produce(TOPIC, value, partition=partition) >= 0


def delete(cluster: LocalCluster) -> None:
    with Wire(cluster.layout.client_port(1)) as wire:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=30_000)
        assert wire.ask(request, 6).responses[0].error_code == ErrorCode.NONE


@pytest.mark.spec("C5")
def test_a_deleted_topic_is_gone_from_every_disk(start_cluster: StartCluster) -> None:
    cluster = start_cluster(log_segment_delete_delay_ms="500")
    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1]])
    write(cluster, 2, b"first life")
    for node_id in cluster.node_ids:
        eventually(lambda n=node_id: len(partition_directories(cluster, n, TOPIC)) == 2, "a replica")  # type: ignore[misc]

    cluster.kill(3)
    delete(cluster)
    for node_id in (1, 2):
        eventually(lambda n=node_id: not partition_directories(cluster, n, TOPIC), "the directories to go")  # type: ignore[misc]
    assert len(partition_directories(cluster, 3, TOPIC)) == 2

    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic(TOPIC, [[1, 2, 3]])
    write(cluster, 1, b"second life")
    cluster.start_node(3, PATIENCE_S)
    cluster.wait_in_sync(PATIENCE_S)
    batches = assert_replicas_equal(cluster, TOPIC)
    assert [record.value for each in batches for record in each.records()] == [b"second life"]
    eventually(lambda: len(partition_directories(cluster, 3, TOPIC)) == 1, "the old directories to go")
    assert len(strays(cluster, 3, TOPIC)) == 2, "they are kept for a while: nobody saw the node delete them"
