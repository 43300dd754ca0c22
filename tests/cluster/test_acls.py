"""ACLs by ``minikafka acl``, by ``kafka-acls.sh`` and by librdkafka's admin client, and what they do to clients.

On the one node everyone is ANONYMOUS, and may do what no ACL is about: so ACLs for others bar them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_cli import QuickCommandLine
from cluster_tools import Tools, running_tools
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from live_cluster import eventually, running_cluster
from live_java import NotHereError

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.config.security import STANDARD_AUTHORIZER
from minikafka.testing import MiniKafka

PATIENCE_S = 30


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node with an authorizer."""
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    with running_cluster(tmp_path_factory.mktemp("guarded") / "cluster", 1, **settings) as cluster:
        yield cluster


@pytest.fixture
def minikafka(guarded: LocalCluster) -> Iterator[QuickCommandLine]:
    """The command line; afterwards there are no ACLs."""
    minikafka = QuickCommandLine(guarded.layout.directory)
    yield minikafka
    for acl in json.loads(minikafka("acl", "list", "--json")):
        named = (f"--{acl['resource_type']}", acl["resource_name"], "--pattern-type", acl["pattern_type"])
        minikafka("acl", "remove", *named)
    assert json.loads(minikafka("acl", "list", "--json")) == []


def outcome(config: dict[str, Any], topic: str) -> int:
    """The error that a producer is told; 0: none."""
    told: list[KafkaError | None] = []
    producer = Producer(config | {"enable.idempotence": True})
    producer.produce(topic, b"v", on_delivery=lambda error, _message: told.append(error))
    producer.flush(PATIENCE_S)
    return 0 if told[0] is None else told[0].code()


def test_verbs_add_list_and_remove(minikafka: QuickCommandLine, guarded: LocalCluster) -> None:
    minikafka("topic", "create", "orders", "--partitions", "1")
    client = {"bootstrap.servers": guarded.bootstrap_servers}
    assert not outcome(client, "orders")
    added = minikafka("acl", "add", "--allow-principal", "User:shop", "--producer", "--topic", "orders")
    assert b"topic orders" in added
    assert outcome(client, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert b"TOPIC_AUTHORIZATION_FAILED" in minikafka("produce", "orders", given=b"v\n", fails=True)
    listed = json.loads(minikafka("acl", "list", "--topic", "orders", "--json"))
    assert {acl["operation"] for acl in listed} == {"write", "describe", "create"}
    assert {(acl["principal"], acl["host"], acl["permission"]) for acl in listed} == {("User:shop", "*", "allow")}
    assert b"there are no such ACLs" in minikafka("acl", "list", "--principal", "User:nobody")
    removed = minikafka("acl", "remove", "--allow-principal", "User:shop", "--producer", "--topic", "orders")
    assert removed.endswith(b"3 ACLs removed\n")
    assert not outcome(client, "orders")
    minikafka(
        "acl",
        "add",
        "--deny-principal",
        "User:*",
        "--operation",
        "read",
        "--topic",
        "ord",
        "--pattern-type",
        "prefixed",
    )
    assert outcome(client, "orders"), "what an ACL is about is not everyone's any more"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--topic", "t"), "say who"),
        (("--allow-principal", "shop", "--topic", "t"), "'shop' is not User:NAME"),
        (("--allow-principal", "User:a"), "say of what"),
        (("--allow-principal", "User:a", "--topic", "t", "--operation", "fly"), "'fly' is none of all, read"),
        (("--allow-principal", "User:a", "--topic", "t", "--consumer"), "--consumer needs a group"),
        (("--allow-principal", "User:a", "--group", "g", "--producer"), "need a topic"),
        (("--allow-principal", "User:a", "--topic", "t", "--producer", "--operation", "read"), "comes with neither"),
        (("--allow-principal", "User:a", "--topic", "t", "--deny-host", "h"), "needs --deny-principal"),
    ],
)
def test_a_mistake_is_told_in_a_line(minikafka: QuickCommandLine, words: tuple[str, ...], why: str) -> None:
    said = minikafka("acl", "add", *words, fails=True).decode()
    assert why in " ".join(said.replace("│", " ").split())


