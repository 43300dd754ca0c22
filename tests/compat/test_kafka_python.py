"""kafka-python 3: schemas of its own, and the newest versions of the admin and offset APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Event, Thread
from typing import Any
from uuid import UUID

import pytest
from compat_records import CODECS, PARTITIONS, samples
from compat_secure import LOGINS, PASSWORD, USER, Secured, unsigned_token
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigFilterType, ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import (
    InvalidPartitionsError,
    InvalidProducerEpochError,
    ProducerFencedError,
    TopicAlreadyExistsError,
)
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import OffsetAndMetadata
from live_cluster import PATIENCE_S, eventually

CLIENT = "kafka-python"
START_MS = 1_700_000_000_000
POLL_MS = 500

Create = Callable[..., None]
MakeConsumer = Callable[..., KafkaConsumer]


@pytest.fixture
def admin(servers: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=servers)
    yield client
    client.close()


@pytest.fixture
def create(admin: KafkaAdminClient, wait_until_known: Callable[[str, int], None]) -> Create:
    def create(topic: str, partitions: int = 1, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 3, "configs": settings}})
        wait_until_known(topic, partitions)

    return create


@pytest.fixture
def producer(servers: str) -> Iterator[KafkaProducer]:
    client = KafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    yield client
    client.close()


@pytest.fixture
def consumer(servers: str) -> Iterator[MakeConsumer]:
    """Makes consumers that are closed at the end."""
    made: list[KafkaConsumer] = []

    def make(*topics: str, group: str | None = None, **settings: Any) -> KafkaConsumer:
        common = {
            "bootstrap_servers": servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 6000,
        }
        made.append(KafkaConsumer(*topics, **common, **settings))
        for topic in topics:
            # It may assign nothing before it knows the topic, and take what it hears meanwhile for what it assigned.
            made[-1].partitions_for_topic(topic)
        return made[-1]

    yield make
    for client in made:
        client.close(autocommit=False)


def read(count: int, consumer: KafkaConsumer) -> list[Any]:
    found: list[Any] = []

    def step() -> bool:
        for batch in consumer.poll(POLL_MS).values():
            found.extend(batch)
        return len(found) >= count

    eventually(step, f"{count} records")
    return found


class Member(Thread):
    """A group's member in a thread of its own, as this client wants it: a poll that ends early starts joining anew.

    It commits what it was handed before it polls again.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        super().__init__(daemon=True)
        self.consumer = consumer
        self.values: list[bytes] = []
        self.share: set[TopicPartition] = set()
        self.error: Exception | None = None
        self._leave = Event()
        self.start()

    def run(self) -> None:
        try:
            while not self._leave.is_set():
                for batch in self.consumer.poll(POLL_MS).values():
                    self.values.extend(record.value for record in batch)
                    self.consumer.commit()
                self.share = self.consumer.assignment()
        except Exception as error:
            self.error = error

    def leave(self) -> None:
        self._leave.set()
        self.join(PATIENCE_S)
        self.consumer.close(autocommit=False)
        if self.error is not None:
            raise self.error


@pytest.mark.feature("headers", "idempotence")
@pytest.mark.parametrize("compression", CODECS)
def test_records_come_back_byte_equal(
    servers: str,
    topic: str,
    create: Create,
    consumer: MakeConsumer,
    stored_compressions: Callable[[str], set[str]],
    compression: str,
) -> None:
    create(topic)
    kind = None if compression == "none" else compression
    producer = KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, compression_type=kind, linger_ms=50)
    sent = [producer.send(topic, value, key, headers, 0) for key, value, headers in samples()]
    assert [future.get(PATIENCE_S).offset for future in sent] == list(range(len(samples())))
    producer.close()

    reader = consumer()
    reader.assign([TopicPartition(topic, 0)])
    found = [(record.key, record.value, list(record.headers)) for record in read(len(samples()), reader)]
    assert found == [tuple(sample) for sample in samples()]
    assert compression in stored_compressions(topic)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_a_producer_without_idempotence_works_with_any_acks(
    servers: str, topic: str, create: Create, consumer: MakeConsumer, acks: int | str
) -> None:
    create(topic)
    producer = KafkaProducer(bootstrap_servers=servers, enable_idempotence=False, acks=acks)
    for number in range(100):
        producer.send(topic, b"%d" % number)
    producer.flush(PATIENCE_S)
    producer.close()
    reader = consumer()
    reader.assign([TopicPartition(topic, 0)])
    assert [record.value for record in read(100, reader)] == [b"%d" % number for number in range(100)]


