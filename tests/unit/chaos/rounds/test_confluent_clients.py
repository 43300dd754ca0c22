"""Clients of confluent-kafka say why they begin a new producer epoch, or give up: a duplicate may be their doing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import pytest
from confluent_kafka import Producer
from live_cluster import eventually

from minikafka.chaos.history import History
from minikafka.chaos.rounds.confluent_clients import ConfluentClients, EpochBumps
from minikafka.chaos.rounds.loads import Produce, Worker
from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC
from minikafka.testing import MiniKafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[MiniKafka]:
    with MiniKafka(brokers=1, in_process=True) as kafka:
        yield kafka


def test_a_producer_that_begins_a_new_epoch_says_why(kafka: MiniKafka) -> None:
    bumps, said = EpochBumps(), list[str]()
    kafka.create_topic("t", partitions=1, settings={"max.message.bytes": "2000"})
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "debug": "eos"}
    producer = Producer(settings, logger=bumps.logger)
    producer.produce("t", b"small")
    assert producer.flush(60) == 0
    assert bumps.take() == []
    producer.produce("t", b"too large" * 500)
    producer.flush(60)
    producer.produce("t", b"small")

    def is_said() -> bool:
        producer.poll(0.1)
        said.extend(bumps.take())
        return any("epoch bump" in line and line.endswith("message sequence gap") for line in said)

    eventually(is_said, "the reason")
    assert producer.flush(60) == 0


class Writing(Produce):
    """One writer, and nobody who reads."""

    def make_writers(self) -> list[Worker]:
        return [self.clients.writer("producer", self, 200)]

    def make_readers(self) -> list[Worker]:
        return []


def test_a_producer_that_gives_up_has_a_successor(kafka: MiniKafka) -> None:
    """A cluster that lost records ended the round with a traceback, and without a verdict: librdkafka sees a gap, and
    confluent-kafka raises that, rather than to call ``error_cb``.
    """
    kafka.create_topic(TOPIC, partitions=PARTITIONS)
    load = Writing(Reached(kafka.bootstrap_servers), History(), 200, 0, ConfluentClients())

    def has(process: str, outcome: str) -> bool:
        return any((each.process, each.type) == (process, outcome) for each in load.history.events)

    load.start()
    eventually(lambda: has("producer.1", "ok"), "the first records")
    kafka.rule("Produce", error="OUT_OF_ORDER_SEQUENCE_NUMBER", times=1)
    eventually(lambda: has("producer.2", "ok"), "the successor")
    load.stop_sending()
    assert any("its producer gave up: " in str(each.value) for each in load.history.events)


def test_a_report_names_the_whole_version() -> None:
    """It was "confluent-kafka 2"."""
    assert f"confluent-kafka {version('confluent-kafka')}, librdkafka 2." in ConfluentClients().name
