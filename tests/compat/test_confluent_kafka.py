"""confluent-kafka (librdkafka): the newest flexible versions, idempotence by default in these tests."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from compat_records import CODECS, NOTHING, PARTITIONS, samples
from compat_secure import LOGINS, PASSWORD, USER, Secured, unsigned_token
from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from live_cluster import PATIENCE_S, eventually, leader_of, wait_until_known

import minikafka.client
import minikafka.model
from minikafka.chaos.local_cluster import LocalCluster

CLIENT = "confluent-kafka"


@pytest.fixture
def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


@pytest.fixture
def create(admin: AdminClient, wait_until_known: Callable[[str, int], None]) -> Callable[..., None]:
    def create(topic: str, partitions: int = 1, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        results = admin.create_topics([NewTopic(topic, partitions, 3, config=settings)])
        results[topic].result(PATIENCE_S)
        wait_until_known(topic, partitions)

    return create


@pytest.fixture
def producer(servers: str) -> Producer:
    return Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})


@pytest.fixture
def consumer(servers: str) -> Iterator[Callable[..., Consumer]]:
    """Makes consumers that are closed at the end."""
    made: list[Consumer] = []

    def make(group: str = "unused", **settings: str) -> Consumer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        common = {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
        }
        made.append(Consumer(common | named))
        return made[-1]

    yield make
    for each in made:
        each.close()


def poll(consumer: Consumer, timeout_s: float = 0.05) -> list[Message]:
    """Some messages; an error fails the test."""
    messages = consumer.consume(500, timeout_s)
    for message in messages:
        assert message.error() is None, message.error()
    return messages


def read(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    eventually(lambda: found.extend(poll(consumer)) or len(found) >= count, f"{count} records, {len(found)} read")
    return found


def flush(producer: Producer) -> None:
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.feature("headers", "idempotence")
@pytest.mark.parametrize("compression", CODECS)
def test_records_come_back_byte_equal(
    servers: str,
    topic: str,
    create: Callable[..., None],
    consumer: Callable[..., Consumer],
    stored_compressions: Callable[[str], set[str]],
    compression: str,
) -> None:
    create(topic)
    producer = Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 50, "compression.type": compression}
    )
    expected = [*samples(), NOTHING]
    errors: list[Any] = []
    for key, value, headers in expected:
        producer.produce(topic, value, key, 0, on_delivery=lambda error, _: errors.append(error), headers=headers)
    flush(producer)
    assert errors == [None] * len(expected)

    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 0)])
    found = [(message.key(), message.value(), message.headers() or []) for message in read(reader, len(expected))]
    assert found == [tuple(sample) for sample in expected]
    assert compression in stored_compressions(topic)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_a_producer_without_idempotence_works_with_any_acks(
    servers: str, topic: str, create: Callable[..., None], consumer: Callable[..., Consumer], acks: str
) -> None:
    create(topic)
    producer = Producer({"bootstrap.servers": servers, "acks": acks})
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    flush(producer)
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in read(reader, 100)] == [b"%d" % number for number in range(100)]


@pytest.mark.feature("seek by time", "timestamps")
def test_it_seeks_by_timestamp(
    topic: str, create: Callable[..., None], producer: Producer, consumer: Callable[..., Consumer]
) -> None:
    create(topic, 2)
    for number in range(50):
        producer.produce(topic, b"%d" % number, None, number % 2, timestamp=1_700_000_000_000 + 1000 * number)
        producer.flush(PATIENCE_S)
    reader = consumer()
    times = [1_700_000_020_000, 1_700_000_020_001, 1_600_000_000_000, 1_700_000_049_001]
    found = [reader.offsets_for_times([TopicPartition(topic, 0, time)], PATIENCE_S)[0].offset for time in times]
    assert found == [10, 11, 0, OFFSET_END]

    reader.assign([TopicPartition(topic, 0, found[1])])
    messages = read(reader, 14)
    assert [message.value() for message in messages] == [b"%d" % number for number in range(22, 50, 2)]
    assert messages[0].timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_022_000)
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S) == (0, 25)


@pytest.mark.feature("groups")
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_of_two_rebalances(
    topic: str, create: Callable[..., None], producer: Producer, consumer: Callable[..., Consumer], strategy: str
) -> None:
    create(topic, PARTITIONS)
    group = f"group-of-{topic}"

    def produce(round_: int) -> set[bytes]:
        values = {b"%d/%d" % (round_, number) for number in range(40)}
        for at, value in enumerate(sorted(values)):
            producer.produce(topic, value, partition=at % PARTITIONS)
        flush(producer)
        return values

    def drain(*members: Consumer, expected: set[bytes]) -> Counter[Consumer]:
        """Poll all members until the expected values are there, each once; how many each had."""
        values: list[bytes | None] = []
        shares: Counter[Consumer] = Counter()

        def step() -> bool:
            for member in members:
                messages = poll(member)
                values.extend(message.value() for message in messages)
                shares[member] += len(messages)
            return len(values) >= len(expected)

        eventually(step, f"{len(expected)} records")
        assert sorted(value or b"" for value in values) == sorted(expected)
        for member in members:
            member.commit(asynchronous=False)
        return shares

    def assigned(*members: Consumer) -> list[int]:
        for member in members:
            assert poll(member) == []
        return [len(member.assignment()) for member in members]

    first = consumer(group, partition_assignment_strategy=strategy)
    first.subscribe([topic])
    drain(first, expected=produce(1))
    assert assigned(first) == [PARTITIONS]

    second = consumer(group, partition_assignment_strategy=strategy)
    second.subscribe([topic])
    eventually(lambda: assigned(first, second) == [2, 2], "both members to have their share")
    assert {p.partition for p in first.assignment()}.isdisjoint(p.partition for p in second.assignment())
    shares = drain(first, second, expected=produce(2))
    assert shares == {first: 20, second: 20}

    second.close()
    eventually(lambda: assigned(first) == [PARTITIONS], "the first member to have all partitions again")
    drain(first, expected=produce(3))
    committed = first.committed([TopicPartition(topic, n) for n in range(PARTITIONS)], PATIENCE_S)
    assert [tp.offset for tp in committed] == [30] * PARTITIONS


@pytest.mark.feature("resume")
def test_a_new_consumer_of_the_group_goes_on_where_it_was_committed(
    topic: str, create: Callable[..., None], producer: Producer, consumer: Callable[..., Consumer]
) -> None:
    create(topic)
    for number in range(10):
        producer.produce(topic, b"%d" % number)
    flush(producer)
    with closing(consumer(f"g-{topic}")) as before:
        assert before.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset < 0
        before.commit(offsets=[TopicPartition(topic, 0, 7, metadata="seven")], asynchronous=False)
    after = consumer(f"g-{topic}")
    committed = after.committed([TopicPartition(topic, 0)], PATIENCE_S)[0]
    assert (committed.offset, committed.metadata) == (7, "seven")
    after.subscribe([topic])
    assert [message.value() for message in read(after, 3)] == [b"7", b"8", b"9"]


def test_offsets_are_committed_in_transactions(
    topic: str, servers: str, create: Callable[..., None], producer: Producer, consumer: Callable[..., Consumer]
) -> None:
    """They count with the transaction, and for the group's present generation only (KIP-447)."""
    create(topic)
    producer.produce(topic, b"value")
    flush(producer)
    working = consumer(f"g-{topic}", isolation_level="read_committed")
    working.subscribe([topic])
    read(working, 1)
    transactional = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    transactional.init_transactions(PATIENCE_S)

    def commit(offset: int, member: Any) -> None:
        transactional.begin_transaction()
        transactional.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], member, PATIENCE_S)

    def committed(timeout_s: float = PATIENCE_S) -> int:
        return int(working.committed([TopicPartition(topic, 0)], timeout_s)[0].offset)

    before = working.consumer_group_metadata()
    commit(1, before)
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        committed(0.5)
    transactional.commit_transaction(PATIENCE_S)
    assert committed() == 1
    commit(2, before)
    transactional.abort_transaction(PATIENCE_S)
    assert committed() == 1

    working.close()
    after = consumer(f"g-{topic}", isolation_level="read_committed")
    after.subscribe([topic])
    eventually(lambda: poll(after) or after.assignment(), "the next generation")
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        commit(3, before)
    transactional.abort_transaction(PATIENCE_S)
    commit(4, after.consumer_group_metadata())
    transactional.commit_transaction(PATIENCE_S)
    assert after.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 4