@pytest.mark.feature("seek by time", "timestamps")
def test_it_seeks_by_timestamp(topic: str, create: Create, producer: KafkaProducer, consumer: MakeConsumer) -> None:
    create(topic, 2)
    for number in range(50):
        producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=START_MS + 1000 * number).get(
            PATIENCE_S
        )
    reader = consumer()
    tp = TopicPartition(topic, 0)
    reader.assign([tp])

    def offset_at(timestamp_ms: int) -> int | None:
        found = reader.offsets_for_times({tp: timestamp_ms})[tp]
        return None if found is None else found.offset

    assert offset_at(START_MS + 20_000) == 10
    assert offset_at(START_MS + 20_001) == 11
    assert offset_at(0) == 0
    assert offset_at(START_MS + 49_001) is None
    reader.seek(tp, 11)
    records = read(14, reader)
    assert [record.value for record in records] == [b"%d" % number for number in range(22, 50, 2)]
    assert records[0].timestamp == START_MS + 22_000
    assert reader.beginning_offsets([tp]) == {tp: 0}
    assert reader.end_offsets([tp]) == {tp: 25}


@pytest.mark.feature("groups")
@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, StickyPartitionAssignor], ids=lambda assignor: assignor.name
)
def test_a_group_of_two_rebalances(
    topic: str, create: Create, producer: KafkaProducer, consumer: MakeConsumer, assignor: type
) -> None:
    create(topic, PARTITIONS)

    def produce_and_read(round_: int, *members: Member) -> None:
        """Every value comes to exactly one member."""
        expected = sorted(b"%d/%d" % (round_, number) for number in range(40))
        for at, value in enumerate(expected):
            producer.send(topic, value, partition=at % PARTITIONS).get(PATIENCE_S)
        eventually(lambda: sum(len(member.values) for member in members) >= 40, "40 records")
        assert sorted(value for member in members for value in member.values) == expected
        for member in members:
            member.values.clear()

    settings = {"group": f"group-of-{topic}", "partition_assignment_strategy": [assignor]}
    first = Member(consumer(topic, **settings))
    produce_and_read(1, first)
    eventually(lambda: len(first.share) == PARTITIONS, "the thread to say what it has")

    second = Member(consumer(topic, **settings))
    eventually(lambda: [len(first.share), len(second.share)] == [2, 2], "two shares")
    assert first.share.isdisjoint(second.share)
    produce_and_read(2, first, second)

    second.leave()
    eventually(lambda: len(first.share) == PARTITIONS, "the first member to have all partitions again")
    produce_and_read(3, first)
    first.leave()
    observer = consumer(group=settings["group"])
    assert [observer.committed(TopicPartition(topic, n)) for n in range(PARTITIONS)] == [30] * PARTITIONS


@pytest.mark.feature("resume")
def test_a_new_consumer_of_the_group_goes_on_where_it_was_committed(
    topic: str, create: Create, producer: KafkaProducer, consumer: MakeConsumer
) -> None:
    create(topic)
    tp = TopicPartition(topic, 0)
    for number in range(10):
        producer.send(topic, b"%d" % number).get(PATIENCE_S)
    before = consumer(group=f"g-{topic}")
    before.assign([tp])
    assert before.committed(tp) is None
    before.commit({tp: OffsetAndMetadata(7, "seven", -1)})

    after = consumer(topic, group=f"g-{topic}")
    committed = after.committed(tp, metadata=True)
    assert (committed.offset, committed.metadata) == (7, "seven")
    assert [record.value for record in read(3, after)] == [b"7", b"8", b"9"]


