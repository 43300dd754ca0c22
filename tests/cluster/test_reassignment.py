"""Partitions that move between brokers, brokers that come and go, elections: by the command line, on real processes.

A broker that is paused cannot catch up, so a reassignment to it stays under way for as long as a test wants it to.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster_cli import CommandLine, QuickCommandLine
from cluster_load import TOPIC, Load
from live_cluster import (
    PATIENCE_S,
    StartCluster,
    controller_of,
    eventually,
    leader_of,
    partition_directories,
    partition_view,
    wait_until_known,
)

from minikafka.chaos.local_cluster import LocalCluster

LONG_SESSION = {"broker_session_timeout_ms": "60000"}  # a paused broker stays a member


def json_lines(printed: bytes) -> list[str]:
    return [line for line in printed.decode().splitlines() if line.startswith("{")]


def plan_file(path: Path, topic: str, *replicas: list[int]) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def servers(cluster: LocalCluster, *without: int) -> str:
    return ",".join(f"127.0.0.1:{cluster.layout.client_port(node)}" for node in cluster.node_ids if node not in without)


@pytest.fixture
def cluster(start_cluster: StartCluster) -> LocalCluster:
    return start_cluster(**LONG_SESSION)


@pytest.mark.spec("A1", "A3", "A4", "A6", "C2", "P1")
def test_partitions_move_to_a_fourth_broker_under_load_while_the_controller_dies(
    cluster: LocalCluster, load: Load, tmp_path: Path
) -> None:
    program, minikafka = CommandLine(cluster.layout.directory), QuickCommandLine(cluster.layout.directory)
    assert b"node 4 joined" in program("cluster", "add")
    cluster.layout = type(cluster.layout).open(cluster.layout.directory)
    topics = json.dumps({"version": 1, "topics": [{"topic": TOPIC}]}).encode()
    generate = ("reassign", "--generate", "-", "--broker-list", "1,2,3,4")
    current, proposed = json_lines(minikafka(*generate, given=topics))
    assert json.loads(minikafka(*generate, "--json", given=topics))["current"] == json.loads(current)
    plan = tmp_path / "plan.json"
    plan.write_text(proposed)
    moved = [part for part in json.loads(proposed)["partitions"] if 4 in part["replicas"]]
    assert len(moved) == 2
    assert all(4 not in part["replicas"] for part in json.loads(current)["partitions"])

    cluster.pause(4)
    begun = minikafka("reassign", "--execute", str(plan), "--no-wait", "-b", servers(cluster, 4))
    assert json_lines(begun) == [current], "the way back is printed first"
    assert b"adding: 4." in minikafka("reassign", "--list", "-b", servers(cluster, 4))
    listed = json.loads(minikafka("reassign", "--list", "--json", "-b", servers(cluster, 4)))
    assert [each["adding"] for each in listed] == [[4], [4]]
    load.wait_for_more()
    controller = controller_of(cluster)
    cluster.kill(controller)
    cluster.wait_for(lambda view: view.has_controller and controller not in view.broker_ids, "the next controller")
    cluster.resume(4)
    cluster.start_node(controller, PATIENCE_S)
    load.wait_for_more()
    verified = minikafka("reassign", "--verify", str(plan), "--wait").decode()
    assert verified.count("is completed.") == 3
    assert json.loads(minikafka("reassign", "--verify", str(plan), "--json"))["complete"]
    for part in moved:
        assert list(partition_view(cluster, TOPIC, part["partition"]).replicas) == part["replicas"]

    drained = program("cluster", "drain", "1").decode()
    assert "node 1 has no replicas; take it out with: minikafka cluster stop 1" in drained
    eventually(lambda: not partition_directories(cluster, 1, TOPIC), "node 1 to delete what it had")
    minikafka("cluster", "stop", "1")
    load.wait_for_more()
    load.finish()
    for partition in range(3):
        assert sorted(partition_view(cluster, TOPIC, partition).replicas) == [2, 3, 4]


@pytest.mark.spec("A1", "A2", "A4", "A5", "A6", "C4", "C5")
def test_the_verbs_that_move_replicas_and_leaderships(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(1, min_insync_replicas="1", **LONG_SESSION)
    minikafka = QuickCommandLine(cluster.layout.directory)
    assert [cluster.add_node(), cluster.add_node()] == [2, 3]
    minikafka("topic", "create", "events", "--partitions", "2", "-r", "1")
    wait_until_known(cluster, "events", 2)
    refused(minikafka, tmp_path)
    one_partition(cluster, minikafka)
    elections(cluster, minikafka, tmp_path)
    throttles_and_cancelling(cluster, minikafka, tmp_path)
    directories(cluster, minikafka, tmp_path)
    removal(cluster, minikafka)


def refused(minikafka: CommandLine, tmp_path: Path) -> None:
    for replicas, complaint in (
        ([[1, 1]], "partitions[0] (events-0): duplicate broker 1"),
        ([[1], [7]], "events-1: broker 7 is not alive; live brokers are 1, 2, 3"),
        ([[1], [2], [3]], "events-2: topic 'events' has partitions 0 to 1"),
    ):
        bad = plan_file(tmp_path / "bad.json", "events", *replicas)
        said = minikafka("reassign", "--execute", bad, fails=True).decode()
        assert said.startswith("minikafka: ")
        assert complaint in said
        assert len(said.splitlines()) == 1
    assert b"No partition reassignments found." in minikafka("reassign", "--list")


def one_partition(cluster: LocalCluster, minikafka: CommandLine) -> None:
    """Without a file: to another broker, and its order of replicas."""
    (before,) = partition_view(cluster, "events").replicas
    other, third = (broker for broker in (1, 2, 3) if broker != before)
    said = minikafka("topic", "move", "events:0", "--to", f"{other},{third}", "--throttle", "100000000").decode()
    back = f"minikafka topic move events:0 --to {before} --dir {cluster.layout.directory}"
    assert said.startswith(f"moving events-0 from brokers {before}; the way back: {back}\n")
    assert "Clearing broker-level throttles on brokers 1,2,3" in said
    assert said.endswith(f"events-0 has its replicas on brokers {other},{third}; its leader is {other}\n")
    assert partition_view(cluster, "events").replicas == (other, third)
    turned = minikafka("topic", "move", "events:0", "--to", f"{third},{other}").decode()
    assert turned.endswith(f"its leader is {other}\n")
    assert leader_of(cluster, "events") == other
    unknown = minikafka("topic", "move", "events:9", "--to", "1", fails=True).decode()
    assert "events-9: topic 'events' has partitions 0 to 1" in unknown


def elections(cluster: LocalCluster, minikafka: CommandLine, tmp_path: Path) -> None:
    """A broker that comes back gets its leaderships when they are asked for."""
    plan = plan_file(tmp_path / "spread.json", "events", [2, 3], [2, 1])
    assert minikafka("reassign", "--execute", plan).decode().count("is completed.") == 2
    minikafka("elect-leaders", "--all-topic-partitions")
    eventually(lambda: leader_of(cluster, "events") == 2, "node 2 to lead")
    cluster.kill(2)
    eventually(lambda: leader_of(cluster, "events") == 3, "node 3 to take over")
    cluster.start_node(2)
    cluster.wait_in_sync(PATIENCE_S)
    elected = minikafka("elect-leaders", "--election-type", "PREFERRED", "--topic", "events").decode()
    assert "Successfully completed leader election (PREFERRED) for partitions events-0, events-1" in elected
    assert [leader_of(cluster, "events", index) for index in (0, 1)] == [2, 2]
    again = minikafka("elect-leaders", "--topic", "events", "--partition", "0").decode()
    assert "Valid replica already elected for partitions events-0" in again
    told = json.loads(minikafka("elect-leaders", "--topic", "events", "--json"))
    assert [each["error"] for each in told] == ["ELECTION_NOT_NEEDED", "ELECTION_NOT_NEEDED"]


def throttles_and_cancelling(cluster: LocalCluster, minikafka: CommandLine, tmp_path: Path) -> None:
    away = ("-b", servers(cluster, 3))
    cluster.pause(3)
    plan = plan_file(tmp_path / "back.json", "events", [1, 2], [3, 2])
    begun = minikafka("reassign", "--execute", plan, "--no-wait", "--throttle", "1000000", *away)
    assert b"The inter-broker throttle limit was set to 1000000 B/s" in begun
    busy = minikafka("reassign", "--execute", plan, "--no-wait", *away, fails=True)
    assert b"a reassignment is in progress (events-" in busy
    verified = minikafka("reassign", "--verify", plan, *away, fails=True)
    assert b"Clearing" not in verified
    assert b"Clearing" not in minikafka("reassign", "--cancel", plan, "--preserve-throttles", *away)
    assert partition_view(cluster, "events", 1).replicas == (2, 1)
    cluster.resume(3)
    said = minikafka("reassign", "--cancel", plan).decode().splitlines()
    assert said == [
        "None of the specified partition reassignments are in progress.",
        "Clearing broker-level throttles on brokers 1,2,3",
        "Clearing topic-level throttles on topics events",
    ]


def directories(cluster: LocalCluster, minikafka: CommandLine, tmp_path: Path) -> None:
    """A replica moves to the second directory of its broker, and a new one is made in the second of its own."""
    second = {node: str(cluster.layout.node_directory(node) / "second") for node in (2, 3)}
    for node, path in second.items():
        file, first = cluster.layout.config_file(node), str(cluster.layout.data_directory(node))
        file.write_text(file.read_text().replace(f"log.dirs={first}\n", f"log.dirs={first},{path}\n"))
        cluster.restart(node)
    cluster.wait_in_sync(PATIENCE_S)
    entry = {"topic": "events", "partition": 1, "replicas": [2, 3], "log_dirs": [second[2], second[3]]}
    plan = tmp_path / "directories.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    moved = minikafka("reassign", "--execute", str(plan), "--replica-alter-log-dirs-throttle", "100000000").decode()
    assert moved.count("completed successfully.") == 2
    assert "Clearing broker-level throttles on brokers 2,3" in moved
    described = json.loads(minikafka("log-dirs", "--json", "--topic-list", "events"))
    held = {
        (broker["broker"], each["logDir"])
        for broker in described["brokers"]
        for each in broker["logDirs"]
        if "events-1" in [replica["partition"] for replica in each["partitions"]]
    }
    assert held == {(2, second[2]), (3, second[3])}
    assert b"second" in minikafka("log-dirs", "--broker-list", "2")
    assert b"events-1" in minikafka("log-dirs", "--replicas")


def removal(cluster: LocalCluster, minikafka: CommandLine) -> None:
    refusal = minikafka("cluster", "remove", "2", fails=True).decode()
    assert "move them first: minikafka cluster drain 2" in refusal
    minikafka("topic", "alter", "events", "--partitions", "3", "--config", "retention.ms=60000")
    elsewhere = ("-b", cluster.bootstrap_servers)
    assert b"node 9 not found; the nodes of this cluster are 1, 2, 3" in minikafka(
        "cluster", "drain", "9", *elsewhere, fails=True
    )
    assert b"votes in the controller quorum" in minikafka("cluster", "remove", "1", *elsewhere, fails=True)
    drained = minikafka("cluster", "drain", "3", "--throttle", "100000000", *elsewhere).decode()
    assert f"stop it, then: minikafka cluster remove 3 -b {cluster.bootstrap_servers}" in drained
    assert b"removed node 3" in minikafka("cluster", "remove", "3")
    assert not cluster.layout.node_directory(3).exists()
    assert b"votes in the controller quorum" in minikafka("cluster", "remove", "1", fails=True)
    status = json.loads(minikafka("cluster", "status", "--json"))
    assert [node["node_id"] for node in status["nodes"]] == [1, 2]
    assert status["healthy"]
    cluster.layout = type(cluster.layout).open(cluster.layout.directory)
