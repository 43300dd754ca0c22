"""A cluster that speaks TLS, made by one flag: clients of each kind, verbs, faults, strangers."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from cluster_cli import CommandLine
from confluent_kafka import Producer
from kafka import KafkaProducer

from minikafka.chaos.layout import ClusterError
from minikafka.client import Producer as MiniProducer
from minikafka.testing import MiniKafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniKafka]:
    with MiniKafka(secure=True, directory=tmp_path_factory.mktemp("secure")) as cluster:
        yield cluster


@pytest.fixture
def command_line(kafka: MiniKafka) -> CommandLine:
    return CommandLine(kafka.cluster.layout.directory)


def test_clients_of_each_kind_write_and_read(kafka: MiniKafka) -> None:
    kafka.create_topic("kinds", partitions=1, replication_factor=3)
    confluent = Producer(kafka.client_config() | {"log_level": 0})
    confluent.produce("kinds", b"confluent")
    assert confluent.flush(30) == 0
    python = KafkaProducer(**kafka.client_config("kafka-python"))
    python.send("kinds", b"kafka-python").get(30)
    python.close()

    async def ours_and_theirs() -> list[bytes]:
        async with MiniProducer(kafka.bootstrap_servers, security=kafka.security) as producer:
            await producer.send_and_wait("kinds", b"minikafka")
        consumer = AIOKafkaConsumer("kinds", auto_offset_reset="earliest", **kafka.client_config("aiokafka"))
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in range(3)]
        finally:
            await consumer.stop()

    assert asyncio.run(ours_and_theirs()) == [b"confluent", b"kafka-python", b"minikafka"]


def test_it_breaks_and_heals_as_any_other(kafka: MiniKafka) -> None:
    """Nodes replicate, elect and are told of faults over TLS."""
    kafka.create_topic("broken", partitions=1, replication_factor=3, settings={"min.insync.replicas": 2})
    producer = Producer(kafka.client_config() | {"log_level": 0, "linger.ms": 0})
    producer.produce("broken", b"x" * 600_000)  # larger than what is sent in a piece
    producer.flush(30)
    kafka.kill(kafka.leader_of("broken"))
    producer.produce("broken", b"second")
    producer.flush(60)
    kafka.heal()
    kafka.isolate(kafka.controller())
    kafka.heal()
    assert [len(record.value or b"") for record in kafka.records("broken")] == [600_000, 6]


def test_verbs_find_out_how_to_connect(kafka: MiniKafka, command_line: CommandLine) -> None:
    command_line("topic", "create", "verbs")
    command_line("produce", "verbs", given=b"one\ntwo\n")
    assert command_line("consume", "verbs", "--from-beginning", "--count", "2") == b"one\ntwo\n"
    assert b"healthy" in command_line("cluster", "status")
    config = kafka.cluster.layout.client_properties_file
    there = ("-b", kafka.bootstrap_servers, "--command-config", str(config))
    assert b"verbs" in command_line.run("topic", "list", *there, at=False).stdout
    refused = command_line.run("topic", "list", "-b", kafka.bootstrap_servers, "--timeout", "1", at=False)
    assert refused.returncode == 1
    assert b"Traceback" not in refused.stderr


def test_who_has_no_certificate_reaches_no_port(kafka: MiniKafka) -> None:
    trusting = ssl.create_default_context(cafile=kafka.security.ssl_truststore_location)
    for port in kafka.cluster.layout.ports(1):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            _say_something(trusting, port)


def _say_something(trusting: ssl.SSLContext, port: int) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        trusting.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
    ):
        wrapped.sendall(b"\0\0\0\1")
        if not wrapped.recv(1):
            raise ConnectionError


def test_nothing_is_left_when_certificates_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ClusterError, match=r"pip install 'minikafka\[secure\]'"):
        MiniKafka(brokers=1, secure=True).start()
    assert list(tmp_path.iterdir()) == []


def test_brokers_may_be_threads() -> None:
    with MiniKafka(brokers=1, secure=True, in_process=True) as kafka:
        kafka.create_topic("t")
        producer = Producer(kafka.client_config() | {"log_level": 0})
        producer.produce("t", b"v")
        assert producer.flush(30) == 0
        assert [record.value for record in kafka.records("t")] == [b"v"]
