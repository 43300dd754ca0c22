"""``minikafka config``, ``group`` and ``topic delete-records`` on one cluster, with members of both protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cluster_cli import QuickCommandLine
from command_line import COMMAND
from confluent_kafka import Consumer
from live_cluster import eventually

from minikafka.chaos.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def ten_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of them, with keys."""
    file = tmp_path_factory.mktemp("records") / "ten"
    file.write_text("".join(f"{n},v\n" for n in range(10)))
    return file


@pytest.fixture(scope="module")
def minikafka(server: LocalCluster, ten_records: Path) -> QuickCommandLine:
    """The command line at the cluster, with a topic of ten records in two partitions."""
    minikafka = QuickCommandLine(server.layout.directory)
    minikafka("topic", "create", "shelf", "--partitions", "2")
    minikafka("produce", "shelf", "-k", ",", "--file", str(ten_records))
    return minikafka


def settings(minikafka: QuickCommandLine, *words: str) -> dict[str, Any]:
    (found,) = json.loads(minikafka("config", "get", *words, "--json"))
    return {each["name"]: each["value"] for each in found["settings"]}


def test_settings_of_a_topic(minikafka: QuickCommandLine) -> None:
    assert "retention.ms" not in settings(minikafka, "topic", "shelf")
    changed = minikafka("config", "set", "topic", "shelf", "retention.ms=600000", "cleanup.policy=compact,delete")
    assert b"topic shelf: retention.ms is now 600000" in changed
    eventually(lambda: settings(minikafka, "topic", "shelf").get("retention.ms") == "600000", "the setting")
    assert b"this topic" in minikafka("config", "get", "topics", "shelf")
    assert len(settings(minikafka, "topic", "shelf", "--all")) > 20
    assert b"did you mean retention.ms?" in minikafka("config", "get", "topic", "shelf", "retention.mss", fails=True)
    kafkas = ["--entity-type", "topics", "--entity-name", "shelf"]
    dry = minikafka("config", "alter", *kafkas, "--add-config", "segment.ms=7,cleanup.policy=[delete]", "--dry-run")
    assert b"segment.ms would be now 7" in dry
    minikafka("config", "alter", *kafkas, "--add-config", "max.message.bytes=500000", "--delete-config", "retention.ms")
    minikafka("config", "delete", "topic", "shelf", "cleanup.policy")
    own = lambda: settings(minikafka, "topic", "shelf", "retention.ms", "cleanup.policy", "max.message.bytes")  # noqa: E731
    expected = {"retention.ms": "604800000", "cleanup.policy": "delete", "max.message.bytes": "500000"}
    eventually(lambda: own() == expected, "the settings to be taken back")
    assert b"topic 'nowhere' not found" in minikafka("config", "get", "topic", "nowhere", fails=True)
    assert b"say which topic" in minikafka("config", "set", "topic", "a.b=1", fails=True)
    unknown = minikafka("config", "delete", "topic", "shelf", "max.message.bytes", "retention.mss", fails=True)
    assert b"topic shelf has no setting 'retention.mss'; did you mean retention.ms?" in unknown
    assert own() == expected


def test_settings_of_brokers(minikafka: QuickCommandLine) -> None:
    before = settings(minikafka, "broker", "--default")
    minikafka("config", "set", "broker", "2", "message.max.bytes=2000000")
    minikafka("config", "set", "broker", "--default", "message.max.bytes=3000000")
    eventually(lambda: settings(minikafka, "broker", "2").get("message.max.bytes") == "2000000", "the broker's setting")
    eventually(lambda: settings(minikafka, "broker", "1").get("message.max.bytes") == "3000000", "the brokers' setting")
    assert settings(minikafka, "broker", "--default") == before | {"message.max.bytes": "3000000"}
    assert len(json.loads(minikafka("config", "get", "brokers", "--json"))) == 3
    minikafka("config", "delete", "broker", "2", "message.max.bytes")
    minikafka("config", "delete", "broker", "--default", "message.max.bytes")
    assert b"node.id" in minikafka("config", "set", "broker", "1", "node.id=7", fails=True)
    assert b"has no setting 'nothing'" in minikafka("config", "delete", "broker", "--default", "nothing", fails=True)


