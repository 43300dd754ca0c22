"""The README's commands, and its tests and those of docs/testing.md, as a user runs them; and what becomes of brokers
when their test is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from live_cluster import eventually, free_base_port, running_cluster

import minikafka
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.processes import look_up
from minikafka.cli.main import app

ROOT = Path(minikafka.__file__).parent.parent
README = (ROOT / "README.md").read_text()
TESTING = (ROOT / "docs" / "testing.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
DRIVER = """
import sys
from pathlib import Path
from typing import Any
from minikafka.chaos.local_cluster import LocalCluster

cluster = LocalCluster.create(Path(sys.argv[1]), brokers=2, base_port=int(sys.argv[2]), detached=False)
cluster.start()
cluster.pause(2)
print(*(process.pid for process in cluster.running().values()), flush=True)
sys.stdin.read()
"""


NOT_RUN = {
    "python3 -m venv .venv": "the tests run in an environment already",
    ". .venv/bin/activate": "as above",
    "pip install . confluent-kafka pytest": "needs a package index; test_docker.py and CI install the package",
    "pip install /path/to/minikafka": "as above",
    "pip install '.[spark]'": "as above, and 400 MB",
    "docker": "needs an engine; test_containers.py runs what the containers run",
    "make up": "as above",
    "make down": "as above",
    "make demo": "takes 15 s and more; `make bench` measures it",
    "make demo-spark": "takes minutes; tests/spark has its parts",
    "make check": "runs this test",
    "make sim": "takes a minute; tests/sim runs a few seeds",
    "make help": "prints the Makefile",
}
"""Commands of the README by their first words, and why no test runs them."""


def blocks(language: str, page: str = README) -> list[str]:
    """A page's blocks of code."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def test_every_block_says_its_language_and_what_is_not_run_is_there() -> None:
    fences = re.findall(r"^```(.*)$", README, re.MULTILINE)
    assert {*fences[::2]} == {"sh", "python"}
    inline = re.findall(r"`((?:docker|make|pip) [^`]+)`", README)
    lines = [*"".join(blocks("sh")).splitlines(), *inline]
    assert [command for command in inline if not command.startswith(tuple(NOT_RUN))] == []
    assert [prefix for prefix in NOT_RUN if not any(line.startswith(prefix) for line in lines)] == []


def test_the_commands_of_the_readme_run_in_their_order(tmp_path: Path) -> None:
    (test,) = blocks("python")
    tests = {"test_orders.py": test} | {f"test_{at}.py": test for at, test in enumerate(blocks("python", TESTING))}
    for name, text in tests.items():
        tmp_path.joinpath(name).write_text(text)
    commands = [line for line in "".join(blocks("sh")).splitlines() if line and not line.startswith(tuple(NOT_RUN))]
    start = f"minikafka cluster start --base-port {free_base_port()}"
    script = "\n".join(commands).replace("minikafka cluster start", start)
    script = script.replace("test_orders.py", " ".join(tests))
    environment = {name: value for name, value in _environment().items() if not name.startswith("MINIKAFKA_")}
    environment |= {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "TMPDIR": str(tmp_path),
    }
    try:
        done = subprocess.run(
            ["bash", "-e", "-x", "-o", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        for expected in (f"{len(tests)} passed", "100,000", "a node is down", "stopped"):
            assert expected in done.stdout
    finally:
        directory = tmp_path / ".minikafka/default"
        if directory.exists():
            LocalCluster.open(directory).kill_all()


def test_a_users_test_needs_no_other_plugin_in_the_checkout(tmp_path: Path) -> None:
    """The README has one install pytest alone, and save a test where one is: pytest reads pyproject.toml there."""
    test = tmp_path / "test_own.py"
    test.write_text("def test_own(): pass")
    without = [word for plugin in ("xdist", "asyncio", "cacheprovider") for word in ("-p", f"no:{plugin}")]
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), *without, str(test)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stderr


def test_verbs_options_and_targets_that_are_named_exist() -> None:
    spans = re.findall(r"`([^`\n]+)`", README + TESTING + COMMANDS)
    root = typer.main.get_command(app)
    for words in (span.split() for span in spans if span.startswith("minikafka ")):
        command: Any = root
        for word in words[1:]:
            command = getattr(command, "commands", {}).get(word, command)
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        named = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(words))
        assert set(named) <= options | {"--help"}, " ".join(words)
    makefile = (ROOT / "Makefile").read_text()
    for target in (span.split()[1] for span in spans if span.startswith("make ")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_brokers_end_with_the_process_that_started_them_paused_ones_too(tmp_path: Path) -> None:
    words = [sys.executable, "-c", DRIVER, str(tmp_path / "c"), str(free_base_port(2))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    ) as driver:
        assert driver.stdout is not None
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(pids) == 2
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    eventually(lambda: not any(look_up(pid, "minikafka.broker") for pid in pids), "the brokers to end")
    assert LocalCluster.open(tmp_path / "c").running() == {}


def test_the_leader_of_a_partition_can_be_asked_for(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", brokers=1) as cluster:
        with pytest.raises(ClusterError, match="partition orders-0 not found"):
            cluster.leader_of("orders")
        command = [sys.executable, "-m", "minikafka", "topic", "create", "orders", "-b", cluster.bootstrap_servers]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment())
        assert cluster.leader_of("orders") == 1
        cluster.kill(1)
        with pytest.raises(ClusterError, match="no node answers"):
            cluster.leader_of("orders")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