def test_librdkafkas_admin_client(guarded: LocalCluster, minikafka: QuickCommandLine) -> None:
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    minikafka("topic", "create", "books", "--partitions", "1")
    acl = AclBinding(
        ResourceType.TOPIC, "books", ResourcePatternType.LITERAL, "User:reader", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    for future in admin.create_acls([acl]).values():
        assert future.result(PATIENCE_S) is None
    wanted = AclBindingFilter(
        ResourceType.TOPIC, "books", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(wanted).result(PATIENCE_S) == [acl]
    consumer = Consumer(
        {"bootstrap.servers": guarded.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["books"])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()
    (deleted,) = admin.delete_acls([wanted]).values()
    assert deleted.result(PATIENCE_S) == [acl]
    assert admin.describe_acls(wanted).result(PATIENCE_S) == []
    wrong = AclBinding(
        ResourceType.TOPIC, "books", ResourcePatternType.LITERAL, "reader", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    with pytest.raises(KafkaException, match="write it as User:name"):
        admin.create_acls([wrong])[wrong].result(PATIENCE_S)


@pytest.fixture(scope="module")
def tools(guarded: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Kafka's own, where their libraries are."""
    try:
        with running_tools(tmp_path_factory.mktemp("java"), guarded.bootstrap_servers) as tools:
            yield tools
    except NotHereError as error:
        pytest.skip(str(error))


def test_kafkas_tool(tools: Tools, guarded: LocalCluster, minikafka: QuickCommandLine) -> None:
    client = {"bootstrap.servers": guarded.bootstrap_servers}
    minikafka("topic", "create", "tooled", "--partitions", "1")
    of_topic = ("--topic", "tooled")
    said = tools(
        "acls", "--add", "--allow-principal", "User:a", "--operation", "Read", "--operation", "Write", *of_topic
    )
    assert "(principal=User:a, host=*, operation=READ, permissionType=ALLOW)" in said
    tools("acls", "--add", "--deny-principal", "User:a", "--deny-host", "10.0.0.7", "--operation", "All", *of_topic)
    tools("acls", "--add", "--allow-principal", "User:b", "--consumer", "--group", "*", "--topic", "to",
          "--resource-pattern-type", "prefixed")  # fmt: skip
    listed = tools("acls", "--list", *of_topic, "--resource-pattern-type", "match")
    assert listed.count("principal=User:a") == 3
    assert "patternType=PREFIXED" in listed
    assert "host=10.0.0.7, operation=ALL, permissionType=DENY" in tools("acls", "--list", "--principal", "User:a")
    assert len(json.loads(minikafka("acl", "list", "--json"))) == 6
    assert "User:a" in minikafka("acl", "list", "--principal", "User:a").decode()
    assert outcome(client, "tooled")
    tools("acls", "--remove", "--force", *of_topic)
    tools("acls", "--remove", "--force", "--topic", "to", "--group", "*", "--resource-pattern-type", "prefixed")
    assert "principal=User:a" not in tools("acls", "--list")
    minikafka("acl", "remove", "--group", "*")
    assert not outcome(client, "tooled")


def test_users_have_the_rights_that_were_given_to_them(tmp_path: Path) -> None:
    """One is a super user, the other has what ACLs say, on all three nodes."""
    with MiniKafka(secure=True, directory=tmp_path / "secure") as kafka:
        layout = kafka.cluster.layout
        config = kafka.client_config(user="user") | {"log_level": 0}
        minikafka = QuickCommandLine(layout.directory)
        for name in ("orders", "others"):
            kafka.create_topic(name, partitions=3)
        assert list(AdminClient(config).list_topics(timeout=PATIENCE_S).topics) == []
        who = ("--allow-principal", "User:user")
        minikafka("acl", "add", *who, "--producer", "--topic", "orders", "--transactional-id", "tx")
        minikafka("acl", "add", *who, "--consumer", "--topic", "orders", "--group", "mail")
        eventually(lambda: list(AdminClient(config).list_topics(timeout=PATIENCE_S).topics) == ["orders"], "the right")
        producer = Producer(config | {"transactional.id": "tx"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("orders", b"v", partition=partition)
        producer.commit_transaction(PATIENCE_S)
        consumer = Consumer(config | {"group.id": "mail", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        read = eventually(lambda: consumer.consume(3, timeout=1), "records")
        assert {message.error() for message in read} == {None}
        consumer.commit(asynchronous=False)
        consumer.close()
        assert outcome(config, "others") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert outcome(config, "new") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaException) as denied:
            Producer(config | {"transactional.id": "another"}).init_transactions(PATIENCE_S)
        assert denied.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        minikafka("acl", "remove", "--topic", "orders")
        eventually(lambda: outcome(config, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED, "the revocation")
        said = "".join(layout.log_file(node_id).read_text() for node_id in layout.node_ids)
        assert "access denied" in said
        assert "User:user" in said