def test_levels_of_the_log_of_a_broker(minikafka: QuickCommandLine) -> None:
    minikafka("config", "set", "broker-loggers", "2", "root=WARN")
    assert b"WARN" in minikafka("config", "get", "broker-logger", "2")
    assert b"WARN" not in minikafka("config", "get", "--broker-logger", "1")
    minikafka("config", "alter", "--entity-type", "broker-loggers", "--entity-name", "2", "--add-config", "root=INFO")
    levels = json.loads(minikafka("config", "get", "broker-loggers", "--json"))
    assert [level["settings"][0]["value"] for level in levels] == ["INFO"] * 3
    assert b"must be one of FATAL" in minikafka("config", "set", "broker-logger", "1", "root=LOUD", fails=True)
    assert b"cannot be deleted" in minikafka("config", "delete", "broker-logger", "1", "root", fails=True)
    assert b"broker 9 is not alive" in minikafka("config", "set", "broker-logger", "9", "root=INFO", fails=True)


def test_a_shell_completes_names_and_settings(minikafka: QuickCommandLine, server: LocalCluster) -> None:
    for line, expected in (
        ("minikafka config get topic sh", "shelf"),
        ("minikafka config delete topics shelf retention", "retention.bytes\nretention.ms"),
        ("minikafka config set broker 2", "2"),
        ("minikafka config set broker-logger 2 ro", "root"),
    ):
        asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), "_MINIKAFKA_COMPLETE": "complete_bash"}
        where = {"MINIKAFKA_DIR": str(server.layout.directory)}
        assert CliRunner().invoke(COMMAND, [], prog_name="minikafka", env=asked | where).stdout.strip() == expected


def test_settings_of_groups(minikafka: QuickCommandLine) -> None:
    minikafka("config", "set", "group", "lazy", "consumer.session.timeout.ms=50000")
    eventually(lambda: b"group lazy:" in minikafka("config", "get", "groups"), "the group with its setting")
    assert settings(minikafka, "group", "lazy") == {"consumer.session.timeout.ms": "50000"}
    minikafka("config", "delete", "group", "lazy", "consumer.session.timeout.ms")
    eventually(lambda: settings(minikafka, "group", "lazy") == {}, "the setting to be taken back")


def test_quotas_are_settings_of_clients(minikafka: QuickCommandLine) -> None:
    minikafka("config", "set", "client", "loader", "producer_byte_rate=1000000")
    both = ["--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-name", "loader"]
    minikafka("config", "set", *both, "consumer_byte_rate=2000000")
    eventually(lambda: b"alice" in minikafka("quota", "list"), "the quotas")
    assert settings(minikafka, "client", "loader") == {"producer_byte_rate": "1000000"}
    found = json.loads(minikafka("config", "get", "clients", "--json"))
    assert {(each["type"], each["name"]) for each in found} == {("client", "loader"), ("user, client", "alice, loader")}
    assert b"'producer_byte_rate=x' is not" in minikafka(
        "config", "set", "client", "c", "producer_byte_rate=x", fails=True
    )
    minikafka("config", "delete", "client", "loader", "producer_byte_rate")
    minikafka("config", "delete", *both, "consumer_byte_rate")
    eventually(lambda: b"no client has a quota" in minikafka("quota", "list"), "the quotas to be gone")


