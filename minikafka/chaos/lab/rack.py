"""Rack-aware reading: a consumer reads from the replica in its own rack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from minikafka.chaos.lab.clients import IMPATIENT, Writer, create_topic
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage
from minikafka.chaos.rounds.reading import silent

TOPIC: Final = "orders"
SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
COUNT: Final = 2_000
SIZE: Final = 1_000
TOTAL: Final = COUNT * SIZE
LEADER: Final = 1
FOLLOWER: Final = 2
ZONES: Final = {LEADER: "zone-a", FOLLOWER: "zone-b", 3: "zone-c"}


class Rack(Lab):
    """The same topic, read without and with a rack."""

    name = "rack"
    summary = "a consumer with client.rack reads from the follower in its rack, and spares the leader"
    watch = (
        f"Three brokers in three zones. The leader of a topic of {TOTAL // 1_000_000} MB is in {ZONES[LEADER]}, and a "
        f"consumer in {ZONES[FOLLOWER]} reads it: first without saying where it is, then with "
        f"client.rack={ZONES[FOLLOWER]}.",
        "Watch how many bytes come from which broker. Then the follower dies: watch where the consumer goes on.",
    )
    matters = "client.rack of the consumer; broker.rack and replica.selector.class of the brokers"
    advice = (
        "Where traffic between zones costs money: broker.rack on each broker, "
        f"replica.selector.class={SELECTOR}, and client.rack in "
        "consumers.",
        "The price is some time: a follower hears later than the leader that a record is committed, and hands it out "
        "no sooner. Where zones are far apart, consumers that want the newest record at once leave client.rack out.",
    )
    settings: ClassVar[Mapping[str, str]] = {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    }

    def settings_of(self, node: int) -> Mapping[str, str]:
        return {"broker.rack": ZONES[node]}

    def run(self, stage: Stage) -> None:
        create_topic(stage.cluster, TOPIC, [list(ZONES)], min_insync_replicas="2")
        with Writer(stage.servers, TOPIC, acks="all") as writer:
            writer.write(f"{n:06d}".ljust(SIZE, ".") for n in range(COUNT))
            where = ", ".join(f"node {node} is in {zone}" for node, zone in ZONES.items())
            stage.say(f"{where}; node {LEADER} leads {TOPIC}, and {COUNT} records are in it")
            with _Reader(stage) as reader:
                plain = reader.read(COUNT)
                stage.say(f"without client.rack: {self._shares(plain)}")
            with _Reader(stage, ZONES[FOLLOWER]) as reader:
                racked = reader.read(COUNT)
                stage.say(f"client.rack={ZONES[FOLLOWER]}: {self._shares(racked)}")
                stage.cluster.kill(FOLLOWER)
                stage.say(f"node {FOLLOWER}, from which it reads, is killed, and {COUNT} more records are written")
                writer.write(f"{n:06d}".ljust(SIZE, ".") for n in range(COUNT))
                after = {node: count - racked.get(node, 0) for node, count in reader.read(2 * COUNT).items()}
                stage.say(f"the consumer goes on by itself: {self._shares(after)}")
        for name, bytes_of in (("plain", plain), ("rack", racked), ("after", after)):
            stage.measure(**{f"{name}_bytes_of_{node}": bytes_of.get(node, 0) for node in ZONES})
        stage.expect("without client.rack all records come from the leader", self._is_source(LEADER, plain))
        stage.expect("with client.rack they come from the follower in that rack", self._is_source(FOLLOWER, racked))
        stage.expect(
            "when the follower dies, they come from others", sum(after.values()) - after.get(FOLLOWER, 0) >= TOTAL
        )
        stage.happened(
            "The consumer tells its rack with each fetch. The leader answers the first one with the name of the "
            f"replica in that rack: {racked.get(FOLLOWER, 0) // 1000} KB came from there, and "
            f"{racked.get(LEADER, 0) // 1000} KB from the leader.",
            f"When the follower died, the consumer asked the leader again: {after.get(LEADER, 0) // 1000} KB came from "
            "it. No other replica is in that rack.",
        )

    def _shares(self, bytes_of: Mapping[int, int]) -> str:
        return ", ".join(f"{bytes_of.get(node, 0) // 1000} KB from node {node}" for node in ZONES)

    def _is_source(self, node: int, bytes_of: Mapping[int, int]) -> bool:
        """All records came from there, and from elsewhere only what clients and brokers say to each other."""
        return bytes_of.get(node, 0) >= TOTAL > 10 * (sum(bytes_of.values()) - bytes_of.get(node, 0))


class _Reader:
    """A consumer that counts what it gets from each broker."""

    def __init__(self, stage: Stage, rack: str = "") -> None:
        from confluent_kafka import Consumer, TopicPartition

        known = {"bootstrap.servers": stage.servers, "group.id": "nobody", "enable.auto.commit": False, **IMPATIENT}
        counted = {"statistics.interval.ms": 100, "stats_cb": self._on_statistics, "client.rack": rack}
        self._consumer = Consumer({**known, **counted}, logger=silent())
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self._stage = stage
        self._count = 0
        self._bytes: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._consumer.close()

    def read(self, count: int) -> dict[int, int]:
        """Read until there were so many records. Returns all bytes so far, by broker."""
        self._stage.wait(f"{count} records", lambda: self._poll() >= count)
        self._bytes = {}
        return self._stage.wait("statistics of the client", lambda: self._bytes if self._poll() else None)

    def _poll(self) -> int:
        self._count += sum(message.error() is None for message in self._consumer.consume(1_000, 0.05))
        return self._count

    def _on_statistics(self, text: str) -> None:
        brokers: list[dict[str, Any]] = list(json.loads(text)["brokers"].values())
        self._bytes = {each["nodeid"]: each["rxbytes"] for each in brokers if each["nodeid"] > 0}
