"""The history says where librdkafka begins a new producer epoch, and why: a duplicate may be its doing."""

from __future__ import annotations

from confluent_kafka import Producer
from live_cluster import eventually

from minikafka.chaos.rounds.confluent_clients import EpochBumps
from minikafka.testing import MiniKafka


def test_a_producer_that_begins_a_new_epoch_says_why() -> None:
    bumps, said = EpochBumps(), []
    with MiniKafka(brokers=1, in_process=True) as kafka:
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
