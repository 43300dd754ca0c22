"""A topic that was compacted once: its gaps are no hindrance on the way to other nodes (row 5 of issue 11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client
from broker_node import PATIENCE_S, Cluster, alter_topic, create_topic, eventually, led
from captured_logs import capture_logs

from minikafka.broker import maintenance
from minikafka.broker.node import Node
from minikafka.broker.partition import Partition
from minikafka.model import TopicPartition
from minikafka.records.batch import iter_batches
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)

Dial = Callable[..., Awaitable[Client]]

TABLE = TopicPartition("table", 0)


@pytest.mark.spec("R11")
@pytest.mark.spec("A2")
async def test_a_reassignment_and_a_recovery_take_the_gaps(
    cluster: Cluster, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followers refused them ("following failed"), and the reassignment hung for ever."""
    monkeypatch.setattr(maintenance, "COMPACTION_CHECK_INTERVAL_S", 0.005)
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    await cluster.start(replica_fetch_max_bytes=1)  # an answer is one batch
    await cluster.ready()
    first = cluster.nodes[1]
    settings = {"segment_bytes": 1200, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01}
    await create_topic(first, "table", replicas=[[1]], **settings)
    client = await dial(first)
    for number in range(12):
        key = b"once %d" % number if number % 4 == 0 else b"again"
        await client.produce("table", b"%d" % number + b"x" * 500, keys=(key,))
    log = led(first, TABLE).log
    await eventually(lambda: log.first_dirty_offset >= log.active_base_offset, "the compaction")
    await alter_topic(first, "table", "cleanup.policy", "delete")
    await eventually(lambda: not log.config.is_compacted, "the node to hear of it")
    expected = offsets(led(first, TABLE))
    assert expected[-1] == 11
    assert len(expected) < 12
    with capture_logs() as logs:
        await reassign(first, 2, 3)
        await eventually(lambda: first.image.partition(TABLE).replicas == (2, 3), "the reassignment to end")  # type: ignore[union-attr]
        assert offsets(await whole(cluster.nodes[2])) == offsets(await whole(cluster.nodes[3])) == expected
        await cluster.kill(3)  # nothing of it was synced
        await cluster.start(3)
        await cluster.ready()
        assert offsets(await whole(cluster.nodes[3])) == expected
        await eventually(lambda: set(cluster.nodes[2].image.partition(TABLE).isr) == {2, 3}, "it to be in sync")  # type: ignore[union-attr]
    bad = {"following failed", "replica damaged"}
    assert not [line for line in logs if line["event"] in bad]


@pytest.mark.spec("R13")
@pytest.mark.spec("A2")
async def test_a_log_that_ends_in_a_gap_has_new_replicas_and_consumers_at_its_end(
    cluster: Cluster, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New replicas ended where the last batch does, in front of the gap, and the reassignment hung for ever.

    The fetches of whoever stood there were answered at once with nothing, again and again.
    """
    monkeypatch.setattr(maintenance, "COMPACTION_CHECK_INTERVAL_S", 0.005)
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    await cluster.start()
    await cluster.ready()
    first = cluster.nodes[1]
    await create_topic(first, "table", replicas=[[1]], min_cleanable_dirty_ratio=0.01)
    client = await dial(first)
    for number in range(12):
        await client.produce("table", b"%d" % number, keys=(b"key" if number == 3 else None,))
    log = led(first, TABLE).log
    log.roll()
    await alter_topic(first, "table", "cleanup.policy", "compact")
    await eventually(lambda: log.first_dirty_offset == 12, "the compaction")
    data = await client.fetch("table", 4, min_bytes=1 << 20, max_wait_ms=60_000)
    assert [(header.record_count, header.next_offset) for _, header in iter_batches(data.records)] == [(0, 12)]
    await reassign(first, 2, 3)
    await eventually(lambda: first.image.partition(TABLE).replicas == (2, 3), "the reassignment to end")  # type: ignore[union-attr]
    assert offsets(await whole(cluster.nodes[2])) == offsets(await whole(cluster.nodes[3])) == [3, 4]


async def reassign(node: Node, *replicas: int) -> None:
    target = ReassignablePartition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="table", partitions=[target])])
    answer = await node.controller.call(request, AlterPartitionReassignmentsResponse, timeout_s=PATIENCE_S)
    assert not answer.responses[0].partitions[0].error_code, answer


async def whole(node: Node) -> Partition:
    """The node's replica, once all of it is known as committed."""
    await eventually(lambda: node.replicas.get(TABLE), "the replica")
    partition = node.replicas.get(TABLE)
    assert partition is not None
    await eventually(lambda: partition.log.log_end_offset == partition.high_watermark == 12, "the records")
    return partition


def offsets(partition: Partition) -> list[int]:
    """The base offset of each batch."""
    log, found = partition.log, []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        headers = [header for _, header in iter_batches(log.read(offset, 1 << 20).read())]
        found += [header.base_offset for header in headers]
        offset = headers[-1].next_offset
    return found
