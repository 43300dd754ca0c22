"""minikafka's own client, against the cluster that it is made for, and with the clients of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from compat_records import COMPRESSIONS, NOTHING, PARTITIONS, samples
from live_cluster import PATIENCE_S, leader_of

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Admin, Consumer, ConsumerRecord, LogTruncatedError, Producer, RecordMetadata
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression, TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record

START_MS = 1_700_000_000_000


@pytest.fixture
async def admin(servers: str) -> AsyncIterator[Admin]:
    async with Admin(servers) as client:
        yield client


@pytest.fixture
def mortal(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster, for tests that kill nodes: afterwards all are up and in sync again."""
    yield cluster
    cluster.start(PATIENCE_S)
    cluster.wait_in_sync(PATIENCE_S)


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """The next records, however many polls they take."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        polled = await consumer.poll(int(PATIENCE_S * 1000), count - len(records))
        assert polled, f"got {len(records)} of {count} records, and then none for {PATIENCE_S:g} s"
        records += polled
    return records


# -- topics and settings --------------------------------------------------------------------------------------------


async def test_topics(admin: Admin, topic: str) -> None:
    await admin.create_topic(topic, partitions=2, replication_factor=3, configs={"retention.ms": "123456789"})
    (view,) = await admin.describe_topics([topic])
    assert sorted(view.partitions) == [0, 1]
    assert all(len(partition.replicas) == 3 for partition in view.partitions.values())
    assert topic in [found.name for found in await admin.list_topics()]
    with pytest.raises(KafkaError) as raised:
        await admin.create_topic(topic)
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS

    await admin.create_partitions(topic, 3)
    await until(lambda: partition_count(admin, topic), 3)
    with pytest.raises(KafkaError) as raised:
        await admin.create_partitions(topic, 2)
    assert raised.value.code is ErrorCode.INVALID_PARTITIONS

    await admin.delete_topic(topic)
    with pytest.raises(KafkaError) as raised:
        await admin.delete_topic(topic)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def partition_count(admin: Admin, topic: str) -> int:
    return len((await admin.describe_topics([topic]))[0].partitions)


async def test_settings(admin: Admin, topic: str) -> None:
    await admin.create_topic(topic, configs={"retention.ms": "123456789"})

    async def retention() -> tuple[str | None, bool]:
        (entry,) = [entry for entry in await admin.describe_configs(topic) if entry.name == "retention.ms"]
        return entry.value, entry.is_default

    assert await retention() == ("123456789", False)
    await admin.alter_configs(topic, {"retention.ms": None, "segment.bytes": "1048576"})
    await until(retention, ("604800000", True))
    with pytest.raises(KafkaError) as raised:
        await admin.alter_configs(topic, {"no.such.setting": "1"})
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    entries = {entry.name: entry for entry in await admin.describe_broker_configs(2)}
    assert (entries["node.id"].value, entries["node.id"].is_default) == ("2", False)


async def until(ask: Callable[[], object], expected: object) -> None:
    """Brokers hear of changes one after the other."""
    async with asyncio.timeout(PATIENCE_S):
        while await ask() != expected:  # type: ignore[misc]  # noqa: ASYNC110
            await asyncio.sleep(0.02)


# -- produce and consume --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_a_round_trip(
    servers: str, admin: Admin, topic: str, compression: str, stored_compressions: Callable[[str], set[str]]
) -> None:
    sent = [*samples(), NOTHING]
    await admin.create_topic(topic, partitions=1)
    async with Producer(
        servers, compression=Compression[compression.upper()], batch_bytes=900_000, linger_ms=20
    ) as producer:
        deliveries = [
            await producer.send(topic, s.value, key=s.key, headers=s.headers, timestamp_ms=START_MS + n)
            for n, s in enumerate(sent)
        ]
        written = await asyncio.gather(*deliveries)
    assert written == [RecordMetadata(topic, 0, n, START_MS + n) for n in range(len(sent))]
    assert stored_compressions(topic) == {compression}
    async with Consumer(servers, topic, auto_offset_reset="earliest") as consumer:
        found = await read(consumer, len(sent))
    assert [(r.key, r.value, list(r.headers)) for r in found] == [tuple(s) for s in sent]
    assert [r.timestamp for r in found] == [START_MS + n for n in range(len(sent))]


async def test_batches_make_the_round_trip_to_the_byte(servers: str, admin: Admin, topic: str) -> None:
    sent = [bytes(b"." * size) for size in (0, 10, 100_000)]
    await admin.create_topic(topic, partitions=1)
    async with Producer(servers) as producer:
        first = await producer.send_batch(topic, 0, build_batch([Record(-1, START_MS, b"k", v) for v in sent]), 3)
        second = await producer.send_and_wait(topic, b"between", partition=0)
        third = await producer.send_batch(topic, 0, build_batch([Record(-1, START_MS, None, b"last")]), 1)
        assert [(await first).offset, second.offset, (await third).offset] == [0, 3, 4]
    tp = TopicPartition(topic, 0)
    async with Consumer(servers) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 1)
        values: dict[int, bytes | None] = {}
        while len(values) < 4:
            for taken in await consumer.poll_batches(int(PATIENCE_S * 1000)):
                for at, header in taken.batches:
                    records = list(iter_records(taken.buffer, at, header))
                    values |= {r.offset: r.value for r in records if r.offset >= taken.start_offset}
                    assert header.has_producer_id
    assert values == {1: sent[1], 2: sent[2], 3: b"between", 4: b"last"}


async def test_others_read_what_we_write_and_we_what_they_write(servers: str, admin: Admin, topic: str) -> None:
    sent = samples()
    await admin.create_topic(topic, partitions=PARTITIONS)
    async with Producer(servers) as ours:
        for s in sent:
            await ours.send(topic, s.value, key=s.key or b"", headers=s.headers)
    placed: dict[bytes, int] = {}
    async with AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as theirs:
        async with asyncio.timeout(PATIENCE_S):
            for _ in sent:
                record = await theirs.getone()
                placed[record.key] = record.partition
    async with AIOKafkaProducer(bootstrap_servers=servers) as theirs:
        for key, partition in placed.items():
            metadata = await theirs.send_and_wait(topic, b"again", key=key)
            assert metadata.partition == partition, "both hash keys alike"
    async with Consumer(servers, topic, auto_offset_reset="earliest") as consumer:
        found = await read(consumer, len(sent) + len(placed))
    assert sum(record.value == b"again" for record in found) == len(placed)


async def test_a_topic_is_created_on_first_use(servers: str, topic: str) -> None:
    async with Producer(servers) as producer:
        assert (await producer.send_and_wait(topic, b"first")).offset == 0


async def test_seeking_by_time(servers: str, admin: Admin, topic: str) -> None:
    await admin.create_topic(topic, partitions=1)
    tp = TopicPartition(topic, 0)
    async with Producer(servers) as producer:
        for n in range(20):
            await producer.send(topic, b"%d" % n, timestamp_ms=START_MS + n * 1000)
    async with Consumer(servers) as consumer:
        consumer.assign([tp])
        assert await consumer.beginning_offsets([tp]) == {tp: 0}
        assert await consumer.end_offsets([tp]) == {tp: 20}
        found = await consumer.offsets_for_times({tp: START_MS + 7001})
        assert found == {tp: 8}
        assert await consumer.offsets_for_times({tp: START_MS + 60_000}) == {}
        consumer.seek(tp, found[tp])
        assert (await consumer.getone()).value == b"8"


async def test_deleting_records(servers: str, admin: Admin, topic: str) -> None:
    await admin.create_topic(topic, partitions=1, replication_factor=3)
    tp = TopicPartition(topic, 0)
    async with Producer(servers, linger_ms=1000) as producer:
        for n in range(10):
            await producer.send(topic, b"%d" % n)
    assert await admin.delete_records({tp: 4}) == {tp: 4}, "inside the batch"
    assert (await admin.list_offsets({tp: -2}))[tp].offset == 4
    async with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        assert [record.value for record in await read(consumer, 6)] == [b"%d" % n for n in range(4, 10)]
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        await admin.delete_records({tp: 11})
    assert await admin.delete_records({tp: -1}) == {tp: 10}


# -- groups ---------------------------------------------------------------------------------------------------------


async def test_a_group_of_two_with_a_rebalance(servers: str, admin: Admin, topic: str) -> None:
    await admin.create_topic(topic, partitions=PARTITIONS)
    group = f"{topic}-group"
    seen: list[int] = []
    async with Producer(servers) as producer:
        for n in range(200):
            await producer.send(topic, b"%d" % n, partition=n % PARTITIONS)
        await producer.flush()
        first, second = (
            Consumer(servers, topic, group_id=group, auto_offset_reset="earliest", heartbeat_interval_ms=100)
            for _ in range(2)
        )
        async with first:
            seen += [int(r.value or b"") for r in await read(first, 100)]
            assert len(first.assignment) == PARTITIONS
            async with second:
                async with asyncio.timeout(PATIENCE_S):
                    while not len(first.assignment) == len(second.assignment) == PARTITIONS // 2:
                        for consumer in (first, second):
                            seen += [int(r.value or b"") for r in await consumer.poll(50)]
                view = await admin.describe_group(group)
                assert (view.state, view.protocol_type, view.assignor) == ("Stable", "consumer", "range")
                assert sorted(tp.partition for m in view.members for tp in m.assignment) == list(range(PARTITIONS))
                for n in range(200, 400):
                    await producer.send(topic, b"%d" % n, partition=n % PARTITIONS)
                while len(seen) < 400:
                    for consumer in (first, second):
                        seen += [int(r.value or b"") for r in await consumer.poll(50)]
                with pytest.raises(KafkaError) as raised:
                    await admin.delete_group(group)
                assert raised.value.code is ErrorCode.NON_EMPTY_GROUP
    assert sorted(seen) == list(range(400)), "everything once: partitions changed hands between two polls"
    assert (group, "Empty") in {(each.group_id, each.state) for each in await admin.list_groups()}
    async with Consumer(servers, group_id=group) as consumer:
        committed = [await consumer.committed(TopicPartition(topic, index)) for index in range(PARTITIONS)]
    assert committed == [100] * PARTITIONS
    await admin.delete_group(group)
    assert group not in {each.group_id for each in await admin.list_groups()}


async def test_a_group_shared_with_another_client(servers: str, admin: Admin, topic: str) -> None:
    await admin.create_topic(topic, partitions=PARTITIONS)
    group = f"{topic}-group"
    theirs = AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=group, heartbeat_interval_ms=100)
    async with Consumer(servers, topic, group_id=group, heartbeat_interval_ms=100) as ours, theirs:
        async with asyncio.timeout(PATIENCE_S):
            while not len(ours.assignment) == len(theirs.assignment()) == PARTITIONS // 2:
                await ours.poll(50)
                await theirs.getmany(timeout_ms=50)
        shares = {tp.partition for tp in ours.assignment}, {tp.partition for tp in theirs.assignment()}
    assert shares[0] | shares[1] == set(range(PARTITIONS))


# -- a broker that dies ---------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.spec("P1")
@pytest.mark.spec("P3")
async def test_nothing_is_lost_repeated_or_disordered_when_leaders_die(
    mortal: LocalCluster, servers: str, admin: Admin, topic: str
) -> None:
    """One after the other, every broker is killed while records are written and read by a group."""
    await admin.create_topic(topic, partitions=2, replication_factor=3, configs={"min.insync.replicas": "2"})
    acknowledged: list[RecordMetadata] = []
    done, written = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        async with Producer(servers) as producer:
            while not done.is_set():
                number = b"%d" % len(acknowledged)
                acknowledged.append(await producer.send_and_wait(topic, number, partition=len(acknowledged) % 2))
        written.set()

    async def consume() -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []
        async with Consumer(servers, topic, group_id=f"{topic}-group", auto_offset_reset="earliest") as consumer:
            while not written.is_set() or len(found) < len(acknowledged):
                found += await consumer.poll(200)
        return found

    async def wait_for_more() -> None:
        before = len(acknowledged)
        while len(acknowledged) < before + 20:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async with asyncio.timeout(3 * PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        reading = tasks.create_task(consume())
        for _ in range(3):
            await wait_for_more()
            leader = await asyncio.to_thread(leader_of, mortal, topic)
            await asyncio.to_thread(mortal.kill, leader)
            await wait_for_more()
            await asyncio.to_thread(mortal.start_node, leader)
            await asyncio.to_thread(mortal.wait_in_sync, PATIENCE_S)
        done.set()
    found = reading.result()
    for partition in (0, 1):
        numbers = [int(record.value or b"") for record in found if record.partition == partition]
        assert numbers == list(range(partition, len(acknowledged), 2))
    places = {(record.partition, record.offset): int(record.value or b"") for record in found}
    assert [places[m.partition, m.offset] for m in acknowledged] == list(range(len(acknowledged)))


@pytest.mark.spec("E4")
@pytest.mark.spec("C4")
async def test_a_reader_is_told_what_an_unclean_election_lost(
    mortal: LocalCluster, servers: str, admin: Admin, topic: str
) -> None:
    """A replica that has half of the records is all that is left, and the log grows over the gap."""
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    await admin.create_topic(topic, partitions=1, replication_factor=2, configs=settings)
    await asyncio.to_thread(mortal.wait_in_sync, PATIENCE_S)
    leader, follower = (await admin.describe_topics([topic]))[0].partitions[0].replicas
    tp = TopicPartition(topic, 0)
    async with Producer(servers) as producer, Consumer(servers, auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 0)
        for n in range(5):
            await producer.send_and_wait(topic, b"%d" % n)
        await read(consumer, 5)
        await asyncio.to_thread(mortal.kill, follower)
        for n in range(5, 10):
            await producer.send_and_wait(topic, b"%d" % n)
        await read(consumer, 5)
        await asyncio.to_thread(mortal.kill, leader)
        await asyncio.to_thread(mortal.start_node, follower)
        for n in range(8):
            assert (await producer.send_and_wait(topic, b"new")).offset == 5 + n
        with pytest.raises(LogTruncatedError) as raised:
            await read(consumer, 1)
        error = raised.value
        assert error.divergence is not None
        assert (error.tp, error.offset, error.divergence.offset) == (tp, 10, 5)
        consumer.seek(tp, error.divergence.offset)
        assert [record.value for record in await read(consumer, 8)] == [b"new"] * 8
