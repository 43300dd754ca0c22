"""aiokafka: the old, non-flexible versions (ApiVersions 0, Metadata 5, Produce 7, Fetch 11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, OffsetAndMetadata, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaConnectionError, ProducerFenced, TopicAlreadyExistsError
from compat_records import CODECS, PARTITIONS, samples
from compat_secure import LOGINS, PASSWORD, USER, Secured, unsigned_token
from live_cluster import PATIENCE_S

CLIENT = "aiokafka"
START_MS = 1_700_000_000_000

MakeConsumer = Callable[..., Awaitable[AIOKafkaConsumer]]
Create = Callable[..., Awaitable[None]]


@pytest.fixture
async def admin(servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=servers)
    await client.start()
    yield client
    await client.close()


@pytest.fixture
def create(admin: AIOKafkaAdminClient, wait_until_known: Callable[[str, int], None]) -> Create:
    async def create(topic: str, partitions: int = 1, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        await admin.create_topics([NewTopic(topic, partitions, 3, topic_configs=settings)])
        await asyncio.to_thread(wait_until_known, topic, partitions)

    return create


@pytest.fixture
async def producer(servers: str) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as client:
        yield client


@pytest.fixture
async def consumer(servers: str) -> AsyncIterator[MakeConsumer]:
    """Makes consumers that are stopped at the end."""
    made: list[AIOKafkaConsumer] = []

    async def make(*topics: str, group: str | None = None, **settings: Any) -> AIOKafkaConsumer:
        client = AIOKafkaConsumer(
            *topics,
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            session_timeout_ms=6000,
            **settings,
        )
        made.append(client)
        await client.start()
        return client

    yield make
    for client in made:
        await client.stop()


async def eventually(condition: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110  # what is waited for sets no event
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"waited {PATIENCE_S:g} s in vain for {what}")


async def eventually_is(ask: Callable[[], Awaitable[object]], expected: object) -> None:
    """Ask again until the answer is the expected one: any broker may be asked, and news takes a moment to reach it."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while await ask() != expected:  # noqa: ASYNC110  # what is waited for sets no event
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"waited {PATIENCE_S:g} s in vain for {expected!r}")


async def read(count: int, *consumers: AIOKafkaConsumer) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(records) < count:
            for consumer in consumers:
                for batch in (await consumer.getmany(timeout_ms=50)).values():
                    records.extend(batch)
    return records


@pytest.mark.feature("headers", "idempotence")
@pytest.mark.parametrize("compression", CODECS)
async def test_records_come_back_byte_equal(
    servers: str,
    topic: str,
    create: Create,
    consumer: MakeConsumer,
    stored_compressions: Callable[[str], set[str]],
    compression: str,
) -> None:
    await create(topic)
    kind = None if compression == "none" else compression
    async with AIOKafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, compression_type=kind, linger_ms=50
    ) as producer:
        sent = [
            await producer.send(topic, value, key, partition=0, headers=headers) for key, value, headers in samples()
        ]
        acknowledged = await asyncio.gather(*sent)
    assert [metadata.offset for metadata in acknowledged] == list(range(len(samples())))

    reader = await consumer()
    reader.assign([TopicPartition(topic, 0)])
    found = [(record.key, record.value, list(record.headers)) for record in await read(len(samples()), reader)]
    assert found == [tuple(sample) for sample in samples()]
    assert compression in stored_compressions(topic)


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_a_producer_without_idempotence_works_with_any_acks(
    servers: str, topic: str, create: Create, consumer: MakeConsumer, acks: int | str
) -> None:
    await create(topic)
    async with AIOKafkaProducer(bootstrap_servers=servers, acks=acks) as producer:
        for number in range(100):
            await producer.send(topic, b"%d" % number)
        await producer.flush()
    reader = await consumer()
    reader.assign([TopicPartition(topic, 0)])
    assert [record.value for record in await read(100, reader)] == [b"%d" % number for number in range(100)]


@pytest.mark.feature("seek by time", "timestamps")
async def test_it_seeks_by_timestamp(
    topic: str, create: Create, producer: AIOKafkaProducer, consumer: MakeConsumer
) -> None:
    await create(topic, 2)
    for number in range(50):
        await producer.send_and_wait(topic, b"%d" % number, partition=number % 2, timestamp_ms=START_MS + 1000 * number)
    reader = await consumer()
    tp = TopicPartition(topic, 0)
    reader.assign([tp])

    async def offset_at(timestamp_ms: int) -> int | None:
        found = (await reader.offsets_for_times({tp: timestamp_ms}))[tp]
        return None if found is None else found.offset

    assert await offset_at(START_MS + 20_000) == 10
    assert await offset_at(START_MS + 20_001) == 11
    assert await offset_at(0) == 0
    assert await offset_at(START_MS + 49_001) is None
    reader.seek(tp, 11)
    records = await read(14, reader)
    assert [record.value for record in records] == [b"%d" % number for number in range(22, 50, 2)]
    assert records[0].timestamp == START_MS + 22_000
    assert await reader.beginning_offsets([tp]) == {tp: 0}
    assert await reader.end_offsets([tp]) == {tp: 25}


