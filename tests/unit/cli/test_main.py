"""Every verb teaches with --help, and errors are one line."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_line import COMMAND
from live_program import run_program

import minikafka
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import free_base_port

PAGE = Path(minikafka.__file__).parent.parent / "docs" / "commands.md"


def verbs() -> list[tuple[str, ...]]:
    """Every verb as the words that call it; hidden ones are other words for them."""
    found: list[tuple[str, ...]] = []

    def visit(command: object, words: tuple[str, ...]) -> None:
        commands = getattr(command, "commands", None)
        if commands is None:
            found.append(words)
            return
        for name, child in commands.items():
            if not child.hidden:
                visit(child, (*words, name))

    visit(COMMAND, ())
    return found


def times(command: object = COMMAND) -> Iterator[Any]:
    """Every option that is a number with a fraction, and a least value: so many seconds or minutes."""
    for child in getattr(command, "commands", {}).values():
        yield from times(child)
    for option in getattr(command, "params", ()):
        if option.type_descriptor.annotation is float and option.min is not None:
            yield option


def test_no_verb_can_be_told_to_wait_for_ever() -> None:
    """Where --timeout could be inf, it became milliseconds by way of a traceback, and 1e12 did not fit the request."""
    assert len(list(times())) > 40
    assert not [option.opts for option in times() if option.max is None or not isfinite(option.max)]


def minikafka_command(*words: str, directory: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"MINIKAFKA_DIR": str(directory), "COLUMNS": "200"}
    done = run_program(list(words), environment, stdin.encode())
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("words", verbs(), ids=" ".join)
def test_every_verb_has_help_and_is_on_the_page(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(COMMAND, [*words, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 4
    page = PAGE.read_text()
    assert f"minikafka {' '.join(words)}" in page or f"`{words[-1]}" in page


def test_every_verb_that_lists_or_shows_does_so_in_json() -> None:
    """These do something, and say that it is done."""
    acting = {
        "broker", "run", "pipeline prepare", "pipeline demo", "pipeline take-over",
        "topic create", "topic alter", "topic delete", "topic move", "group delete",
        "acl add", "acl remove", "config set", "config delete", "quota set", "quota remove", "user add", "user remove",
        "transaction abort", "transaction terminate",
        "cluster feature upgrade", "cluster feature downgrade",
        *(f"cluster {verb}" for verb in ("stop", "kill", "pause", "resume", "restart")),
        *(f"cluster {verb}" for verb in ("add", "drain", "remove", "delete")),
        *(f"chaos {verb}" for verb in ("cut", "slow", "clock", "disk", "damage", "heal", "rule add", "rule remove")),
    }  # fmt: skip
    runner = CliRunner()
    silent = {" ".join(words) for words in verbs() if "--json" not in runner.invoke(COMMAND, [*words, "--help"]).output}
    assert silent == acting


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("words", [(), ("cluster",), *verbs()], ids=" ".join)
def test_help_fits_a_terminal_and_nothing_of_it_is_cut_off(words: tuple[str, ...], columns: int) -> None:
    """A narrow one is told the same without frames, which would leave a column of two words."""
    runner = CliRunner()
    shown = runner.invoke(COMMAND, [*words, "--help"], env={"COLUMNS": str(columns)}).output
    assert max(map(len, shown.splitlines())) <= columns
    assert ("│" in shown) == (columns == 80)
    assert "…" not in shown
    assert not re.search(r"[a-z,]\.\.\.\s", shown)
    assert "[bold]" not in shown
    assert "<bool>" not in shown  # behind options that take no value
    assert "list[" not in shown  # a Python type
    usage = next(line for line in shown.splitlines() if "Usage:" in line)
    assert "{" not in usage
    assert "]]" not in usage


def test_the_verbs_that_users_meet_first_are_listed_first() -> None:
    shown = {name for name, child in COMMAND.commands.items() if not child.hidden}
    assert set(COMMAND.list_commands(None)) == shown
    assert COMMAND.list_commands(None)[0] == "cluster"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("stop", "minikafka cluster stop"),
        ("logs", "minikafka cluster logs"),
        ("unpause 1", "minikafka cluster unpause"),
        ("create x", "minikafka topic create"),
        ("list", "minikafka cluster list or minikafka topic list"),
        ("cluster up", "minikafka cluster start"),
        ("chaos kill 1", "minikafka cluster kill 1"),
        ("cluster produce t", "minikafka produce t"),
        ("cluster rm", "minikafka cluster delete"),
        ("ps", "minikafka status"),
        ("topics list", "minikafka topic"),
        ("topic --list", "minikafka topic list"),
        ("kafka-topics.sh --list", "minikafka topic list"),
        ("console-consumer --topic x", "minikafka consume --topic x"),
        ("kafka-consumer-groups.sh --list", "minikafka group list"),
        ("kafka-reassign-partitions --verify", "minikafka reassign"),
        ("leader-election", "minikafka elect-leaders"),
        ("configs --describe --topic x", "minikafka config get --topic x"),
        ("kafka-configs.sh --alter --topic x --add-config a=1", "minikafka config set --topic x --add-config a=1"),
        ("delete-records --offset-json-file f", "minikafka topic delete-records --offset-json-file f"),
        ("get-offsets --topic x", "minikafka topic describe --topic x"),
        ("dump-log", "minikafka log dump"),
        ("kafka-acls.sh --list --topic x", "minikafka acl list --topic x"),
        ("cluster info", "minikafka cluster status"),
        ("version", "minikafka --version"),
        ("help", "minikafka --help"),
        ("topic --create --topic x", "minikafka topic create --topic x"),
        ("--topic x --describe", "minikafka topic describe x"),
    ],
)
def test_a_verb_that_others_have_is_told_by_its_own_name(words: str, hint: str) -> None:
    said = CliRunner().invoke(COMMAND, words.split(), prog_name="minikafka", env={"COLUMNS": "100"})
    assert said.exit_code == 2
    assert f". Try: {hint} " in said.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("kafka-metadata-quorum.sh describe --status", "minikafka cluster status shows the controller"),
        ("producer-perf-test --topic t", "python -m benchmarks measures"),
        ("topic list --zookeeper localhost", "There is no ZooKeeper: name a broker with --bootstrap-server"),
        ("cluster status --watch", "watch -n 1 minikafka cluster status"),
        ("consume t --formatter kafka.x", "What is printed is said with --json"),
    ],
)
def test_what_is_not_here_is_told_with_the_reason(words: str, why: str) -> None:
    said = CliRunner().invoke(COMMAND, words.split(), prog_name="minikafka", env={"COLUMNS": "150"})
    assert said.exit_code == 2
    assert why in said.output


@pytest.mark.parametrize("words", ["topic create t --partitions abc", "topic create t -p -1", "cluster kill abc"])
def test_a_number_that_is_none_is_named(words: str) -> None:
    said = CliRunner().invoke(COMMAND, words.split(), env={"COLUMNS": "150"})
    assert said.exit_code == 2
    assert "abc" in said.output or "-1" in said.output
    assert not re.search("Input|unable to parse", said.output)  # the words of a library about its own work


@pytest.mark.parametrize("option", ["--bootstrap-servers", "--bootstrap.servers=127.0.0.1:1", "--broker-list", "-b"])
def test_bootstrap_servers_may_be_spelled_otherwise(option: str) -> None:
    given = [option] if "=" in option else [option, "127.0.0.1:1"]
    result = CliRunner().invoke(COMMAND, ["topic", "list", *given, "--timeout", "0.1"])
    assert "no broker answers" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("--dir /tmp/x cluster status", "minikafka ... --dir ..."),
        ("cluster --dir=/tmp/x status", "minikafka cluster ... --dir=/tmp/x ..."),
        ("-b localhost:9092 topic list", "minikafka ... -b ..."),
    ],
)
def test_an_option_before_the_verb_is_told_its_place(words: str, right: str) -> None:
    said = CliRunner().invoke(COMMAND, words.split(), prog_name="minikafka", env={"COLUMNS": "100"})
    assert said.exit_code == 2
    assert f"It belongs behind the verb: {right} " in said.output
    assert "belongs" not in CliRunner().invoke(COMMAND, ["--nope", "topic", "list"], prog_name="minikafka").output


@pytest.mark.parametrize(
    ("words", "verb"),
    [("topic rm", "topic delete"), ("cluster unpause", "cluster resume"), ("status", "cluster status")],
)
def test_what_others_call_it_works_too(words: str, verb: str) -> None:
    ours, theirs = (
        CliRunner().invoke(COMMAND, [*each.split(), "--help"]).output.splitlines() for each in (words, verb)
    )
    assert ours[3:] == theirs[3:]


@pytest.mark.parametrize("given", [["--topic", "t"], ["--topic=t"], ["t"]], ids=" ".join)
def test_a_topic_may_be_an_option_as_for_kafkas_tools(given: list[str]) -> None:
    result = CliRunner().invoke(COMMAND, ["topic", "create", *given, "-b", "127.0.0.1:1", "--timeout", "0.1"])
    assert "no broker answers" in str(result.exception)


def test_files_may_be_an_option_as_for_kafkas_dump_log(tmp_path: Path) -> None:
    result = CliRunner().invoke(COMMAND, ["log", "dump", "--files", str(tmp_path)])
    assert "is a directory; name the files in it" in result.output


def test_hints_name_the_cluster_that_was_asked_for(tmp_path: Path) -> None:
    """Whoever copies one reaches the same cluster."""
    where = tmp_path / "a b"
    nothing = minikafka_command("topic", "list", directory=where).stderr
    assert nothing == f"minikafka: no cluster found in {where}; create one with: minikafka cluster start\n"
    elsewhere = minikafka_command("topic", "list", "--dir", str(where), directory=tmp_path).stderr
    assert elsewhere.endswith(f"create one with: minikafka cluster start --dir '{where}'\n")
    LocalCluster.create(where, brokers=1, base_port=free_base_port(1))
    down = minikafka_command("cluster", "kill", "1", "--dir", str(where), directory=tmp_path).stderr
    assert down.endswith(f"start it with: minikafka cluster restart 1 --dir '{where}'\n")
    for verb in ("topic list", "produce t", "consume t", "cluster drain 1"):
        silent = minikafka_command(*verb.split(), "--dir", str(where), directory=tmp_path).stderr
        start = f"minikafka cluster start --dir '{where}'"
        assert silent == f"minikafka: every node of the cluster in {where} is down; start it with: {start}\n"


def test_a_shell_completes_verbs_and_names_nothing_where_there_is_no_cluster(tmp_path: Path) -> None:
    """Nor does it print an error into the line that is being typed."""
    for line, expected in (
        ("minikafka topic de", "describe\ndelete\ndelete-records"),
        ("minikafka topic describe t", ""),
        ("minikafka config get to", "topic"),
        ("minikafka config get topic t", ""),
        ("minikafka config set client c", ""),
    ):
        asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), "_MINIKAFKA_COMPLETE": "complete_bash"}
        done = CliRunner().invoke(COMMAND, [], prog_name="minikafka", env={**asked, "MINIKAFKA_DIR": str(tmp_path)})
        assert (done.stdout.strip(), done.stderr) == (expected, "")


def test_the_version() -> None:
    assert CliRunner().invoke(COMMAND, ["--version"]).output == f"minikafka {minikafka.__version__}\n"


@pytest.mark.parametrize("verb", ["status", "stop", "kill 1", "pause 1", "resume 1", "restart 1"])
def test_a_verb_without_a_cluster_says_how_to_make_one(verb: str, tmp_path: Path) -> None:
    result = minikafka_command("cluster", *verb.split(), directory=tmp_path / "none")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        f"minikafka: no cluster found in {tmp_path}/none; create one with: minikafka cluster start\n"
    )


def test_the_status_of_a_cluster_in_containers_needs_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who listens here does not answer; what counts is who was asked."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MINIKAFKA_DIR", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr("minikafka.chaos.layout.DEFAULT_BASE_PORT", port)
        asked = CliRunner().invoke(COMMAND, ["cluster", "status", "--timeout", "0.1"], env={"COLUMNS": "200"})
    assert asked.exit_code == 1
    assert f"127.0.0.1:{port}" in str(asked.exception)
    nobody = CliRunner().invoke(COMMAND, ["cluster", "status"], env={"COLUMNS": "200"})
    assert "no cluster found in" in str(nobody.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("broker", "--config", "/nonexistent"), "does not exist"),
        (("cluster", "start", "--set", "novalue"), "is not NAME=VALUE"),
        (("cluster", "start", "--brokers", "0"), "--brokers"),
        (("cluster", "kill", "one"), "N..."),
        (("produce", "t", "-b", "nowhere"), "is not HOST:PORT"),
        (("produce", "t", "--file", "/nonexistent"), "does not exist"),
        (("produce", "t", "--acks", "2"), "--acks"),
        (("consume", "t", "--group", "g", "--partition", "0"), "the group assigns the partitions"),
        (("consume", "t", "--count", "0"), "--count"),
        (("consume", "t", "-o", "newest"), "--offset: 'newest' is neither an offset"),  # kcat's names of options
        (("consume", "t", "-f", "%q"), "--format: %q not found"),
        (("consume", "t", "-c", "0"), "--count"),
        (("topic", "create", "t", "--partitions", "2147483648"), "--partitions"),
        (("topic", "create", "t", "--replication-factor", "32768"), "--replication-factor"),
        (("topic", "alter", "t", "--partitions", "2147483648"), "--partitions"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_wrong_option_is_named(words: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(COMMAND, list(words), env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert "Value error" not in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "topic list -b 127.0.0.1:1",
            "NETWORK_EXCEPTION: no broker answers: cannot reach 127.0.0.1:1: connection refused",
        ),
        ("pipeline demo", "pipelines need Spark, and pyspark is not installed: pip install 'minikafka[spark]'"),
    ],
)
def test_errors_are_a_line_where_spark_is_not_installed(words: str, message: str) -> None:
    program = f"""
