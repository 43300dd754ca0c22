"""Consumer groups of the newer protocol (KIP-848), with librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from live_cluster import eventually

CLIENT = "confluent-kafka"
PARTITIONS = 6

NewConsumer = Callable[..., Consumer]


@pytest.fixture
def consumer(servers: str) -> Iterator[NewConsumer]:
    """Makes consumers; those that are not closed are closed at the end."""
    made: list[Consumer] = []

    def make(group: str, **settings: object) -> Consumer:
        more = {name.replace("_", "."): value for name, value in settings.items()}
        made.append(
            Consumer(
                {
                    "bootstrap.servers": servers,
                    "group.id": group,
                    "group.protocol": "consumer",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    **more,
                }
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


@pytest.fixture
def create(admin: AdminClient, wait_until_known: Callable[[str, int], None]) -> Callable[[str], None]:
    """Creates a topic that every node knows."""

    def make(topic: str) -> None:
        admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(30)
        wait_until_known(topic, PARTITIONS)

    return make


def produce(servers: str, topic: str, round_: int) -> set[bytes]:
    producer = Producer({"bootstrap.servers": servers})
    values = {b"%d/%d" % (round_, number) for number in range(60)}
    for number, value in enumerate(sorted(values)):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return values


def drain(members: list[Consumer], expected: set[bytes]) -> None:
    """All of these, each once; and then commit."""
    found: list[bytes] = []

    def step() -> bool:
        for member in members:
            message = member.poll(0.05)
            if message is not None:
                assert message.error() is None
                found.append(message.value() or b"")
        return len(found) >= len(expected)

    eventually(step, f"{len(expected)} records")
    assert sorted(found) == sorted(expected)
    for member in members:
        if member.assignment():
            member.commit(asynchronous=False)


def shares(members: list[Consumer]) -> list[int]:
    for member in members:
        assert member.poll(0.05) is None
    return sorted(len(member.assignment()) for member in members)


@pytest.mark.spec("G3", "G4", "G11")
@pytest.mark.feature("consumer protocol")
def test_three_members_share_the_partitions_and_go_on_where_they_were(
    servers: str, topic: str, create: Callable[[str], None], consumer: NewConsumer, admin: AdminClient
) -> None:
    create(topic)
    group = f"group-of-{topic}"
    first = consumer(group)
    first.subscribe([topic])
    drain([first], produce(servers, topic, 1))
    members = [first, consumer(group), consumer(group, group_remote_assignor="range")]
    for member in members[1:]:
        member.subscribe([topic])
    eventually(lambda: shares(members) == [2, 2, 2], "two partitions for each")
    drain(members, produce(servers, topic, 2))

    described = admin.describe_consumer_groups([group])[group].result(30)
    assert (described.state, described.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    assert sorted(len(member.assignment.topic_partitions) for member in described.members) == [2, 2, 2]
    listed = admin.list_consumer_groups().result(30).valid
    assert (group, ConsumerGroupType.CONSUMER) in {(each.group_id, each.type) for each in listed}

    first.close()
    eventually(lambda: shares(members[1:]) == [3, 3], "three partitions for each")
    drain(members[1:], produce(servers, topic, 3))
    for member in members[1:]:
        member.close()
    later = consumer(group)
    later.subscribe([topic])
    drain([later], produce(servers, topic, 4))
    offsets = later.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=30)
    assert [each.offset for each in offsets] == [40] * PARTITIONS


@pytest.mark.spec("G10")
def test_topics_are_selected_by_an_expression(
    servers: str, topic: str, create: Callable[[str], None], consumer: NewConsumer
) -> None:
    create(f"{topic}-a")
    create(f"{topic}-b")
    one = consumer(f"group-of-{topic}")
    one.subscribe([f"^{topic}-[ab]$"])
    eventually(lambda: shares([one]) == [2 * PARTITIONS], "the partitions of both topics")


def test_members_read_partitions_in_their_racks(topic: str, consumer: NewConsumer, admin: AdminClient) -> None:
    """Each node is a rack, and each partition has one replica. Members join one by one, as consumers do."""
    nodes = [1, 2, 3, 3, 2, 1]
    new = NewTopic(topic, len(nodes), replica_assignment=[[node] for node in nodes])
    admin.create_topics([new])[topic].result(30)
    members = {rack: consumer(f"group-of-{topic}", client_rack=rack) for rack in ("r3", "r1", "r2")}
    for member in members.values():
        member.subscribe([topic])

    def racks() -> dict[str, list[str]]:
        shares([*members.values()])
        return {
            rack: [f"r{nodes[owned.partition]}" for owned in member.assignment()] for rack, member in members.items()
        }

    eventually(lambda: racks() == {rack: [rack, rack] for rack in members}, "each to have those of its rack")


@pytest.mark.spec("G7")
def test_a_static_member_keeps_its_partitions_over_a_restart(
    servers: str, topic: str, create: Callable[[str], None], consumer: NewConsumer
) -> None:
    create(topic)
    group = f"group-of-{topic}"
    static, other = consumer(group, group_instance_id="s"), consumer(group)
    for member in (static, other):
        member.subscribe([topic])
    eventually(lambda: shares([static, other]) == [3, 3], "three partitions for each")
    had = {each.partition for each in static.assignment()}
    static.close()
    again = consumer(group, group_instance_id="s")
    again.subscribe([topic])
    eventually(lambda: shares([again]) == [3], "its partitions")
    assert {each.partition for each in again.assignment()} == had
    assert shares([other]) == [3]