@pytest.mark.feature("groups")
@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor], ids=lambda a: a.name
)
async def test_a_group_of_two_rebalances(
    topic: str, create: Create, producer: AIOKafkaProducer, consumer: MakeConsumer, assignor: type
) -> None:
    await create(topic, PARTITIONS)
    group = f"group-of-{topic}"

    async def produce_and_read(round_: int, *members: AIOKafkaConsumer) -> None:
        """Every value comes to exactly one member; then all commit."""
        expected = sorted(b"%d/%d" % (round_, number) for number in range(40))
        for at, value in enumerate(expected):
            await producer.send_and_wait(topic, value, partition=at % PARTITIONS)
        assert sorted(record.value for record in await read(40, *members)) == expected
        for member in members:
            await member.commit()

    settings = {"group": group, "partition_assignment_strategy": [assignor]}
    first = await consumer(topic, **settings)
    await produce_and_read(1, first)
    assert len(first.assignment()) == PARTITIONS

    second = await consumer(topic, **settings)
    await eventually(lambda: [len(m.assignment()) for m in (first, second)] == [2, 2], "two shares")
    assert first.assignment().isdisjoint(second.assignment())
    await produce_and_read(2, first, second)

    await second.stop()
    await eventually(lambda: len(first.assignment()) == PARTITIONS, "the first member to have all partitions again")
    await produce_and_read(3, first)
    assert [await first.committed(TopicPartition(topic, n)) for n in range(PARTITIONS)] == [30] * PARTITIONS


@pytest.mark.feature("resume")
async def test_a_new_consumer_of_the_group_goes_on_where_it_was_committed(
    topic: str, create: Create, producer: AIOKafkaProducer, consumer: MakeConsumer
) -> None:
    await create(topic)
    tp = TopicPartition(topic, 0)
    for number in range(10):
        await producer.send_and_wait(topic, b"%d" % number)
    before = await consumer(group=f"g-{topic}")
    before.assign([tp])
    assert await before.committed(tp) is None
    await before.commit({tp: OffsetAndMetadata(7, "seven")})
    await before.stop()

    after = await consumer(topic, group=f"g-{topic}")
    assert await after.committed(tp) == 7
    assert [record.value for record in await read(3, after)] == [b"7", b"8", b"9"]


async def test_offsets_are_committed_in_transactions(
    topic: str, servers: str, create: Create, consumer: MakeConsumer
) -> None:
    """By a producer that names the group alone (TxnOffsetCommit 0)."""
    await create(topic)
    tp, group = TopicPartition(topic, 0), f"g-{topic}"
    reader = await consumer(group=group)
    reader.assign([tp])
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic) as transactional:
        for offset, commits in [(1, True), (2, False), (3, True)]:
            before = await reader.committed(tp)
            await transactional.begin_transaction()
            await transactional.send_offsets_to_transaction({tp: OffsetAndMetadata(offset, "m")}, group)
            assert await reader.committed(tp) == before
            if commits:
                await transactional.commit_transaction()
                await eventually_is(lambda: reader.committed(tp), offset)
            else:
                await transactional.abort_transaction()
                assert await reader.committed(tp) == before


@pytest.mark.feature("transactions")
async def test_transactions_are_seen_whole_or_not_at_all(
    topic: str, servers: str, create: Create, producer: AIOKafkaProducer, consumer: MakeConsumer
) -> None:
    """Consume, transform, produce: committed, aborted, and taken over by a second instance."""
    output, tp, group = f"{topic}-copy", TopicPartition(topic, 0), f"g-{topic}"
    await create(topic)
    await create(output, PARTITIONS)
    for number in range(20):
        await producer.send(topic, b"%d" % number)
    await producer.flush()
    working = await consumer(topic, group=group, isolation_level="read_committed")
    await read(20, working)

    async def copy(by: AIOKafkaProducer, first: int, count: int) -> None:
        await by.begin_transaction()
        for number in range(first, first + count):
            await by.send(output, b"%d" % number, partition=number % PARTITIONS)
        await by.send_offsets_to_transaction({tp: first + count}, group)
        await by.flush()

    first = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic)
    second = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic)
    await first.start()
    try:
        await copy(first, 0, 10)
        await first.commit_transaction()
        await copy(first, 10, 5)
        await first.abort_transaction()
        await copy(first, 10, 5)
        await second.start()
        with pytest.raises(ProducerFenced):
            await first.commit_transaction()
        await eventually_is(lambda: working.committed(tp), 10)
        await copy(second, 10, 10)
        await second.commit_transaction()
    finally:
        await first.stop()
        await second.stop()

    await eventually_is(lambda: working.committed(tp), 20)
    everything, committed = await consumer(output), await consumer(output, isolation_level="read_committed")
    assert len(await read(30, everything)) == 30
    found = await read(20, committed)
    assert sorted(int(record.value) for record in found) == list(range(20))
    assert await committed.getmany(timeout_ms=300) == {}


