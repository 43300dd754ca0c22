"""Members of a live group go from the classic protocol to the newer one and back, one by one (KIP-848)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from live_cluster import eventually

PARTITIONS = 6
LATER = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION)
"""Commits that a classic member sends while it joins: the coordinator is ahead of them."""


@dataclass
class Rolled:
    """Three places of a group; each has one consumer, of either protocol. Every record that is read is committed."""

    servers: str
    topic: str
    assignor: str
    static: bool
    places: list[Consumer | None] = field(default_factory=lambda: [None] * 3)
    uncommitted: list[dict[int, list[int]]] = field(default_factory=lambda: [{}, {}, {}])
    """By place and partition, the offsets that were read since the last commit."""
    refused: set[tuple[int, int]] = field(default_factory=set)
    """Partition and offset of records whose last commit was refused, as the generation was over: they come again."""
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
        consumer = self.places[place] = Consumer(settings)
        consumer.subscribe([self.topic], on_revoke=lambda _consumer, revoked: self.give_up(place, revoked))

    def stop(self, place: int) -> None:
        """Stop the consumer of this place, if there is one."""
        consumer = self.places[place]
        if consumer is not None:
            eventually(lambda: self.poll() or not self.uncommitted[place], "the last commit")
            self.places[place] = None
            consumer.close()

    def turn(self) -> None:
        """Send one record, and let each member read and commit what has come for it."""
        self.producer.produce(self.topic, b"%d" % self.sent, partition=self.sent % PARTITIONS)
        self.sent += 1
        self.producer.poll(0)
        self.poll()

    def poll(self) -> None:
        """Each member reads and commits a record, if one has come for it."""
        for place, consumer in enumerate(self.places):
            message = None if consumer is None else consumer.poll(0.02)
            if message is not None:
                assert message.error() is None, message.error()
                self.read[message.value() or b""] += 1
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self.uncommitted[place].setdefault(partition, []).append(offset)
            self.commit(place)

    def commit(self, place: int) -> None:
        """Commit what was read; during a rebalance of a cooperative classic member, try again later."""
        consumer, read = self.places[place], self.uncommitted[place]
        if consumer is not None and read:
            offsets = [TopicPartition(self.topic, partition, each[-1] + 1) for partition, each in read.items()]
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() not in LATER:
                    raise
            else:
                read.clear()

    def give_up(self, place: int, revoked: list[TopicPartition]) -> None:
        """Commit before others get these partitions. What is refused now is read again by them."""
        self.commit(place)
        for tp in revoked:
            self.refused.update((tp.partition, offset) for offset in self.uncommitted[place].pop(tp.partition, ()))

    def wait_until_shared(self) -> None:
        """Until each consumer has as many partitions as any other one."""
        running = sum(consumer is not None for consumer in self.places)

        def is_shared() -> bool:
            self.turn()
            counts = [len(consumer.assignment()) for consumer in self.places if consumer is not None]
            return counts == [PARTITIONS // running] * running

        eventually(is_shared, "an even share for each")

    def wait_until_read(self) -> None:
        """All that was sent, each record once but for those whose last commit was refused."""
        assert self.producer.flush(30) == 0
        eventually(lambda: self.poll() or len(self.read) >= self.sent, "the last records")
        assert self.read.keys() == {b"%d" % number for number in range(self.sent)}
        again = {divmod(int(number), PARTITIONS)[::-1] for number, count in self.read.items() if count > 1}
        assert again <= self.refused, "nobody began before the commit"


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
        ends = sum(each.offset for each in committed(group))
        assert ends == group.sent
    finally:
        for place in range(3):
            group.stop(place)


def committed(group: Rolled) -> list[TopicPartition]:
    consumer = group.places[0]
    assert consumer is not None
    offsets: list[TopicPartition] = consumer.committed(
        [TopicPartition(group.topic, number) for number in range(PARTITIONS)], timeout=30
    )
    return offsets