import sys
sys.modules |= dict.fromkeys(("pyspark", "py4j", "pyarrow", "numpy"))  # as if they were not there
sys.argv = {["minikafka", *words.split()]}
from minikafka.cli.main import main
main()
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    *waiting, error = result.stderr.splitlines()
    assert (result.returncode, error) == (1, f"minikafka: {message}")
    assert all(line.startswith("waiting: ") for line in waiting), "said after 3 s: a busy machine takes so long"


def test_a_cluster_that_cannot_be_started_is_not_made(tmp_path: Path) -> None:
    base_port = free_base_port(3)
    start = ("cluster", "start", "--base-port", str(base_port))
    wrong = minikafka_command(*start, "--set", "foo.bar=1", "--set", "log.segment.bytes=potato", directory=tmp_path)
    assert wrong.stderr == (
        "minikafka: setting 'foo.bar' not found; log.segment.bytes = 'potato': must be a whole number of 1024 or more\n"
    )
    with socket.create_server(("127.0.0.1", base_port + 101)):
        busy = minikafka_command(*start, directory=tmp_path)
        minikafka_command(*start, directory=tmp_path / "new")
    assert f"port {base_port + 101}, which node 2 needs, is in use" in busy.stderr
    assert (wrong.returncode, busy.returncode) == (1, 1)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_the_command_line_is_loaded_is_quiet() -> None:
    program = """
import signal, sys
class Named:
    def __set_name__(self, *_):
        signal.raise_signal(signal.SIGINT)
class Impatient:
    def find_spec(self, name, *_):
        if name == "typer":
            type("Made", (), {"by": Named()})
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Impatient())
from minikafka.__main__ import main
main()
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGINT, "", ""), "130 in a shell"


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        ("--version", ">&-"),
        ("--version", "<&- >&- 2>&-"),
        ("produce t -b 127.0.0.1:1", "<&-"),
        ("cluster status", ">&-"),
        ("topic list -b 127.0.0.1:1", "<&- >&- 2>&-"),
    ],
)
def test_a_standard_stream_that_is_closed_is_no_traceback(tmp_path: Path, words: str, closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m minikafka {words} {closed}"],
        cwd=tmp_path,
        env={**os.environ, "MINIKAFKA_DIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == int(words != "--version")
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_left_is_no_error() -> None:
    """`minikafka cluster status | head -1` said "Exception ignored in: ... BrokenPipeError" after its lines."""
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-m", "minikafka", "--version"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with os.fdopen(writer) as stdout:
        done = subprocess.run(program, stdout=stdout, stderr=subprocess.PIPE, env=environment, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_broker_in_the_foreground_is_known_by_the_whole_path_of_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its command line `cluster status` sees it; the way from the directory that it was started in tells nobody."""
    run: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _program, words: run.append(words))
    monkeypatch.chdir(tmp_path)
    Path("server.properties").touch()
    CliRunner().invoke(COMMAND, ["broker", "--config", "server.properties", "--set", "a=b"])
    settings = ["--config", f"{tmp_path}/server.properties", "--set", "a=b"]
    assert run == [[sys.executable, "-P", "-m", "minikafka.broker", *settings]]


def test_a_broker_in_the_foreground_imports_nothing_of_the_present_directory(tmp_path: Path) -> None:
    """It ended with "Could not import runpy module" beside somebody's types.py."""
    for name in ("types", "random", "minikafka"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the present directory')")
    (tmp_path / "server.properties").write_text("nonsense=1")
    words = [sys.executable, "-P", "-m", "minikafka", "broker", "--config", "server.properties"]
    environment = os.environ | {"PYTHONPATH": str(PAGE.parent.parent)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("minikafka broker: setting 'nonsense' not found")