@pytest.mark.feature("transactions")
def test_transactions_are_seen_whole_or_not_at_all(
    topic: str, servers: str, create: Callable[..., None], producer: Producer, consumer: Callable[..., Consumer]
) -> None:
    """Consume, transform, produce: committed, aborted, and taken over by a second instance."""
    output = f"{topic}-copy"
    create(topic)
    create(output, PARTITIONS)
    for number in range(20):
        producer.produce(topic, b"%d" % number)
    flush(producer)
    working = consumer(f"g-{topic}", isolation_level="read_committed")
    working.subscribe([topic])
    read(working, 20)

    def instance() -> Producer:
        started = Producer({"bootstrap.servers": servers, "transactional.id": topic})
        started.init_transactions(PATIENCE_S)
        return started

    def copy(by: Producer, first: int, count: int) -> None:
        by.begin_transaction()
        for number in range(first, first + count):
            by.produce(output, b"%d" % number, partition=number % PARTITIONS)
        after = [TopicPartition(topic, 0, first + count)]
        by.send_offsets_to_transaction(after, working.consumer_group_metadata(), PATIENCE_S)
        flush(by)

    first = instance()
    copy(first, 0, 10)
    first.commit_transaction(PATIENCE_S)
    copy(first, 10, 5)
    first.abort_transaction(PATIENCE_S)
    copy(first, 10, 5)

    second = instance()
    with pytest.raises(KafkaException, match="_FENCED"):
        first.commit_transaction(PATIENCE_S)
    assert working.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 10
    copy(second, 10, 10)
    second.commit_transaction(PATIENCE_S)

    assert working.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 20
    partitions = [TopicPartition(output, number, 0) for number in range(PARTITIONS)]
    everything, committed = consumer(isolation_level="read_uncommitted"), consumer(isolation_level="read_committed")
    everything.assign(partitions)
    committed.assign(partitions)
    assert len(read(everything, 30)) == 30
    found = read(committed, 20)
    assert sorted(int(message.value()) for message in found) == list(range(20))
    assert poll(committed, 0.3) == []