@contextmanager
def member(server: LocalCluster, group: str, protocol: str) -> Iterator[None]:
    """A member of the group that has read and committed all ten records."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "client.id": f"a-{protocol}-member",
        }
    )
    consumer.subscribe(["shelf"])
    seen: list[Any] = []
    try:
        eventually(lambda: seen.extend(consumer.consume(10, 0.2)) or len(seen) == 10, "ten records")
        consumer.commit(asynchronous=False)
        yield
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_both_protocols(
    minikafka: QuickCommandLine, server: LocalCluster, protocol: str, tmp_path: Path
) -> None:
    group = f"{protocol}-readers"
    with member(server, group, protocol):
        (listed,) = [each for each in json.loads(minikafka("group", "list", "--json")) if each["group"] == group]
        assert (listed["type"], listed["state"]) == (protocol, "Stable")
        assert group in minikafka("group", "list", "--type", protocol, "--state", "stable").decode()
        (found,) = json.loads(minikafka("group", "describe", group, "--json"))
        (reader,) = found["members"]
        assert (reader["client_id"], reader["lag"]) == (f"a-{protocol}-member", 0)
        assert [each["partition"] for each in reader["assignment"]] == [0, 1]
        assert (reader["member_epoch"] is None) == (protocol == "classic")
        shown = minikafka("group", "describe", group, "--members", "--verbose").decode()
        assert "shelf:0,1" in shown
        assert "committed" not in shown
        busy = minikafka("group", "delete-offsets", group, "--topic", "shelf", fails=True)
        assert f"group {group!r} has members that read these topics".encode() in busy
        for verb in (["reset-offsets", "--all-topics", "--to-latest"], ["delete"]):
            assert b"has members" in minikafka("group", verb[0], group, *verb[1:], fails=True)

    plan = tmp_path / "plan.csv"
    reset = ["group", "reset-offsets", group]
    plan.write_bytes(minikafka(*reset, "--topic", "shelf", "--to-earliest", "--export"))
    assert plan.read_text() == "shelf,0,0\nshelf,1,0\n"  # as Kafka's own tool prints it
    minikafka(*reset, "--from-file", str(plan), "--execute")
    (found,) = json.loads(minikafka("group", "describe", group, "--json"))
    assert sum(each["lag"] for each in found["partitions"]) == 10
    assert minikafka("group", "delete-offsets", group, "--topic", "shelf:1").startswith(b"deleted offset 0 of shelf-1")
    assert minikafka(*reset, "--all-topics", "--export") == b"shelf,0,0\n"
    assert b"has no offset of topic 'shelf', partition 1" in minikafka(
        "group", "delete-offsets", group, "--topic", "shelf:1", fails=True
    )
    (found,) = json.loads(minikafka("group", "describe", group, "--json"))
    assert [each["partition"] for each in found["partitions"]] == [0]
    minikafka("group", "delete", group)
    assert f"group {group!r} not found".encode() in minikafka("group", "delete", group, fails=True)


def test_a_file_of_all_groups(minikafka: QuickCommandLine, tmp_path: Path) -> None:
    for group in ("one", "two"):
        minikafka("group", "reset-offsets", group, "--topic", "shelf:0", "--to-earliest", "--execute")
    plan = tmp_path / "plan.csv"
    plan.write_text("one,shelf,0,2\ntwo,shelf,0,1\n")
    minikafka("group", "reset-offsets", "--from-file", str(plan), "--execute")
    exported = minikafka("group", "reset-offsets", "one", "two", "--all-topics", "--to-current", "--export")
    assert exported == plan.read_bytes()
    every = minikafka("group", "reset-offsets", "--all-groups", "--all-topics", "--shift-by", "1", "--json")
    rows = {each["group"]: each["partitions"][0]["new_offset"] for each in json.loads(every) if each["partitions"]}
    assert (rows["one"], rows["two"]) == (3, 2)
    plan.write_text("three,shelf,9,1\n")
    assert b"partition 9 not found" in minikafka("group", "reset-offsets", "--from-file", str(plan), fails=True)


def test_oldest_records_are_deleted(minikafka: QuickCommandLine, ten_records: Path, tmp_path: Path) -> None:
    minikafka("topic", "create", "crumbs", "--partitions", "2")
    minikafka("produce", "crumbs", "-k", ",", "--file", str(ten_records))
    first = lambda: [  # noqa: E731
        row["first_offset"] for row in json.loads(minikafka("topic", "describe", "crumbs", "--json"))
    ]
    dry = json.loads(minikafka("topic", "delete-records", "crumbs", "--to-latest", "--dry-run", "--json"))
    ends = [row["first_offset"] for row in dry["partitions"]]
    assert (sum(ends), dry["executed"], first()) == (10, False, [0, 0])
    minikafka("topic", "delete-records", "crumbs:1", "--before", "1")
    assert first() == [0, 1]
    beyond = minikafka("topic", "delete-records", "crumbs", "--before", "11", fails=True)
    assert b"offset 11 not found: crumbs-0 has offsets 0.." in beyond
    plan = tmp_path / "offsets.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "crumbs", "partition": 0, "offset": 2}], "version": 1}))
    minikafka("topic", "delete-records", "--offset-json-file", str(plan))
    assert first() == [2, 1]
    minikafka("topic", "delete-records", "crumbs", "--before-time", "1h")  # nothing is that old
    assert first() == [2, 1]
    minikafka("topic", "delete-records", "--topic", "crumbs", "--to-latest")
    assert first() == ends
    minikafka("topic", "create", "kept", "-c", "cleanup.policy=compact")
    kept = minikafka("topic", "delete-records", "kept", "--to-latest", fails=True)
    assert b"records cannot be deleted of a topic that is only compacted" in kept
