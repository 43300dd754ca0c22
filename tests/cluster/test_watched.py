"""The loops of nodes are watched whoever starts them: see ``live_turns``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from live_cluster import eventually
from live_wire import Wire

from minikafka.broker.loop_watch import REPORTS_VARIABLE
from minikafka.testing import MiniKafka
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

LEAST_MS = 1


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the nodes of the test report turns that hardly took long."""
    file = tmp_path / "reports"
    monkeypatch.setenv(REPORTS_VARIABLE, f"{LEAST_MS}:{file}")
    return file


def reported(servers: str, reports: Path) -> list[str]:
    """The directories of the nodes that tell of a turn, once each of some requests has taken one of them so long."""
    names = [MetadataRequestTopic(name=f"{number:x}") for number in range(900)]
    with Wire(int(servers.rpartition(":")[2])) as wire:
        for _ in range(3):
            wire.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
    lines = eventually(lambda: reports.exists() and reports.read_text().splitlines(), "the reports")
    found = [json.loads(line) for line in lines]
    assert all(each["cpu_ms"] >= LEAST_MS and each["where"] for each in found)
    return [each["directory"] for each in found]


@pytest.mark.parametrize("in_process", [False, True], ids=["processes", "threads"])
def test_brokers_of_the_kit(reports: Path, tmp_path: Path, in_process: bool) -> None:
    with MiniKafka(brokers=1, in_process=in_process, directory=tmp_path / "kafka") as kafka:
        assert set(reported(kafka.bootstrap_servers, reports)) == {str(tmp_path / "kafka" / "node-1" / "data")}


def test_brokers_that_a_program_of_a_user_starts(reports: Path) -> None:
    told = "echo $KAFKA_BOOTSTRAP_SERVERS; read end"
    words = [sys.executable, "-m", "minikafka", "run", "--brokers", "1", "--", "sh", "-c", told]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=dict(os.environ)) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert reported(running.stdout.readline().strip(), reports)
        running.stdin.write("\n")
        running.stdin.flush()
        assert running.wait() == 0
