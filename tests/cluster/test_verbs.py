"""The command line's verbs on clusters that really run, and clusters that outlive the command that started them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_cli import CommandLine, QuickCommandLine
from live_cluster import assert_no_complaints, eventually, free_base_port, http_get

from minikafka.chaos.layout import ClusterLayout
from minikafka.chaos.local_cluster import LocalCluster

MakeCommandLine = Callable[[str], CommandLine]


@pytest.fixture
def in_directory(tmp_path: Path) -> Iterator[MakeCommandLine]:
    """A command line for a directory of this name. Clusters in such directories end with the test, and must have had
    no unhandled exception."""
    names: list[str] = []

    def make(name: str) -> CommandLine:
        names.append(name)
        return CommandLine(tmp_path / name)

    yield make
    clusters = [LocalCluster.open(tmp_path / name) for name in names if ClusterLayout.exists(tmp_path / name)]
    for cluster in clusters:
        cluster.kill_all()
    for cluster in clusters:
        assert_no_complaints(cluster)


def status(minikafka: CommandLine) -> dict[str, Any]:
    """Its exit code says whether the cluster is healthy."""
    finished = minikafka.run("cluster", "status", "--json")
    found: dict[str, Any] = json.loads(finished.stdout)
    assert found["healthy"] == (finished.returncode == 0)
    return found


def states(minikafka: CommandLine) -> list[str]:
    return [node["state"] for node in status(minikafka)["nodes"]]


def test_the_life_of_a_cluster(in_directory: MakeCommandLine) -> None:
    minikafka = in_directory("c")
    base_port = free_base_port()
    started = json.loads(minikafka("cluster", "start", "--base-port", str(base_port), "--json"))
    servers = ",".join(f"127.0.0.1:{base_port + n}" for n in range(3))
    assert (started["nodes"], started["started"], started["bootstrap_servers"]) == ([1, 2, 3], [1, 2, 3], servers)
    first = status(minikafka)
    assert first["healthy"]
    assert first["controller"] in (1, 2, 3)
    again = minikafka("cluster", "start").decode()
    assert again.splitlines() == ["all nodes are already running", f"bootstrap.servers={servers}"]

    assert minikafka("cluster", "kill", "2", "2") == b"killed node 2\n"
    assert states(minikafka) == ["up", "down", "up"]
    assert b"node 2 is down" in minikafka("cluster", "pause", "2", fails=True)
    minikafka("cluster", "pause", "3")
    assert states(minikafka) == ["up", "down", "paused"]
    minikafka("cluster", "resume", "3")
    minikafka("cluster", "restart", "2")
    eventually(lambda: status(minikafka)["healthy"], "all nodes to be live members")
    minikafka("cluster", "restart", "1", "2")

    second = status(minikafka)
    for key in ("cluster_id", "bootstrap_servers", "dir"):
        assert second[key] == first[key]
    ports = ("node_id", "client_port", "replication_port", "controller_port")
    for before, after in zip(first["nodes"], second["nodes"], strict=True):
        assert [before[key] for key in ports] == [after[key] for key in ports]
        assert (before["pid"] == after["pid"]) == (before["node_id"] == 3)

    assert minikafka("cluster", "stop", "1", "1") == b"stopped node 1\n"
    assert minikafka("cluster", "stop", "1", "2") == b"node 1 was not running\nstopped node 2\n"
    minikafka("cluster", "restart", "1", "2")
    assert minikafka("cluster", "stop").decode() == "stopped nodes 1, 2, 3\n"
    assert states(minikafka) == ["down"] * 3
    assert not status(minikafka)["healthy"]
    assert minikafka("cluster", "stop").decode() == "no node was running\n"
    assert "ready after" in minikafka("cluster", "start").decode()


def test_a_cluster_with_metrics(in_directory: MakeCommandLine) -> None:
    minikafka, plain = in_directory("c"), in_directory("plain")
    port = free_base_port(1)
    where = ["--brokers", "1", "--base-port", str(port)]
    url = f"http://127.0.0.1:{port + 300}/metrics"
    assert minikafka("cluster", "start", *where, "--metrics").decode().splitlines()[-1] == f"metrics: {url}"
    assert "kafka_server_kafkaserver_brokerstate 3.0" in http_get(url, "/metrics")[1]
    assert http_get(url, "/readyz") == (200, "ready\n")
    assert json.loads(minikafka("cluster", "start", "--metrics", "--json"))["metrics"] == [url]
    plain("cluster", "start", "--brokers", "1", "--base-port", str(free_base_port(1)))
    assert b"add metrics.listener=127.0.0.1:PORT" in plain("cluster", "start", "--metrics", fails=True)


def test_two_clusters_run_side_by_side(in_directory: MakeCommandLine) -> None:
    one, two = in_directory("one"), in_directory("two")
    for minikafka in (one, two):
        minikafka("cluster", "start", "--brokers", "1", "--base-port", str(free_base_port(1)))
    assert status(one)["cluster_id"] != status(two)["cluster_id"]
    one("topic", "create", "only-here")
    assert b"only-here" in one("topic", "list")
    assert b"only-here" not in two("topic", "list")
    one("cluster", "kill", "1")
    assert status(two)["healthy"]


def test_a_port_in_use_is_named(in_directory: MakeCommandLine) -> None:
    one, two = in_directory("one"), in_directory("two")
    port = free_base_port(1)
    one("cluster", "start", "--brokers", "1", "--base-port", str(port))
    complaint = two("cluster", "start", "--brokers", "1", "--base-port", str(port), fails=True).decode()
    assert f"port {port}, which node 1 needs, is in use" in complaint
    assert status(one)["healthy"]


def reset_offsets(minikafka: CommandLine) -> None:
    """Of ``readers-by-hand``, which has read all four records of ``by-hand``; it has them when this ends."""
    group = ["group", "reset-offsets", "--group", "readers-by-hand"]
    grouped = ["consume", "by-hand", "--group", "readers-by-hand", "--timeout", "1"]
    shown = minikafka(*group, "--topic", "by-hand", "--to-earliest").decode()
    assert "dry run: nothing is changed" in shown
    assert minikafka(*grouped) == b""
    (first, second) = json.loads(minikafka(*group, "--all-topics", "--to-earliest", "--execute", "--json"))[
        "partitions"
    ]
    assert first["old_offset"] + second["old_offset"] == 4
    assert first["new_offset"] == second["new_offset"] == 0
    reading = ["group", "describe", "readers-by-hand", "--json"]
    assert [row["committed_offset"] for row in json.loads(minikafka(*reading))[0]["partitions"]] == [0, 0]
    assert sorted(minikafka(*grouped, "--count", "4").splitlines()) == [b"1", b"2", b"3", b"4"]
    minikafka(*group, "--topic", "by-hand", "--to-datetime", "1999-01-01T00:00:00", "--execute")
    assert sorted(minikafka(*grouped, "--count", "4").splitlines()) == [b"1", b"2", b"3", b"4"]
    assert b"partition 7 not found" in minikafka(*group, "--topic", "by-hand:7", "--to-latest", fails=True)
    assert b"topic 'nowhere' not found" in minikafka(*group, "--topic", "nowhere", "--to-latest", fails=True)
    assert b"one of them says where to" in minikafka(*group, "--topic", "by-hand", fails=True)
    assert b"exclude each other" in minikafka(*group, "--all-topics", "--to-latest", "--to-current", fails=True)
    at_work = [sys.executable, "-m", "minikafka", "consume", "by-hand", "--group", "at-work", "--from-beginning"]
    with subprocess.Popen([*at_work, "--dir", str(minikafka.directory)], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline()
        new = [word if word != "readers-by-hand" else "at-work" for word in group]
        assert b"group 'at-work' has members: " in minikafka(*new, "--all-topics", "--to-latest", fails=True)
        reader.kill()


def test_topics_and_records_by_hand(server: LocalCluster) -> None:
    minikafka = QuickCommandLine(server.layout.directory)
    minikafka("topic", "create", "by-hand", "--partitions", "2", "--replication-factor", "3")
    assert b"by-hand" in minikafka("topic", "list")
    described = minikafka("topic", "describe", "by-hand").decode()
    assert "by-hand" in described
    assert b"TOPIC_ALREADY_EXISTS" in minikafka("topic", "create", "by-hand", fails=True)

    minikafka("produce", "by-hand", "--key-separator", ",", given=b"a,1\nb,2\n\xc3\xa9,3\n")
    printed = minikafka("consume", "by-hand", "--from-beginning", "--count", "3", "--print-key")
    assert sorted(printed.splitlines()) == [b"a\t1", b"b\t2", b"\xc3\xa9\t3"]
    grouped = ["consume", "by-hand", "--group", "readers-by-hand", "--from-beginning", "--count", "3"]
    assert sorted(minikafka(*grouped).splitlines()) == [b"1", b"2", b"3"]
    assert minikafka.run("produce", "by-hand", given=b"4\n").stderr.startswith(b"1 record, ")
    described = json.loads(minikafka("group", "describe", "readers-by-hand", "--json"))[0]
    assert (described["state"], described["members"]) == ("Empty", [])
    assert sum(each["lag"] for each in described["partitions"] if each["lag"]) == 1
    assert minikafka(*grouped[:-1], "1") == b"4\n"  # the group goes on behind what it was committed
    shown = [line.split() for line in minikafka("group", "describe", "readers-by-hand").decode().splitlines()]
    assert shown[0] == ["readers-by-hand:", "Empty,", "0", "members,", "classic", "protocol"]
    assert sum(int(row[2]) for row in shown[3:]) == sum(int(row[3]) for row in shown[3:]) == 4
    assert all(row[4:] == ["0", "-", "-"] for row in shown[3:])
    assert ["readers-by-hand", "classic", "Empty"] in [
        line.split() for line in minikafka("group", "list").decode().splitlines()
    ]
    reset_offsets(minikafka)
    assert minikafka("group", "delete", "--group", "readers-by-hand") == b"deleted readers-by-hand\n"
    assert b"group 'readers-by-hand' not found" in minikafka("group", "describe", "readers-by-hand", fails=True)

    segments = sorted(str(path) for path in server.layout.data_directory(1).glob("by-hand-*/*.log"))
    assert len(segments) == 2
    dumped = minikafka("log", "dump", "--records", *segments).decode()
    assert all(segment in dumped for segment in segments)
    minikafka("topic", "delete", "by-hand")
    eventually(lambda: b"by-hand" not in minikafka("topic", "list"), "the topic to be gone")


def test_logs_are_json_and_as_detailed_as_asked_for(in_directory: MakeCommandLine) -> None:
    detailed, terse = in_directory("detailed"), in_directory("terse")
    for minikafka, setting in ((detailed, "logging.format=json"), (terse, "logging.level=warning")):
        port = str(free_base_port(1))
        minikafka("cluster", "start", "--brokers", "1", "--base-port", port, "--set", setting)
    lines = detailed("cluster", "logs", "1").decode().splitlines()
    said = [json.loads(line.removeprefix("1 | ")) for line in lines]
    assert "registered" in {each["event"] for each in said}
    assert {each["node"] for each in said} == {1}
    assert detailed("cluster", "logs", "--level", "error") == b""
    assert terse("cluster", "logs") == b""


def test_what_can_be_seen_of_a_cluster(in_directory: MakeCommandLine) -> None:
    minikafka = in_directory("c")
    quick = QuickCommandLine(minikafka.directory)
    base_port = free_base_port(2)
    minikafka("cluster", "start", "--brokers", "2", "--base-port", str(base_port))
    assert "created t" in quick("topic", "create", "--topic", "t", "-p", "2", "-c", "retention.ms=3600000").decode()
    assert "t exists" in quick("topic", "create", "t", "--if-not-exists").decode()
    quick("produce", "--topic=t", given=b"one\ntwo\nthree\n")
    rows = json.loads(quick("topic", "describe", "t", "--json"))
    written = next(row for row in rows if row["end_offset"])
    assert (written["first_offset"], written["end_offset"]) == (0, 3)
    assert written["size_in_bytes"] > 0
    assert [row["end_offset"] for row in rows if row is not written] == [0]
    shown = quick("topic", "describe", "t").decode()
    assert "t: min.insync.replicas=2, retention.ms=3600000" in shown
    assert "0..3" in shown
    assert shown.splitlines()[1].split()[0] == "partition"  # the topic has been named
    beyond = minikafka.run("topic", "alter", "t", "--config", "min.insync.replicas=9").stderr.decode()
    counts = "min.insync.replicas 9 counts as 2, and acks=all is refused while one of them is out of sync"
    assert beyond == f"note: replicas of t: 2; {counts}\n"
    assert not minikafka.run("topic", "alter", "t", "--config", "min.insync.replicas=2").stderr
    alone = minikafka.run("topic", "create", "alone", "-r", "1", "-c", "min.insync.replicas=2").stderr.decode()
    assert alone == "note: replicas of alone: 1; min.insync.replicas 2 counts as 1\n"
    quick("topic", "delete", "alone")
    partition = str(written["partition"])
    two = quick("consume", "t", "--partition", partition, "--offset", "1", "--max-messages", "2")
    assert two == b"two\nthree\n"
    assert b"needs --partition" in quick("consume", "t", "--offset", "1", fails=True)
    assert quick("consume", "t", "--partition", partition, "--offset", "earliest", "-n", "2").splitlines()
    every = quick("consume", "t", "--from-beginning", "--timeout", "1")
    assert sorted(quick("consume", "t", "--offset", "earliest", "--timeout", "1")) == sorted(every)
    assert quick("consume", "t", "--offset", "latest", "--timeout", "0.1") == b""
    assert b"nor earliest or latest" in quick("consume", "t", "--offset", "newest", fails=True)
    assert b"exclude each other" in quick("consume", "t", "--offset", "latest", "--from-beginning", fails=True)

    port = str(base_port + 1)
    found = json.loads(quick("cluster", "status", "-b", f"127.0.0.1:{port}", "--json"))
    assert found["healthy"]
    assert [broker["broker_id"] for broker in found["brokers"]] == [1, 2]
    assert sum(broker["leaders"] for broker in found["brokers"]) == found["partitions"]
    listed = json.loads(minikafka.run("cluster", "list", "--json", at=False).stdout)
    (here,) = [each for each in listed if each["bootstrap_servers"].endswith(f":{port}")]
    assert (here["running"], here["nodes"]) == (2, 2)
    logs = quick("cluster", "logs").decode()
    assert "1 | " in logs
    assert "2 | " in logs

    minikafka("cluster", "kill", "1")

    def has_no_controller() -> bool:  # as soon as the other one has noticed
        seen = minikafka.run("cluster", "status", "-b", f"127.0.0.1:{port}", "--json")
        healthy = json.loads(seen.stdout)["healthy"]
        assert healthy == (seen.returncode == 0)
        return not healthy and json.loads(seen.stdout)["controller"] is None

    eventually(has_no_controller, "the loss of the quorum to be seen")
    assert b"needed where nobody can be asked" in minikafka("cluster", "delete", fails=True)
    assert b"deleted" in minikafka("cluster", "delete", "--yes")
    assert b"no cluster found" in minikafka("cluster", "status", fails=True)