def test_a_transaction_waits_for_a_partition_that_is_not_there_yet(
    admin: AdminClient, topic: str, create: Callable[..., None], servers: str
) -> None:
    """Rather than to abort for those that its coordinator did not try then."""
    transactional = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    transactional.init_transactions(PATIENCE_S)

    def begin() -> None:
        transactional.begin_transaction()
        for partition in range(2):
            transactional.produce(topic, b"", partition=partition)

    create(topic, 2)
    begin()
    transactional.commit_transaction(PATIENCE_S)
    create(f"{topic}-other", 1)
    transactional.begin_transaction()
    transactional.produce(f"{topic}-other", b"")
    # Only now the other's markers are written for sure: one that is late ends up in the topic that is made anew, whose
    # first sequence is then to be 0, as in Apache Kafka.
    transactional.commit_transaction(PATIENCE_S)
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    create(topic, 1)
    begin()
    transactional.poll(0.5)
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE_S)
    transactional.commit_transaction(PATIENCE_S)


def test_a_producer_that_aborts_as_soon_as_it_has_begun_goes_on(
    topic: str, servers: str, create: Callable[..., None]
) -> None:
    """It does not wait for an answer to what it adds, which may wait for the markers of the last transaction."""
    create(topic, 3)
    transactional = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    transactional.init_transactions(PATIENCE_S)
    for _ in range(20):
        transactional.begin_transaction()
        transactional.produce(topic, b"", partition=0)
        transactional.commit_transaction(PATIENCE_S)
        transactional.begin_transaction()
        for partition in range(3):
            transactional.produce(topic, b"", partition=partition)
        transactional.poll(0.001)  # by then it has asked for them
        transactional.abort_transaction(PATIENCE_S)


def test_only_records_without_a_key_are_refused_by_a_compacted_topic(
    servers: str, topic: str, create: Callable[..., None]
) -> None:
    """The others of their batch are told to be sent again."""
    create(topic, cleanup_policy="compact")
    told: dict[int, str] = {}
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 60_000})
    for number in range(9):
        key = None if number % 3 == 0 else b"key"

        def on_delivery(error: Any, _message: Message, number: int = number) -> None:
            told[number] = error.name()

        producer.produce(topic, b"value", key, partition=0, on_delivery=on_delivery)
    assert producer.flush(PATIENCE_S) == 0
    again = "_INVALID_DIFFERENT_RECORD"
    assert told == {number: again if number % 3 else "INVALID_RECORD" for number in range(9)}


