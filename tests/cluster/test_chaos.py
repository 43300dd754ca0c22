"""Rounds of chaos: a clean one passes with a true verdict, and one that loses records does not."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_line import COMMAND
from live_cluster import eventually
from live_java import LIBRARIES_OF_CLIENTS, NotHereError, compiled

import minikafka
from minikafka.chaos.compose_cluster import docker
from minikafka.chaos.compose_project import PROJECT
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.rounds import java_clients
from minikafka.chaos.rounds.kinds import KINDS, Arena
from minikafka.client import Admin
from minikafka.model import TopicPartition
from minikafka.testing import MiniKafka

ROOT = Path(minikafka.__file__).parent.parent
JAVA_PROGRAM = Path(java_clients.__file__).with_name("ChaosClient.java")


def run(out: Path, *options: str) -> tuple[int, dict[str, Any]]:
    command = ["chaos", "run", "--json", "--out", str(out), "--seed", "5", "--duration", "5", *options]
    result = CliRunner().invoke(COMMAND, command)
    assert result.exit_code in (0, 1), result.output
    text = result.stdout
    (outcome,) = json.loads(text[text.index("[\n") : text.rindex("]") + 1])
    return result.exit_code, outcome


@pytest.mark.parametrize(
    ("load", "client"),
    [
        ("transactions", "minikafka"),
        pytest.param("copy", "confluent", marks=pytest.mark.long),
        pytest.param("transactions", "confluent", marks=pytest.mark.long),
        pytest.param("group", "java", marks=pytest.mark.long),
    ],
)
def test_a_round_of_kills_and_lost_answers_loses_nothing(
    load: str, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if client == "java":
        try:
            class_path = compiled(tmp_path, JAVA_PROGRAM, LIBRARIES_OF_CLIENTS, "org.apache.kafka:kafka-clients:4.3.1")
        except NotHereError as error:
            pytest.skip(str(error))
        monkeypatch.setenv("CLASSPATH", class_path)
    words = ("--workload", load, "--client", client)
    status, outcome = run(tmp_path / "out", *words, "--faults", "kill,requests,isolate", "--rate", "500")
    assert (status, outcome["ok"]) == (0, True), outcome
    assert outcome["faults"]
    assert outcome["operations"]["succeeded"] > 1_000
    kept = {path.name for path in (tmp_path / "out" / f"{load}-5").iterdir()}
    assert kept == {"history.jsonl", "report.html", "report.json"}
    assert outcome == json.loads((tmp_path / "out" / f"{load}-5" / "report.json").read_text())


def test_a_round_that_loses_records_fails_and_keeps_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tp = TopicPartition("load", 0)

    async def lose(servers: str) -> None:
        async with Admin(servers) as admin:
            deleted = 0
            while not deleted:  # until there is something to delete
                deleted = (await admin.delete_records({tp: -1}))[tp]

    @contextmanager
    def loss(arena: Arena) -> Iterator[str]:
        """Somebody deletes records, and the history does not know."""
        asyncio.run(lose(arena.cluster.bootstrap_servers))
        yield "records are deleted"

    monkeypatch.setitem(KINDS, "loss", loss)
    status, outcome = run(tmp_path, "--faults", "loss", "--rate", "300")
    assert (status, outcome["ok"]) == (1, False)
    assert outcome["verdict"]["records"]["violations"]["lost-write"] > 0
    assert "acknowledged records are gone" in outcome["sentence"]
    assert list((tmp_path / "produce-5" / "cluster").glob("node-*/broker.log"))


@pytest.mark.long
def test_containers_are_broken_by_docker_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        docker("compose", "version")
        docker("image", "inspect", re.findall(r"^FROM (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[-1])
    except ClusterError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(ROOT)
    words = ("--target", "compose", "--faults", "isolate", "--rate", "500", "--workload", "group")
    status, outcome = run(tmp_path / "out", *words)
    assert (status, outcome["ok"]) == (0, True), outcome
    (fault,) = outcome["faults"]
    assert "is cut off from all others" in fault["sentence"]
    assert outcome["operations"]["succeeded"] > 1_000
    assert {path.name for path in (tmp_path / "out" / "group-5").iterdir()} == {
        "history.jsonl",
        "report.html",
        "report.json",
    }
    of_project = ("--filter", f"label=com.docker.compose.project={PROJECT}")
    assert docker("ps", "--all", "--quiet", *of_project) == docker("volume", "ls", "--quiet", *of_project) == ""


def test_a_cluster_that_is_there_is_judged_while_somebody_breaks_it(tmp_path: Path) -> None:
    """A cluster of default settings refused the copying applications: their time-out was only fit for rounds."""
    with MiniKafka(directory=tmp_path / "kafka") as kafka:

        def breaking() -> None:
            eventually(lambda: kafka.cluster.view().topic_ids, "the topic of the load")  # type: ignore[union-attr]
            kafka.kill(kafka.leader_of("load"))
            kafka.heal()

        with ThreadPoolExecutor(1) as pool:
            broken = pool.submit(breaking)
            words = ("-b", kafka.bootstrap_servers, "--workload", "copy", "--rate", "500")
            status, outcome = run(tmp_path / "out", *words)
            broken.result()
    assert (status, outcome["ok"], outcome["faults"]) == (0, True, []), outcome
    assert outcome["operations"]["succeeded"] > 1_000


@pytest.mark.long
def test_apache_kafka_is_judged_as_well(tmp_path: Path) -> None:
    from benchmarks.apache_kafka import NotHereError, class_path, running_apache_kafka

    try:
        with running_apache_kafka(class_path(), {}, nodes=1) as kafka:
            status, outcome = run(tmp_path, "-b", kafka.bootstrap_servers, "--duration", "5", "--workload", "group")
    except NotHereError as error:
        pytest.skip(str(error))
    assert (status, outcome["ok"]) == (0, True), outcome
    assert outcome["operations"]["succeeded"] > 1_000


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    def said(*options: str) -> str:
        result = CliRunner().invoke(COMMAND, ["chaos", "run", "--out", str(tmp_path), *options])
        assert result.exit_code == 2
        return " ".join(result.output.replace("│", " ").split())

    assert "'lightning' is none of kill, kill-all, pause" in said("--faults", "kill,lightning")
    assert "'sing' is none of produce, group, transactions, copy, all" in said("--workload", "sing")
    assert "'moon' is none of processes, compose" in said("--target", "moon")
    assert "'--duration': 'inf' should be less than or equal to 86400" in said("--duration", "inf")
    assert "'lightning' is none of kill" in said("-b", "", "--faults", "lightning")  # of a new cluster, as without -b
    for yours in (("--faults", "kill"), ("--rounds", "2"), ("--target", "compose")):
        assert "the cluster, its faults and its rounds are yours" in said("-b", "127.0.0.1:1", *yours)
