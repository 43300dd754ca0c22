from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client
from broker_node import create_topic, eventually, led

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

StartNode = Callable[..., Awaitable[Node]]
Join = Callable[[Node], Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]

ORDERS = TopicPartition("orders", 0)
VERSIONS = ApiKey.DELETE_RECORDS.versions


def deletion(*wanted: tuple[str, int, int], timeout_ms: int = 10_000) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)])
            for topic, index, offset in wanted
        ],
        timeout_ms=timeout_ms,
    )


async def delete(
    client: Client, *wanted: tuple[str, int, int], version: int | None = None, timeout_ms: int = 10_000
) -> list[tuple[int, int]]:
    """(error, low watermark) of each."""
    answer = await client.ask(deletion(*wanted, timeout_ms=timeout_ms), version)
    return [(one.error_code, one.low_watermark) for topic in answer.topics for one in topic.partitions]


@pytest.mark.parametrize("version", range(VERSIONS.first, VERSIONS.last + 1))
async def test_a_partition_begins_at_the_offset(node: Node, client: Client, version: int) -> None:
    await create_topic(node, "orders")
    await client.produce("orders", b"0", b"1", b"2", b"3")
    assert await delete(client, ("orders", 0, 2), version=version) == [(0, 2)]
    assert (await client.fetch("orders", 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await client.fetch("orders", 2)).log_start_offset == 2
    assert await delete(client, ("orders", 0, 1), version=version) == [(0, 2)], "it is deleted already"
    assert await delete(client, ("orders", 0, -1), version=version) == [(0, 4)], "all up to the high watermark"
    assert (await client.produce("orders", b"4")).base_offset == 4


async def test_each_partition_that_is_refused_says_why(node: Node, client: Client) -> None:
    await create_topic(node, "orders", partitions=2)
    await create_topic(node, "keys", cleanup_policy="compact")
    await client.produce("orders", b"0")
    wanted = (("orders", 0, 2), ("orders", 0, -2), ("keys", 0, 0), ("nowhere", 0, 0), ("orders", 1, 0))
    assert [(await delete(client, one))[0] for one in wanted] == [
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (ErrorCode.POLICY_VIOLATION, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (0, 0),
    ]
    assert await delete(client, *wanted[2:]) == [
        (ErrorCode.POLICY_VIOLATION, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (0, 0),
    ]
    await create_topic(node, "kept", cleanup_policy="")
    await client.produce("kept", b"0")
    assert await delete(client, ("kept", 0, 1)) == [(0, 1)], "nothing else deletes its records"
    assert await delete(client, ("orders", 0, 0), ("orders", 0, 1)) == [(ErrorCode.INVALID_REQUEST, -1)] * 2
    assert led(node, ORDERS).log.log_start_offset == 0


async def test_the_answer_waits_for_the_followers(start_node: StartNode, join: Join, dial: Dial) -> None:
    leader = await start_node()
    follower = await join(leader)
    await create_topic(leader, "orders", replicas=[[1, 2]])
    client = await dial(leader)
    await client.produce("orders", b"0", b"1", b"2")
    assert await delete(client, ("orders", 0, 2)) == [(0, 2)]
    assert follower.replicas.replica_of(ORDERS).log.log_start_offset == 2
    assert await delete(await dial(follower), ("orders", 0, 2)) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


async def test_a_follower_that_is_not_heard_leaves_the_deletion_unconfirmed(
    start_node: StartNode, join: Join, dial: Dial
) -> None:
    leader = await start_node()
    await join(leader)
    await create_topic(leader, "orders", replicas=[[1, 2]])
    client = await dial(leader)
    await client.produce("orders", b"0", b"1", b"2")
    await eventually(lambda: led(leader, ORDERS).replica.low_watermark({1, 2}) == 0, "the follower's first fetch")
    assert await delete(client, ("orders", 0, 2), timeout_ms=0) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]
    assert led(leader, ORDERS).log.log_start_offset == 2
    await eventually(lambda: led(leader, ORDERS).replica.low_watermark({1, 2}) == 2, "the follower to hear of it")


async def test_what_was_deleted_stays_so_after_a_restart(start_node: StartNode, dial: Dial) -> None:
    node = await start_node()
    await create_topic(node, "orders")
    client = await dial(node)
    await client.produce("orders", b"0", b"1", b"2")
    assert await delete(client, ("orders", 0, 2)) == [(0, 2)]
    await node.stop()
    again = await start_node()
    await eventually(lambda: again.replicas.get(ORDERS), "the replica")
    assert led(again, ORDERS).log.log_start_offset == 2