def test_the_cluster_and_its_topics_are_described(admin: AdminClient, topic: str, create: Callable[..., None]) -> None:
    create(topic, 3)
    described = admin.describe_cluster(include_authorized_operations=True).result(PATIENCE_S)
    assert len(described.authorized_operations) == 7, "all that there are, as no ACLs are"
    named = admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)[topic].result(
        PATIENCE_S
    )
    assert len(named.authorized_operations) == 8
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]
    assert described.controller.id in (1, 2, 3)
    metadata = admin.list_topics(topic, PATIENCE_S).topics[topic]
    assert [len(metadata.partitions[n].replicas) for n in range(3)] == [3, 3, 3]
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        create(topic)


def test_settings_are_read_and_changed(admin: AdminClient, topic: str, create: Callable[..., None]) -> None:
    create(topic, retention_ms="3600000")
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def setting(name: str) -> str:
        value: str = admin.describe_configs([resource])[resource].result(PATIENCE_S)[name].value
        return value

    assert setting("retention.ms") == "3600000"
    change = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
            ConfigEntry("max.message.bytes", "4096", incremental_operation=AlterConfigOpType.SET),
        ],
    )
    admin.incremental_alter_configs([change])[change].result(PATIENCE_S)
    assert eventually(lambda: setting("max.message.bytes") == "4096", "the setting to be seen")
    assert setting("retention.ms") == "604800000"

    bad = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET),
        ],
    )
    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        admin.incremental_alter_configs([bad])[bad].result(PATIENCE_S)


def test_a_brokers_settings_are_described(admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.BROKER, "2")
    settings = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert settings["node.id"].value == "2"
    assert settings["cluster.secret.file"].value != ""


@pytest.mark.feature("topics")
def test_partitions_are_added_and_topics_deleted(
    admin: AdminClient,
    topic: str,
    create: Callable[..., None],
    producer: Producer,
    wait_until_known: Callable[[str, int], None],
) -> None:
    create(topic, 1)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    wait_until_known(topic, 5)
    assert len(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions) == 5
    delivered: list[Any] = []
    for number in range(5):
        producer.produce(topic, b"x", partition=number, on_delivery=lambda error, message: delivered.append(error))
    flush(producer)
    assert delivered == [None] * 5
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)

    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_until_known(topic, 0)
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topics([topic])[topic].result(PATIENCE_S)


def test_groups_are_listed_described_and_deleted(
    admin: AdminClient,
    topic: str,
    create: Callable[..., None],
    producer: Producer,
    consumer: Callable[..., Consumer],
) -> None:
    create(topic)
    group = f"group-of-{topic}"
    producer.produce(topic, b"x")
    flush(producer)
    member = consumer(group, client_id="tester")
    member.subscribe([topic])
    read(member, 1)
    member.commit(asynchronous=False)

    listed = {each.group_id: each for each in admin.list_consumer_groups().result(PATIENCE_S).valid}
    assert listed[group].state.name == "STABLE"
    asked = admin.describe_consumer_groups([group], include_authorized_operations=True)
    described = asked[group].result(PATIENCE_S)
    assert {"READ", "DESCRIBE", "DELETE"} <= {each.name for each in described.authorized_operations}
    assert [each.client_id for each in described.members] == ["tester"]
    assert [p.topic for p in described.members[0].assignment.topic_partitions] == [topic]
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)

    member.close()
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENCE_S)
    assert [(p.topic, p.partition, p.offset) for p in offsets.topic_partitions] == [(topic, 0, 1)]
    rewound = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])
    admin.alter_consumer_group_offsets([rewound])[group].result(PATIENCE_S)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENCE_S)
    assert offsets.topic_partitions[0].offset == 0

    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert group not in {each.group_id for each in admin.list_consumer_groups().result(PATIENCE_S).valid}


def test_offsets_are_listed(admin: AdminClient, topic: str, create: Callable[..., None], producer: Producer) -> None:
    create(topic)
    for number, timestamp in enumerate([5000, 9000, 7000]):
        producer.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + timestamp)
        flush(producer)
    tp = TopicPartition(topic, 0)

    def offset(spec: Any) -> int:
        results = admin.list_offsets({tp: spec}, isolation_level=IsolationLevel.READ_COMMITTED)
        found: int = results[tp].result(PATIENCE_S).offset
        return found

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(1_700_000_006_000)) == 1


