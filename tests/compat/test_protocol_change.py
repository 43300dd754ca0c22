"""Members of a live group go from the classic protocol to the newer one and back, one by one (KIP-848)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from live_cluster import eventually

PARTITIONS = 6
LATER = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION)
"""A classic group is between two generations, or has begun one that the member has not heard of: it commits again."""


class Member(threading.Thread):
    """One consumer in a thread of its own: a commit waits for a JoinGroup before it, and that for all other members."""

    def __init__(self, settings: dict[str, object], topic: str, read: Counter[bytes]) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.read = read  # of all members, by value
        self.uncommitted: dict[int, list[tuple[int, bytes]]] = {}
        """By partition, what was read and is not committed."""
        self.refused: int | None = None  # the error of the last commit
        self.partitions = 0
        self.failed: BaseException | None = None
        self._stops = threading.Event()
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic], on_revoke=self._give_up, on_lost=self._lose)
        self.start()

    def run(self) -> None:
        """Read records and commit each."""
        try:
            while not self._stops.is_set() or self.uncommitted:
                message = self._consumer.poll(0.02)
                if message is not None:
                    self._take(message.error(), message.value(), message.partition(), message.offset())
                self._commit()
                self.partitions = len(self._consumer.assignment())
            self._consumer.close()
        except BaseException as error:
            self.failed = error

    def stop(self) -> None:
        """Commit all, and leave."""
        self._stops.set()
        self.join(30)
        assert not self.is_alive(), "a member does not come to an end"
        self.check()

    def check(self) -> None:
        """Raise what it ran into."""
        if self.failed is not None:
            raise self.failed

    def _take(self, error: KafkaError | None, value: bytes | None, partition: int | None, offset: int | None) -> None:
        assert error is None, error
        assert value is not None
        assert partition is not None
        assert offset is not None
        self.read[value] += 1
        self.uncommitted.setdefault(partition, []).append((offset, value))

    def _commit(self, *must: int) -> None:
        """All that was read, now or later; ``must``: of these partitions now."""
        if not self.uncommitted:
            return
        offsets = [
            TopicPartition(self.topic, partition, read[-1][0] + 1) for partition, read in self.uncommitted.items()
        ]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self.refused = error.args[0].code()
            if self.refused not in LATER or not self.uncommitted.keys().isdisjoint(must):
                raise
        else:
            self.refused = None
            self.uncommitted.clear()

    def _give_up(self, _consumer: Consumer, revoked: list[TopicPartition]) -> None:
        """Others get these partitions: this is the last moment."""
        self._commit(*(each.partition for each in revoked))

    def _lose(self, _consumer: Consumer, lost: list[TopicPartition]) -> None:
        """librdkafka gives all up when a commit meets a generation that it has not heard of; others read that again."""
        message = f"not a member any more, with {len(lost)} partitions; the last commit met {self.refused}"
        assert self.refused == KafkaError.ILLEGAL_GENERATION, message
        for each in lost:
            self.read.subtract(value for _, value in self.uncommitted.pop(each.partition, []))


@dataclass
class Rolled:
    """Three places of a group; each has one consumer, of either protocol. Every record that is read is committed."""

    servers: str
    topic: str
    assignor: str
    static: bool
    places: list[Member | None] = field(default_factory=lambda: [None] * 3)
    sent: int = 0
    read: Counter[bytes] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 0})

    def start(self, place: int, protocol: str) -> None:
        """Stop the consumer of this place, and start another one."""
        self.stop(place)
        settings: dict[str, object] = {
            "bootstrap.servers": self.servers,
            "group.id": self.topic,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            assignor = {"partition.assignment.strategy": self.assignor}
            settings |= assignor | {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        if self.static:
            settings["group.instance.id"] = f"place-{place}"
        self.places[place] = Member(settings, self.topic, self.read)

    def stop(self, place: int) -> None:
        """Stop the consumer of this place, if there is one."""
        member, self.places[place] = self.places[place], None
        if member is not None:
            member.stop()

    def turn(self) -> None:
        """Send one record."""
        self.producer.produce(self.topic, b"%d" % self.sent, partition=self.sent % PARTITIONS)
        self.sent += 1
        self.producer.poll(0)

    def wait_until_shared(self) -> None:
        """Until each consumer has as many partitions as any other one."""
        running = [member for member in self.places if member is not None]

        def is_shared() -> bool:
            self.turn()
            for member in running:
                member.check()
            return [member.partitions for member in running] == [PARTITIONS // len(running)] * len(running)

        eventually(is_shared, "an even share for each")

    def wait_until_read(self) -> None:
        """All that was sent, each record once."""
        assert self.producer.flush(30) == 0
        eventually(lambda: self.read.total() >= self.sent, "the last records")
        for place in range(3):
            self.stop(place)
        assert self.read == Counter(b"%d" % number for number in range(self.sent))


@pytest.mark.spec("G14")
@pytest.mark.parametrize(("assignor", "static"), [("range", True), ("cooperative-sticky", False)])
def test_members_are_rolled_one_by_one_and_back_while_records_flow(
    servers: str, topic: str, wait_until_known: Callable[[str, int], None], assignor: str, static: bool
) -> None:
    """Each consumer commits what it read, and no other one begins before that."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(30)
    wait_until_known(topic, PARTITIONS)
    group = Rolled(servers, topic, assignor, static)

    def is_of(kind: ConsumerGroupType) -> bool:
        group.turn()
        listed = admin.list_consumer_groups().result(30).valid
        return any((each.group_id, each.type) == (topic, kind) for each in listed)

    try:
        for place in range(3):
            group.start(place, "classic")
        group.wait_until_shared()
        assert is_of(ConsumerGroupType.CLASSIC)
        for protocol, at_first, at_last in (
            ("consumer", ConsumerGroupType.CONSUMER, ConsumerGroupType.CONSUMER),
            ("classic", ConsumerGroupType.CONSUMER, ConsumerGroupType.CLASSIC),
        ):
            for place in range(3):
                group.start(place, protocol)
                group.wait_until_shared()
                assert is_of(at_first if place < 2 else at_last)
        group.wait_until_read()
        assert sum(each.offset for each in committed(group)) == group.sent
    finally:
        for place in range(3):
            group.stop(place)


def committed(group: Rolled) -> list[TopicPartition]:
    """What the group has committed."""
    reader = Consumer({"bootstrap.servers": group.servers, "group.id": group.topic})
    offsets: list[TopicPartition] = reader.committed(
        [TopicPartition(group.topic, number) for number in range(PARTITIONS)], timeout=30
    )
    reader.close()
    return offsets
