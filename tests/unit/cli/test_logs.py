from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import COMMAND

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.cli import logs as logs_verb
from minikafka.cli.logs import NodeLog

FIRST = "2026-01-01T00:00:01.000001Z [info     ] first    node=1\n"
SECOND = (
    "2026-01-01T00:00:02.000001Z [error    ] second   node=2\nTraceback (most recent call last):\n  KeyError: 'x'\n"
)
THIRD = '{"node": 1, "event": "third", "level": "warning", "timestamp": "2026-01-01T00:00:03.000001Z"}\n'

Shown = Callable[..., list[str]]


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    made = LocalCluster.create(tmp_path / "c", brokers=2)
    for node_id, text in ((1, FIRST + THIRD), (2, SECOND)):
        made.layout.node_directory(node_id).mkdir()
        made.layout.log_file(node_id).write_text(text)
    return made


@pytest.fixture
def shown(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Shown:
    monkeypatch.setattr(logs_verb, "open_cluster", lambda _directory: cluster)

    def run(*words: str) -> list[str]:
        result = CliRunner().invoke(COMMAND, ["cluster", "logs", *words])
        assert result.exit_code == 0, result.exception
        return result.stdout.splitlines()

    return run


def test_lines_of_all_nodes_come_by_time_with_what_belongs_to_them(shown: Shown) -> None:
    first, third = FIRST.rstrip(), THIRD.rstrip()
    assert shown() == [f"1 | {first}", *(f"2 | {line}" for line in SECOND.splitlines()), f"1 | {third}"]
    assert shown("1") == [f"1 | {first}", f"1 | {third}"]


def test_only_grave_or_last_ones(shown: Shown) -> None:
    assert [line[0] for line in shown("--level", "warning")] == ["2", "2", "2", "1"]
    assert [line[0] for line in shown("--level", "error")] == ["2", "2", "2"]
    assert [line[0] for line in shown("--tail", "1")] == ["1"]
    assert shown("--tail", "0") == []


def test_entries_come_as_json_one_a_line(shown: Shown) -> None:
    first, second, third = map(json.loads, shown("--json"))
    assert first == {"timestamp": 1767225601000, "node": 1, "level": "info", "text": FIRST.rstrip()}
    assert (second["node"], second["level"], second["text"]) == (2, "error", SECOND.rstrip())
    assert (third["timestamp"], third["text"]) == (1767225603000, THIRD.rstrip())


def test_a_node_that_is_not_there_is_named(shown: Shown) -> None:
    result = CliRunner().invoke(COMMAND, ["cluster", "logs", "7"])
    assert "node 7 not found; the nodes of this cluster are 1, 2" in str(result.exception)


def test_a_log_is_read_on_through_unfinished_lines_and_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    log = NodeLog(3, path)
    assert log.read() == []  # not there yet
    path.write_text(FIRST[:30])
    assert log.read() == []
    path.write_text(FIRST)
    assert [entry.text for entry in log.read()] == [FIRST.rstrip()]
    assert log.read() == []
    path.rename(tmp_path / "broker.log.1")
    path.write_text(SECOND)
    found = [entry for _ in range(2) for entry in log.read()]
    assert [(entry.node_id, entry.text) for entry in found] == [(3, SECOND.rstrip())]


def test_a_log_that_cannot_be_read_keeps_nobody_from_the_others(
    cluster: LocalCluster, shown: Shown, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster.layout.log_file(2).unlink()
    cluster.layout.log_file(2).mkdir()
    log = NodeLog(2, cluster.layout.log_file(2))
    assert [log.read(), log.read()] == [[], []]
    said = capfd.readouterr().err
    assert said.startswith("the log of node 2 is left out: [Errno 21] Is a directory")
    assert said.count("\n") == 1
    assert shown() == [f"1 | {FIRST.rstrip()}", f"1 | {THIRD.rstrip()}"]