def test_records_are_deleted(admin: AdminClient, topic: str, create: Callable[..., None], producer: Producer) -> None:
    create(topic)
    for number in range(5):
        producer.produce(topic, b"%d" % number)
    flush(producer)
    results = admin.delete_records([TopicPartition(topic, 0, 3)])
    assert [result.result(PATIENCE_S).low_watermark for result in results.values()] == [3]
    tp = TopicPartition(topic, 0)
    assert admin.list_offsets({tp: OffsetSpec.earliest()})[tp].result(PATIENCE_S).offset == 3


def test_preferred_leaders_are_elected(admin: AdminClient, topic: str, create: Callable[..., None]) -> None:
    create(topic)
    tp = TopicPartition(topic, 0)
    (result,) = admin.elect_leaders(ElectionType.PREFERRED, [tp]).result().items()
    assert result[0] == tp
    assert result[1] is None or result[1].name() == "ELECTION_NOT_NEEDED"
    everything = admin.elect_leaders(ElectionType.UNCLEAN).result()
    assert all(error is None or error.name() == "ELECTION_NOT_NEEDED" for error in everything.values())


def test_clients_go_on_when_their_topic_is_made_anew(
    cluster: LocalCluster,
    servers: str,
    topic: str,
    admin: AdminClient,
    producer: Producer,
    consumer: Callable[..., Consumer],
) -> None:
    """It has another leader then. With a lower leader epoch than they know they would not go there (decision 0031)."""

    async def move_to(broker: int) -> None:
        async with minikafka.client.Admin(servers) as ours:
            await ours.alter_partition_reassignments({minikafka.model.TopicPartition(topic, 0): [broker]})

    def goes_on(value: bytes) -> None:
        producer.produce(topic, value)
        flush(producer)
        eventually(lambda: (message := reader.poll(0.05)) is not None and message.value() == value, "the record")

    reader = consumer()
    reader.assign([TopicPartition(topic, 0)])
    for value in (b"before", b"anew"):
        admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1]])])[topic].result(PATIENCE_S)
        wait_until_known(cluster, topic, 1)
        goes_on(value)
        asyncio.run(move_to(2))
        eventually(lambda: leader_of(cluster, topic) == 2, "the move")
        goes_on(value + b" moved")
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        wait_until_known(cluster, topic, 0)


def first_error(config: dict[str, Any], topic: str) -> KafkaError | None:
    """What a producer is told; None: its record is written."""
    told: list[KafkaError | None] = []
    producer = Producer(config | {"log_level": 0, "error_cb": told.append})
    producer.produce(topic, b"v", on_delivery=lambda error, _message: told.append(error))
    eventually(lambda: producer.poll(0.1) or told, "an outcome")
    producer.purge()
    return told[0]


@pytest.mark.feature("TLS")
def test_it_shows_a_certificate(topic: str, secured: Secured) -> None:
    config = {"bootstrap.servers": secured.tls, "security.protocol": "ssl", "ssl.ca.location": secured.authority}
    without = first_error(config, topic)
    assert without is not None
    assert "certificate required" in without.str()
    certificate = {"ssl.certificate.location": secured.certificate, "ssl.key.location": secured.certificate}
    assert first_error(config | certificate, topic) is None


def token(lifetime_s: float, _config: str) -> tuple[str, float]:
    """It is told that the token is good, whatever it is: the broker must find out."""
    return unsigned_token(lifetime_s), time.time() + 3600


@pytest.mark.parametrize("mechanism", LOGINS)
def test_it_logs_in(topic: str, secured: Secured, mechanism: str) -> None:
    config: dict[str, Any] = {
        "bootstrap.servers": secured.sasl,
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": secured.authority,
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        right, wrong = ({"oauth_cb": partial(token, lifetime_s)} for lifetime_s in (3600, -3600))
    else:
        right, wrong = ({"sasl.username": USER, "sasl.password": each} for each in (PASSWORD, "wrong"))
    assert first_error(config | right, topic) is None
    refused = first_error(config | wrong, topic)
    assert refused is not None
    assert refused.code() == KafkaError._AUTHENTICATION
