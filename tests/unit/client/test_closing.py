"""A close() that is cancelled, wherever it is."""

from __future__ import annotations

import asyncio
from itertools import count

from scripted_cluster import ScriptedCluster, until

from minikafka.client import Consumer, Producer


async def close_for(client: Producer | Consumer, turns: int) -> bool:
    """Cancel a close after so many turns of the loop. True when it had ended by then."""
    closing = asyncio.ensure_future(client.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    has_ended = closing.done()
    closing.cancel()
    await asyncio.wait([closing])
    return has_ended


async def test_a_producer_keeps_no_connection(cluster: ScriptedCluster) -> None:
    for turns in count(1):
        producer = Producer(cluster.servers)
        await producer.start()
        await producer.send("t", b"a", partition=0)
        has_ended = await close_for(producer, turns)
        await until(lambda: cluster.connection_count == 0)
        if has_ended:
            break


async def test_a_consumer_keeps_no_connection(cluster: ScriptedCluster) -> None:
    for turns in count(1):
        consumer = Consumer(cluster.servers, "t", group_id="g", auto_offset_reset="earliest", fetch_max_wait_ms=20)
        await consumer.start()
        await consumer.poll(timeout_ms=10)
        has_ended = await close_for(consumer, turns)
        await until(lambda: cluster.connection_count == 0)
        if has_ended:
            break
