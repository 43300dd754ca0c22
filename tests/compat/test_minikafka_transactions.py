"""Transactions of minikafka's own client: what is promised to an application, and what it is told to do."""

from __future__ import annotations

import asyncio

import pytest
from live_cluster import PATIENCE_S

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Admin, Consumer, FencedError, GroupMetadata, Producer, TransactionAbortedError
from minikafka.client.records import Progress
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Isolation, OffsetAndEpoch, TopicPartition


async def create(servers: str, *topics: str, partitions: int = 2) -> None:
    async with Admin(servers) as admin:
        for topic in topics:
            await admin.create_topic(topic, partitions=partitions)


async def values(servers: str, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[bytes | None]:
    """All that a consumer can read now, in the order of the partitions."""
    async with Admin(servers) as admin:
        (view,) = await admin.describe_topics([topic])
    found: list[bytes | None] = []
    async with Consumer(servers, isolation_level=isolation, auto_offset_reset="earliest") as consumer:
        for index in sorted(view.partitions):
            tp = TopicPartition(topic, index)
            consumer.assign([tp])
            (_, end), *_ = (await consumer.end_offsets([tp])).items()
            while await consumer.position(tp) < end:
                found += [record.value for record in await consumer.poll(200)]
    return found


async def until_stable(servers: str, tp: TopicPartition) -> None:
    """Until the coordinator has ended the first transaction of the partition."""
    async with Consumer(servers, isolation_level=Isolation.READ_COMMITTED) as consumer, asyncio.timeout(PATIENCE_S):
        while not (await consumer.end_offsets([tp]))[tp]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_all_or_nothing(servers: str, topic: str) -> None:
    await create(servers, topic)
    async with Producer(servers, transactional_id=f"of-{topic}") as producer:
        for number in range(3):
            async with producer.transaction():
                for partition in (0, 1):
                    await producer.send(topic, b"%d" % number, partition=partition)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with producer.transaction():
                await producer.send_and_wait(topic, b"aborted", partition=0)
                raise ZeroDivisionError
        async with producer.transaction():
            pass  # nothing at all
        async with producer.transaction():
            await producer.send(topic, b"last", partition=0)
    assert await values(servers, topic) == [b"0", b"1", b"2", b"last", b"0", b"1", b"2"]
    assert b"aborted" in await values(servers, topic, Isolation.READ_UNCOMMITTED)


async def test_whoever_comes_later_fences_the_one_before(servers: str, topic: str) -> None:
    await create(servers, topic)
    async with Producer(servers, transactional_id=f"of-{topic}") as first:
        with pytest.raises(FencedError, match="another producer"):  # noqa: PT012
            async with first.transaction():
                await first.send_and_wait(topic, b"of a zombie", partition=0)
                async with Producer(servers, transactional_id=f"of-{topic}") as second, second.transaction():
                    await second.send(topic, b"of the new one", partition=0)
                await first.send(topic, b"of a zombie", partition=0)
    assert await values(servers, topic) == [b"of the new one"]


async def test_a_transaction_that_takes_too_long_is_done_again(servers: str, topic: str) -> None:
    await create(servers, topic)
    async with Producer(servers, transactional_id=f"of-{topic}", transaction_timeout_ms=200) as producer:
        with pytest.raises(TransactionAbortedError, match="can be done again"):  # noqa: PT012
            async with producer.transaction():
                await producer.send_and_wait(topic, b"too late", partition=0)
                await until_stable(servers, TopicPartition(topic, 0))
        async with producer.transaction():
            await producer.send(topic, b"in time", partition=0)
    assert await values(servers, topic) == [b"in time"]


async def test_offsets_that_come_too_late_are_sent_again(servers: str, topic: str) -> None:
    """The group's coordinator knows a later epoch, and not whose: nobody has taken the transactional id over."""
    await create(servers, topic)
    tp = TopicPartition(topic, 0)
    of_nobody = GroupMetadata(f"of-{topic}", -1, "")
    async with Producer(servers, transactional_id=f"of-{topic}", transaction_timeout_ms=200) as producer:
        with pytest.raises(TransactionAbortedError, match="can be done again"):  # noqa: PT012
            async with producer.transaction():
                await producer.send_and_wait(topic, b"too late", partition=0)
                await producer.send_offsets(Progress({tp: OffsetAndEpoch(1, -1)}, of_nobody))
                await until_stable(servers, tp)
                async with asyncio.timeout(PATIENCE_S):
                    while True:  # its own marker may come a moment later
                        await producer.send_offsets(Progress({tp: OffsetAndEpoch(2, -1)}, of_nobody))
        async with producer.transaction():
            await producer.send_offsets(Progress({tp: OffsetAndEpoch(3, -1)}, of_nobody))
    async with Consumer(servers, group_id=of_nobody.group_id) as consumer:
        assert await consumer.committed(tp) == 3


async def test_records_and_offsets_go_together(servers: str, topic: str) -> None:
    source, target, group = topic, f"{topic}-copy", f"of-{topic}"
    await create(servers, source, target)
    async with Producer(servers) as producer:
        for number in range(100):
            await producer.send(source, b"%d" % number, partition=number % 2)
    attempts = 0
    async with (
        Producer(servers, transactional_id=group) as producer,
        Consumer(
            servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=Isolation.READ_COMMITTED,
        ) as consumer,
    ):
        await consumer.subscribe(source)
        copied = 0
        while copied < 100:
            records = await consumer.poll(int(PATIENCE_S * 1000), max_records=20)
            attempts += 1
            try:
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, record.value, partition=record.partition)
                    await producer.send_offsets(consumer.progress())
                    if attempts % 3 == 2:
                        raise ZeroDivisionError
                copied += len(records)
            except ZeroDivisionError:
                consumer.rewind()
        assert sum([await consumer.committed(TopicPartition(source, index)) or 0 for index in (0, 1)]) == 100
    assert attempts > 5
    assert sorted(await values(servers, target)) == sorted(await values(servers, source))