@pytest.mark.feature("transactions")
def test_transactions_are_seen_whole_or_not_at_all(
    topic: str, servers: str, create: Create, producer: KafkaProducer, consumer: MakeConsumer
) -> None:
    """Consume, transform, produce: committed, aborted, and taken over by a second instance."""
    output, tp = f"{topic}-copy", TopicPartition(topic, 0)
    create(topic)
    create(output, PARTITIONS)
    for number in range(20):
        producer.send(topic, b"%d" % number)
    producer.flush(PATIENCE_S)
    working = consumer(topic, group=f"g-{topic}", isolation_level="read_committed")
    read(20, working)

    def instance() -> KafkaProducer:
        started = KafkaProducer(bootstrap_servers=servers, transactional_id=topic)
        started.init_transactions()
        return started

    def copy(by: KafkaProducer, first: int, count: int) -> None:
        by.begin_transaction()
        for number in range(first, first + count):
            by.send(output, b"%d" % number, partition=number % PARTITIONS)
        by.send_offsets_to_transaction({tp: OffsetAndMetadata(first + count, "", -1)}, working.group_metadata())
        by.flush(PATIENCE_S)

    with closing(instance()) as first:
        copy(first, 0, 10)
        first.commit_transaction()
        copy(first, 10, 5)
        first.abort_transaction()
        copy(first, 10, 5)
        with closing(instance()) as second:
            with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
                first.commit_transaction()
            assert working.committed(tp) == 10
            copy(second, 10, 10)
            second.commit_transaction()

    eventually(lambda: working.committed(tp) == 20, "the offset of the second instance")
    everything, committed = consumer(output), consumer(output, isolation_level="read_committed")
    assert len(read(30, everything)) == 30
    found = read(20, committed)
    assert sorted(int(record.value) for record in found) == list(range(20))
    assert committed.poll(300) == {}


@pytest.mark.feature("topics")
def test_topics_are_created_described_extended_and_deleted(
    admin: KafkaAdminClient, topic: str, create: Create, wait_until_known: Callable[[str, int], None]
) -> None:
    create(topic, 3)
    (described,) = admin.describe_topics([topic])
    assert [len(partition["replica_nodes"]) for partition in described["partitions"]] == [3, 3, 3]
    (by_id,) = admin.describe_topics([UUID(described["topic_id"])])
    assert by_id["name"] == topic
    with pytest.raises(TopicAlreadyExistsError):
        create(topic)
    admin.create_partitions({topic: 5})
    wait_until_known(topic, 5)
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 5
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 4})
    admin.delete_topics([topic])
    wait_until_known(topic, 0)
    assert topic not in admin.list_topics()


def test_the_cluster_is_described(admin: KafkaAdminClient) -> None:
    described = admin.describe_cluster()
    assert sorted(broker["broker_id"] for broker in described["brokers"]) == [1, 2, 3]
    assert described["controller_id"] in (1, 2, 3)


def test_settings_are_read_and_changed(admin: KafkaAdminClient, topic: str, create: Create) -> None:
    create(topic, retention_ms="3600000")

    def settings() -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = admin.describe_configs([resource], config_filter=ConfigFilterType.ALL)["topic"][topic]
        return {name: row["value"] for name, row in found.items()}

    assert settings()["retention.ms"] == "3600000"
    change = {"max.message.bytes": ("SET", "4096"), "retention.ms": ("DELETE", None)}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, change)])
    eventually(lambda: settings()["max.message.bytes"] == "4096", "the setting to be seen")
    assert settings()["retention.ms"] == "604800000"


def test_groups_are_listed_described_and_deleted(
    admin: KafkaAdminClient, topic: str, create: Create, producer: KafkaProducer, consumer: MakeConsumer
) -> None:
    create(topic)
    group = f"group-of-{topic}"
    tp = TopicPartition(topic, 0)
    producer.send(topic, b"x").get(PATIENCE_S)
    member = consumer(topic, group=group, client_id="tester")
    read(1, member)
    member.commit()

    assert group in {each["group_id"] for each in admin.list_groups()}
    described = admin.describe_groups([group])[group]
    assert (described["error"], described["group_state"]) == (None, "Stable")
    assert [each["client_id"] for each in described["members"]] == ["tester"]
    member.close()

    assert admin.list_group_offsets(group)[group][tp].offset == 1
    admin.alter_group_offsets(group, {tp: OffsetAndMetadata(0, "", -1)})
    assert admin.list_group_offsets(group)[group][tp].offset == 0
    admin.delete_group_offsets(group, [tp])
    assert tp not in admin.list_group_offsets(group)[group]
    assert admin.delete_groups([group]) == {group: "OK"}
    assert group not in {each["group_id"] for each in admin.list_groups()}


