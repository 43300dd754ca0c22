"""What minikafka's own client costs a program, beside aiokafka: ``python -m benchmarks.client [records]``.

Both write and read the same records of 100 bytes on the same three nodes. CPU is that of the client's process alone,
so it says what a program pays; rates depend on the brokers too, which share the machine's cores.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.clusters import create_topic, running_cluster
from minikafka.client import Consumer, Producer

VALUE = b"." * 100
WRITTEN_AT_ONCE = 20_000
READ_AT_ONCE = 1000


@asynccontextmanager
async def measured(what: str, count: int) -> AsyncIterator[None]:
    """Print what ``count`` records cost."""
    start, cpu = time.perf_counter(), time.process_time()
    yield
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    print(f"{what:<34} {count / seconds:>10,.0f} records/s {cpu_seconds / count * 1e6:>8.2f} us CPU each", flush=True)


async def write(servers: str, topic: str, count: int) -> None:
    """As much as the buffer takes, then wait for it, again and again."""
    async with Producer(servers) as producer:
        await producer.send_and_wait(topic, VALUE)
        async with measured("write, minikafka.client", count):
            for _ in range(count):
                await producer.send(topic, VALUE)
            await producer.flush()
    async with AIOKafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, max_batch_size=256 * 1024
    ) as producer:
        await producer.send_and_wait(topic, VALUE)
        async with measured("write, aiokafka", count):
            for _ in range(0, count, WRITTEN_AT_ONCE):
                await asyncio.gather(*[await producer.send(topic, VALUE) for _ in range(WRITTEN_AT_ONCE)])


async def read(servers: str, topic: str, count: int) -> None:
    """All of it, in batches and one by one."""
    async with Consumer(servers, topic, auto_offset_reset="earliest") as consumer:
        left = count
        async with measured("read in batches, minikafka.client", count):
            while left > 0:
                left -= len(await consumer.poll(30_000, READ_AT_ONCE))
        consumer.seek_to_beginning()
        left = count
        async with measured("read one by one, minikafka.client", count):
            while left > 0:
                await consumer.getone()
                left -= 1
    async with AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        tp = TopicPartition(topic, 0)
        consumer.assign([tp])
        left = count
        async with measured("read in batches, aiokafka", count):
            while left > 0:
                found = await consumer.getmany(timeout_ms=30_000, max_records=READ_AT_ONCE)
                left -= sum(map(len, found.values()))
        await consumer.seek_to_beginning(tp)
        left = count
        async with measured("read one by one, aiokafka", count):
            while left > 0:
                await consumer.getone()
                left -= 1


def main() -> None:
    """Start three nodes, measure, stop them."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with running_cluster() as cluster:
        create_topic(cluster, "client")
        asyncio.run(write(cluster.bootstrap_servers, "client", count))
        asyncio.run(read(cluster.bootstrap_servers, "client", count))


if __name__ == "__main__":
    main()