async def test_offsets_of_another_generation_are_refused(servers: str, topic: str) -> None:
    await create(servers, topic)
    tp = TopicPartition(topic, 0)
    async with Producer(servers, transactional_id=f"of-{topic}") as producer:
        foreign = Progress({tp: OffsetAndEpoch(1, -1)}, GroupMetadata(f"of-{topic}", 7, "nobody"))
        with pytest.raises(KafkaError) as refused:  # noqa: PT012
            async with producer.transaction():
                await producer.send(topic, b"x", partition=0)
                await producer.send_offsets(foreign)
        assert refused.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    assert await values(servers, topic) == []


async def test_a_transaction_outlives_its_coordinator(cluster: LocalCluster, servers: str, topic: str) -> None:
    await create(servers, topic)
    async with Producer(servers, transactional_id=f"of-{topic}") as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"before", partition=0)
            victim = cluster.coordinator_of(f"of-{topic}", transactional=True)
            await asyncio.to_thread(cluster.kill, victim)
        await asyncio.to_thread(cluster.start, PATIENCE_S)
        async with producer.transaction():
            await producer.send(topic, b"after", partition=0)
    await asyncio.to_thread(cluster.wait_in_sync, PATIENCE_S)
    assert await values(servers, topic) == [b"before", b"after"]


async def test_a_producer_says_what_it_needs(servers: str, topic: str) -> None:
    await create(servers, topic)
    async with Producer(servers, transactional_id=f"of-{topic}") as producer:
        with pytest.raises(RuntimeError, match="inside 'async with"):
            await producer.send(topic, b"x")
        with pytest.raises(RuntimeError, match="one at a time"):
            async with producer.transaction(), producer.transaction():
                pass
    async with Producer(servers) as plain:
        with pytest.raises(RuntimeError, match="transactional_id"):
            async with plain.transaction():
                pass
    with pytest.raises(ValueError, match="idempotence"):
        Producer(servers, transactional_id="x", acks=1)
    with pytest.raises(KafkaError) as refused:
        await Producer(servers, transactional_id="x", transaction_timeout_ms=3_600_000).start()
    assert refused.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
