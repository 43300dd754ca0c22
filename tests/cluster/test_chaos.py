"""Rounds of chaos: a clean one passes with a true verdict, and one that loses records does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from typer.main import get_command

from minikafka.chaos.rounds.kinds import KINDS, Arena
from minikafka.cli.main import app
from minikafka.client import Admin
from minikafka.model import TopicPartition


def run(out: Path, *options: str) -> tuple[int, dict[str, Any]]:
    command = ["chaos", "run", "--json", "--out", str(out), "--seed", "5", "--duration", "8", *options]
    result = CliRunner().invoke(get_command(app), command)
    assert result.exit_code in (0, 1), result.output
    text = result.stdout
    (outcome,) = json.loads(text[text.index("[\n") : text.rindex("]") + 1])
    return result.exit_code, outcome


@pytest.mark.parametrize("load", ["group", "transactions"])
def test_a_round_of_kills_and_lost_answers_loses_nothing(load: str, tmp_path: Path) -> None:
    status, outcome = run(tmp_path, "--workload", load, "--faults", "kill,requests,isolate", "--rate", "1000")
    assert (status, outcome["ok"]) == (0, True), outcome
    assert outcome["faults"]
    assert outcome["operations"]["succeeded"] > 1_000
    kept = {path.name for path in (tmp_path / f"{load}-5").iterdir()}
    assert kept == {"history.jsonl", "report.html", "report.json"}
    assert outcome == json.loads((tmp_path / f"{load}-5" / "report.json").read_text())


def test_a_round_that_loses_records_fails_and_keeps_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tp = TopicPartition("load", 0)

    async def lose(servers: str) -> None:
        async with Admin(servers) as admin:
            while not (await admin.delete_records({tp: -1}))[tp]:  # until there is something to delete
                await asyncio.sleep(0.05)

    @contextmanager
    def loss(arena: Arena) -> Iterator[str]:
        """Somebody deletes records, and the history does not know."""
        asyncio.run(lose(arena.cluster.bootstrap_servers))
        yield "records are deleted"

    monkeypatch.setitem(KINDS, "loss", loss)
    status, outcome = run(tmp_path, "--faults", "loss", "--rate", "1000", "--duration", "6")
    assert (status, outcome["ok"]) == (1, False)
    assert outcome["verdict"]["records"]["violations"]["lost-write"] > 0
    assert "acknowledged records are gone" in outcome["sentence"]
    assert list((tmp_path / "produce-5" / "cluster").glob("node-*/broker.log"))