@pytest.mark.feature("topics")
async def test_topics_are_created_described_extended_and_deleted(
    admin: AIOKafkaAdminClient, topic: str, create: Create, wait_until_known: Callable[[str, int], None]
) -> None:
    async def replicas() -> list[int]:
        (described,) = await admin.describe_topics([topic])
        return [len(partition["replicas"]) for partition in described["partitions"]]

    await create(topic, 3)
    assert await replicas() == [3, 3, 3]
    assert (await admin.create_topics([NewTopic(topic, 3, 3)])).topic_errors[0][1] == TopicAlreadyExistsError.errno
    await admin.create_partitions({topic: NewPartitions(5)})
    await asyncio.to_thread(wait_until_known, topic, 5)
    assert await replicas() == [3, 3, 3, 3, 3]
    await admin.delete_topics([topic])
    await asyncio.to_thread(wait_until_known, topic, 0)
    assert topic not in await admin.list_topics()


async def test_the_cluster_is_described(admin: AIOKafkaAdminClient) -> None:
    described = await admin.describe_cluster()
    assert sorted(broker["node_id"] for broker in described["brokers"]) == [1, 2, 3]
    assert described["controller_id"] in (1, 2, 3)


async def test_settings_are_read(admin: AIOKafkaAdminClient, topic: str, create: Create) -> None:
    await create(topic, retention_ms="3600000")
    (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    ((error, _, _, name, entries),) = response.resources
    assert (error, name) == (0, topic)
    assert {entry[0]: entry[1] for entry in entries}["retention.ms"] == "3600000"


async def test_groups_are_listed_and_described(
    admin: AIOKafkaAdminClient, topic: str, create: Create, producer: AIOKafkaProducer, consumer: MakeConsumer
) -> None:
    await create(topic)
    group = f"group-of-{topic}"
    await producer.send_and_wait(topic, b"x")
    member = await consumer(topic, group=group, client_id="tester")
    await read(1, member)
    await member.commit()

    assert (group, "consumer") in {each[:2] for each in await admin.list_consumer_groups()}
    (response,) = await admin.describe_consumer_groups([group])
    error, name, state, _, _, members, *_ = response.groups[0]
    assert (error, name, state) == (0, group, "Stable")
    assert [each[1] for each in members] == ["tester"]
    offsets = await admin.list_consumer_group_offsets(group)
    assert offsets[TopicPartition(topic, 0)].offset == 1


async def produce(topic: str, **settings: Any) -> None:
    producer = AIOKafkaProducer(**settings)
    try:
        await producer.start()
        await producer.send_and_wait(topic, b"v")
    finally:
        await producer.stop()


@pytest.mark.feature("TLS")
async def test_it_shows_a_certificate(topic: str, secured: Secured) -> None:
    how = {"bootstrap_servers": secured.tls, "security_protocol": "SSL"}
    with pytest.raises(KafkaConnectionError):
        await produce(topic, **how, ssl_context=secured.context())
    await produce(topic, **how, ssl_context=secured.certified_context())


class Tokens(AbstractTokenProvider):
    def __init__(self, lifetime_s: float) -> None:
        self._lifetime_s = lifetime_s

    async def token(self) -> str:
        return unsigned_token(self._lifetime_s)


@pytest.mark.parametrize("mechanism", LOGINS)
async def test_it_logs_in(topic: str, secured: Secured, mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    how = {
        "bootstrap_servers": secured.sasl,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "ssl_context": secured.context(),
    }
    if mechanism == "OAUTHBEARER":
        right, wrong = ({"sasl_oauth_token_provider": Tokens(lifetime_s)} for lifetime_s in (3600, -3600))
    else:
        right, wrong = ({"sasl_plain_username": USER, "sasl_plain_password": each} for each in (PASSWORD, "wrong"))
    await produce(topic, **how, **right)
    with pytest.raises(KafkaConnectionError):
        await produce(topic, **how, **wrong)
    if mechanism != "OAUTHBEARER":
        assert "SaslAuthenticationFailed: Authentication failed" in caplog.text
