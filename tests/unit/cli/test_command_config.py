"""``--command-config``: each verb that talks to a cluster has it, and connects as it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_line import COMMAND
from typer.core import TyperGroup

from minikafka.cli.command_config import give_command_config
from minikafka.cli.options import target


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from commands(inner, f"{path} {name}".strip())
    else:
        yield path, command


def verbs(command: Any) -> Iterator[tuple[str, set[str]]]:
    for path, each in commands(command):
        yield path, {option for param in each.params for option in param.opts}


def test_every_verb_that_talks_to_a_cluster_takes_it() -> None:
    talking = {path for path, options in verbs(COMMAND) if "--bootstrap-server" in options}
    assert talking == {path for path, options in verbs(COMMAND) if "--command-config" in options}
    assert {"produce", "consume", "topic list", "pipeline archive", "chaos run"} <= talking


def test_a_default_is_of_a_directory_only_where_one_can_be_named() -> None:
    """`chaos run` spoke of --dir, and has none."""
    for path, command in commands(COMMAND):
        defaults = [str(param.show_default) for param in command.params if "--command-config" in param.opts]
        takes_one = any("--dir" in param.opts for param in command.params)
        assert all(("--dir" in default) is takes_one for default in defaults), path


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\n")
    return path


def run(*words: str, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(COMMAND, words, prog_name="minikafka", env={"COLUMNS": "200", **(env or {})})


@pytest.mark.parametrize("option", ["--command-config", "--consumer.config", "--producer.config"])
def test_other_tools_call_it_otherwise(option: str, properties: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.client.connections.BOOTSTRAP_TIMEOUT_S", 0.0)
    said = run("topic", "list", "-b", "127.0.0.1:1", option, str(properties), "--timeout", "0.1")
    assert "no broker answers" in str(said.exception)


def test_a_file_that_cannot_be_used_is_told_before_anything_is_done(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.properties"
    wrong.write_text("security.protocol=SSL\nssl.truststore.location=/nowhere/ca.pem\n")
    for path, why in ((wrong, "ssl.truststore.location /nowhere/ca.pem: No such file"), ("missing", "No such file")):
        said = run("topic", "list", "-b", "127.0.0.1:1", "--command-config", str(path))
        assert said.exit_code == 2
        assert "Invalid value for --command-config: " in said.output
        assert why in said.output
    assert why in run("topic", "list", "-b", "h:1", env={"MINIKAFKA_COMMAND_CONFIG": "missing"}).output


def test_a_command_that_is_shown_to_the_user_has_it(properties: Path) -> None:
    give_command_config(properties)
    try:
        named = target("h:1", None)
        assert named.security.security_protocol == "SSL"
        assert named.command("topic list") == f"minikafka topic list -b h:1 --command-config {properties}"
    finally:
        give_command_config(None)
    assert target("h:1", None).security.security_protocol == "PLAINTEXT"