def test_offsets_are_listed(admin: KafkaAdminClient, topic: str, create: Create, producer: KafkaProducer) -> None:
    create(topic)
    tp = TopicPartition(topic, 0)
    for number, timestamp in enumerate([5000, 9000, 7000]):
        producer.send(topic, b"%d" % number, timestamp_ms=START_MS + timestamp).get(PATIENCE_S)

    def offset(spec: Any) -> int:
        found: int = admin.list_partition_offsets({tp: spec})[tp].offset
        return found

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == 3
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 1
    assert offset(START_MS + 6000) == 1


@pytest.mark.spec("A4")
def test_partitions_are_reassigned_listed_and_led_by_whom_they_prefer(
    admin: KafkaAdminClient, topic: str, create: Create
) -> None:
    create(topic, 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert admin.alter_partition_reassignments({first: [2, 3], second: [1]}) == {first: None, second: None}
    eventually(lambda: not admin.list_partition_reassignments([first, second]), "the reassignment to be complete")
    assert admin.list_partition_reassignments() == {}

    def assigned() -> list[tuple[int, list[int]]]:
        described = admin.describe_topic_partitions([topic])["topics"][0]["partitions"]
        return [(each["leader_id"], each["replica_nodes"]) for each in described]

    eventually(lambda: [replicas for _, replicas in assigned()] == [[2, 3], [1]], "every node to know")
    refused = admin.alter_partition_reassignments({first: [77], second: None})
    assert [getattr(refused[tp], "__name__", None) for tp in (first, second)] == [
        "InvalidReplicationAssignmentError",
        "NoReassignmentInProgressError",
    ]
    admin.elect_leaders(0, {topic: [0, 1]})
    eventually(lambda: assigned() == [(2, [2, 3]), (1, [1])], "the preferred leaders to lead")
    admin.elect_leaders(0)  # of every partition


def test_topics_are_described_page_by_page(admin: KafkaAdminClient, topic: str, create: Create) -> None:
    create(topic, 3)
    page = admin.describe_topic_partitions([topic], response_partition_limit=2)
    assert [each["partition_index"] for each in page["topics"][0]["partitions"]] == [0, 1]
    assert page["next_cursor"] == {"topic_name": topic, "partition_index": 2}
    rest = admin.describe_topic_partitions([topic], cursor=page["next_cursor"])
    assert [each["partition_index"] for each in rest["topics"][0]["partitions"]] == [2]
    assert rest["next_cursor"] is None


def test_the_quorum_is_described(admin: KafkaAdminClient) -> None:
    described = admin.describe_metadata_quorum()
    (partition,) = described["topics"][0]["partitions"]
    assert partition["leader_id"] in (1, 2, 3)
    assert [voter["replica_id"] for voter in partition["current_voters"]] == [1, 2, 3]
    assert [node["node_id"] for node in described["nodes"]] == [1, 2, 3]


def produce(topic: str, **settings: Any) -> None:
    with closing(KafkaProducer(**settings)) as producer:
        producer.send(topic, b"v").get(PATIENCE_S)


@pytest.mark.feature("TLS")
def test_it_shows_a_certificate(topic: str, secured: Secured) -> None:
    produce(topic, bootstrap_servers=secured.tls, security_protocol="SSL", ssl_context=secured.certified_context())


class Tokens(AbstractTokenProvider):
    def token(self) -> str:
        return unsigned_token()


@pytest.mark.parametrize("mechanism", LOGINS)
def test_it_logs_in(topic: str, secured: Secured, mechanism: str) -> None:
    """Who is refused tries for 30 s, and then does not say why."""
    password = {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    produce(
        topic,
        bootstrap_servers=secured.sasl,
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        ssl_context=secured.context(),
        **({"sasl_oauth_token_provider": Tokens()} if mechanism == "OAUTHBEARER" else password),
    )
