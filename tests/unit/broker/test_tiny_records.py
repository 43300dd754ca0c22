"""A batch of 1.4 KB that holds 2,000,000 records: whatever is asked of it, no turn of the loop gets long (row 4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache

import pytest
from broker_client import NOW_MS, Client, batch, produce_request
from broker_node import create_topic
from live_turns import turn_max_ms

from minikafka.broker.loop_watch import BEAT_S, LoopWatch
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.model import Compression
from minikafka.records.batch import HEADER_SIZE, parse_header, write_header
from minikafka.records.compression import compress
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

pytestmark = pytest.mark.spec("P6")

RECORDS = 2_000_000
LATER_MS = 5
REQUEST_MAX_MS = 50
"""Of CPU time in one turn. They take 5 ms; with the looks into batches on the loop, 95 ms to ask, 1.1 s to produce."""


@cache
def tiny_records() -> bytes:
    """zstd, each record seven bytes with an empty key. The header says that one of them is later: all are looked at."""
    plain = batch(b"x")
    header = parse_header(plain)
    record = bytes([12, 0, 0, 0, 0, 0, 0])  # length, then attributes, deltas, lengths of key and value, headers
    made = bytearray(plain[:HEADER_SIZE]) + compress(Compression.ZSTD, record * RECORDS)
    written = header._replace(
        attributes=int(Compression.ZSTD),
        record_count=RECORDS,
        last_offset_delta=RECORDS - 1,
        max_timestamp=NOW_MS + LATER_MS,
    )
    write_header(made, written)
    assert len(made) < 1500
    return bytes(made)


@asynccontextmanager
async def watched() -> AsyncIterator[None]:
    """No turn within takes more CPU time than one request may."""
    limit_ms = turn_max_ms(REQUEST_MAX_MS)
    watch = LoopWatch(limit_ms)
    watch.start()
    yield
    await asyncio.sleep(2 * BEAT_S)  # the turn that answered is over, and counted
    watch.stop()
    assert watch.longest_s * 1000 <= limit_ms, watch._seen


def by_time(topic: str, timestamp: int) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])


@pytest.mark.parametrize("timestamp", [NOW_MS + LATER_MS, -3], ids=["by time", "newest"])
async def test_a_question_about_its_times(node: Node, client: Client, timestamp: int) -> None:
    """It held the loop for 2.65 s, and the node was fenced."""
    await create_topic(node, "orders")
    request = produce_request("orders", tiny_records())
    async with watched():
        produced = (await client.ask(request)).responses[0].partition_responses[0]
        answer = await client.ask(by_time("orders", timestamp), 7)
    assert produced.error_code == ErrorCode.NONE
    assert not answer.topics[0].partitions[0].error_code
    assert 0 <= answer.topics[0].partitions[0].offset < RECORDS


async def test_producing_it_to_a_compacted_topic(node: Node, client: Client) -> None:
    await create_topic(node, "table", cleanup_policy="compact")
    request = produce_request("table", tiny_records())
    async with watched():
        produced = (await client.ask(request)).responses[0].partition_responses[0]
    assert (produced.error_code, produced.base_offset) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_a_batch_of_very_many_tiny_records_is_fetched(
    start_node: Callable[..., Awaitable[Node]],
    dial: Callable[..., Awaitable[Client]],
    is_cold: bool,
) -> None:
    """From its beginning and from its middle; also by the first fetch after a start, which verifies it."""
    node = await start_node()
    client = await dial(node)
    await create_topic(node, "orders")
    await client.ask(produce_request("orders", tiny_records()))
    if is_cold:
        await node.stop()
        client = await dial(await start_node())
    async with watched():
        for offset in (0, RECORDS // 2, RECORDS - 1):
            fetched = await client.fetch("orders", offset)
            assert fetched.error_code == ErrorCode.NONE
            assert len(bytes(fetched.records)) == len(tiny_records())
