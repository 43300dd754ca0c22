"""A consumer that stands still beyond its session: another has its partitions, and its late commit must not count."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from live_cluster import PATIENCE_S
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Consumer, Producer
from minikafka.model import TopicPartition

T0 = TopicPartition("shared", 0)
SESSION_MS = 1000

# Reads three records; told a line, waits for a share in another generation if the line says so, and commits.
MEMBER = """
import asyncio, sys
from minikafka.client import CommitFailedError, Consumer

async def main():
    async with Consumer(sys.argv[1], "shared", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False,
                        session_timeout_ms=int(sys.argv[2]), heartbeat_interval_ms=100) as consumer:
        records = []
        while len(records) < 3:
            records += await consumer.poll(1000, 3 - len(records))
        print("read", flush=True)
        line = await asyncio.to_thread(sys.stdin.readline)
        before = consumer._membership.generation
        while "later" in line and consumer._membership.generation in (None, before):
            await asyncio.sleep(0.01)
        try:
            await consumer.commit()
            print("committed", flush=True)
        except CommitFailedError as error:
            print(f"refused {error.code.name}", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@asynccontextmanager
async def member(servers: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A member of the group in a process of its own, which has read and not committed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", MEMBER, servers, str(SESSION_MS)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"read\n"
        yield process
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("when", ["at once", "later"])
async def test_who_was_paused_beyond_its_session_commits_nothing(
    start_cluster: Callable[..., LocalCluster], when: str
) -> None:
    cluster = start_cluster(group_min_session_timeout_ms="500", group_initial_rebalance_delay_ms="0")
    servers = cluster.bootstrap_servers
    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic("shared", [[1, 2, 3]])
    async with asyncio.timeout(4 * PATIENCE_S), Producer(servers, max_block_ms=60_000) as producer:
        for number in range(10):
            await producer.send("shared", b"%d" % number, partition=0)
        await producer.flush()
        async with member(servers) as paused:
            assert paused.stdin is not None
            assert paused.stdout is not None
            paused.send_signal(signal.SIGSTOP)
            async with Consumer(
                servers, "shared", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
            ) as other:
                read = [await other.getone() for _ in range(10)]
                assert [record.offset for record in read] == list(range(10)), "nothing was committed before"
                await other.commit()
                reading = asyncio.create_task(other.getone())  # it is done with them
                paused.send_signal(signal.SIGCONT)
                paused.stdin.write(f"{when}\n".encode())
                said = await paused.stdout.readline()
                assert said.startswith(b"refused "), said
                assert await other.committed(T0) == 10
                reading.cancel()
                await asyncio.wait((reading,))
