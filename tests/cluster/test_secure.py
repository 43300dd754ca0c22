"""A cluster that speaks TLS and asks who one is, made by one flag: clients of each kind, verbs, faults, strangers."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError
from cluster_cli import CommandLine, QuickCommandLine
from cluster_tools import running_tools
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from live_cluster import eventually
from live_java import NotHereError

from minikafka.chaos.layout import ClusterError
from minikafka.client import Admin
from minikafka.client import Producer as MiniProducer
from minikafka.errors import ErrorCode
from minikafka.errors import KafkaError as MiniKafkaError
from minikafka.testing import MiniKafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniKafka]:
    with MiniKafka(secure=True, directory=tmp_path_factory.mktemp("secure")) as cluster:
        yield cluster


@pytest.fixture
def command_line(kafka: MiniKafka) -> CommandLine:
    return QuickCommandLine(kafka.cluster.layout.directory)


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


@pytest.fixture
def orders(kafka: MiniKafka, command_line: CommandLine) -> Iterator[str]:
    """A topic that "user" may write and read, once a test allows it."""
    kafka.create_topic("orders", partitions=1, replication_factor=3)
    yield "orders"
    command_line("acl", "remove", "--topic", "orders")
    kafka.delete_topic("orders")


def allow(kafka: MiniKafka, command_line: CommandLine) -> None:
    """By what `cluster start` prints, and until every node knows."""
    roles = ("--producer", "--consumer", "--topic", "orders", "--group", "mail")
    command_line("acl", "add", "--allow-principal", "User:user", *roles)
    admin = AdminClient(kafka.client_config(user="user") | {"log_level": 0})
    eventually(lambda: "orders" in admin.list_topics(timeout=30).topics, "the right")


def test_a_user_is_refused_and_then_allowed_by_librdkafka(
    kafka: MiniKafka, orders: str, command_line: CommandLine
) -> None:
    config = kafka.client_config(user="user") | {"log_level": 0}

    def outcome() -> KafkaError | None:
        told: list[KafkaError | None] = []
        producer = Producer(config)
        producer.produce(orders, b"v", on_delivery=lambda error, _message: told.append(error))
        producer.flush(30)
        return told[0]

    refused = outcome()
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(kafka, command_line)
    assert eventually(lambda: outcome() is None, "the right at the leader")
    assert kafka.records(orders)[0].value == b"v"


def test_a_user_is_refused_and_then_allowed_by_aiokafka(
    kafka: MiniKafka, orders: str, command_line: CommandLine
) -> None:
    async def write_and_read() -> bytes | None:
        settings = kafka.client_config("aiokafka", user="user")
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        try:
            await producer.send_and_wait(orders, b"v")
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(orders, group_id="mail", auto_offset_reset="earliest", **settings)
        await consumer.start()
        try:
            value: bytes | None = (await consumer.getone()).value
            return value
        finally:
            await consumer.stop()

    with pytest.raises(TopicAuthorizationFailedError):
        asyncio.run(write_and_read())
    allow(kafka, command_line)
    assert asyncio.run(write_and_read()) == b"v"


def test_verbs_are_the_admins_unless_they_are_given_another_user(
    kafka: MiniKafka, orders: str, command_line: CommandLine
) -> None:
    as_user = ("--command-config", str(kafka.cluster.layout.logins.properties_file("user")))
    assert orders.encode() in command_line("topic", "list")
    assert orders.encode() not in command_line("topic", "list", *as_user)
    assert command_line.run("acl", "list", *as_user).returncode == 1
    allow(kafka, command_line)
    command_line("produce", orders, *as_user, given=b"v\n")
    assert command_line("consume", orders, *as_user, "--group", "mail", "--from-beginning", "--count", "1") == b"v\n"


def test_a_wrong_password_and_one_that_is_not_in_a_log(kafka: MiniKafka) -> None:
    wrong = replace(kafka.security, sasl_password="wrong")

    async def look() -> None:
        async with Admin(kafka.bootstrap_servers, security=wrong) as admin:
            await admin.describe_cluster()

    with pytest.raises(MiniKafkaError) as refused:
        asyncio.run(look())
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    layout = kafka.cluster.layout
    said = "".join(layout.log_file(node_id).read_text() for node_id in layout.node_ids)
    for user in ("admin", "user"):
        assert layout.logins.password_file(user).read_text() not in said


def test_kafkas_tools_log_in(kafka: MiniKafka, tmp_path: Path) -> None:
    logins = kafka.cluster.layout.logins
    kafka.create_topic("tooled", partitions=1, replication_factor=3)
    try:
        with running_tools(tmp_path, kafka.bootstrap_servers) as tools:
            listed = {
                user: tools("topics", "--list", "--command-config", str(logins.properties_file(user)))
                for user in ("admin", "user")
            }
    except NotHereError as error:
        pytest.skip(str(error))
    assert "tooled" in listed["admin"]
    assert "tooled" not in listed["user"]


def test_it_begins_anew_without_users_and_acls_of_a_test(kafka: MiniKafka, command_line: CommandLine) -> None:
    command_line("user", "add", "eve", "--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512", given=b"x\n")
    command_line("acl", "add", "--allow-principal", "User:eve", "--topic", "t")
    command_line("user", "add", "user", "--mechanism", "SCRAM-SHA-256", given=b"x\n")
    command_line("user", "remove", "user", "--mechanism", "SCRAM-SHA-512")
    kafka.reset()
    eventually(lambda: json.loads(command_line("acl", "list", "--json")) == [], "no ACLs")
    users = [(each["user"], *each["mechanisms"]) for each in json.loads(command_line("user", "list", "--json"))]
    assert users == [("admin", "SCRAM-SHA-512"), ("user", "SCRAM-SHA-512")]
    AdminClient(kafka.client_config(user="user") | {"log_level": 0}).list_topics(timeout=30)


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


def test_who_has_no_certificate_does_not_reach_the_ports_of_nodes(kafka: MiniKafka) -> None:
    trusting = ssl.create_default_context(cafile=kafka.security.ssl_truststore_location)
    for port in kafka.cluster.layout.ports(1)[1:]:
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
