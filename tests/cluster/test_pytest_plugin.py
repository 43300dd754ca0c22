"""The fixtures that users of pytest and unittest get, in runs of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = """
import shutil
import unittest

import pytest

from minikafka.testing import MiniKafkaCase


def values(kafka, topic):
    return [record.value for record in kafka.records(topic)]


def test_a_topic(minikafka, minikafka_topic):
    assert minikafka_topic == "test_a_topic"
    assert values(minikafka, minikafka_topic) == []
    minikafka.kill_all()


@pytest.mark.minikafka_topic(partitions=3)
@pytest.mark.parametrize("how", ["", "a b"])
def test_the_next_one_finds_it_healed(minikafka, minikafka_topic, how):
    assert minikafka.leader_of(minikafka_topic, 2) == 1
    assert minikafka_topic == "test_the_next_one_finds_it_healed" + {"": "", "a b": "-a-b"}[how]


def test_who_asks_while_it_runs(request):
    kafka = request.getfixturevalue("minikafka")
    assert list(kafka.cluster.running()) == [1]
    kafka.create_topic("asked-for")
    kafka.kill_all()
    assert False


def test_who_does_not_ask(): pass


def test_who_asks_behind_it(request):
    assert list(request.getfixturevalue("minikafka").cluster.running()) == [1]


@pytest.mark.parametrize("how", [1, 2])
def test_no_two_topics_have_one_name(minikafka, request, how):
    request.node.name = "same"
    name = request.getfixturevalue("minikafka_topic")
    assert name == {1: "same", 2: "same-2"}[how]


@pytest.mark.minikafka_topic(replication_factor=9)
def test_whose_topic_cannot_be(minikafka_topic): pass


def test_that_fails(minikafka):
    minikafka.create_topic("named-in-the-log")
    minikafka.pause(1)
    assert False


@pytest.mark.minikafka_topic(2)
def test_that_ends_the_cluster(minikafka, minikafka_topic):
    assert minikafka.leader_of(minikafka_topic, 1) == 1
    shutil.rmtree(minikafka.cluster.layout.directory / "node-1")
    minikafka.close()
    assert False


def test_behind_it(minikafka): pass
"""
CASE = """
import unittest

from minikafka.testing import MiniKafkaCase


class TestCase(unittest.TestCase):  # as Django's
    def settings(self, **changed):
        return changed


class TestOrders(MiniKafkaCase, TestCase):
    brokers = 1
    broker_settings = {"num.partitions": 2}

    def test_one(self):
        self.kafka.kill(1)

    def test_two(self):
        self.kafka.create_topic("t")
        self.assertEqual(self.kafka.leader_of("t", 1), 1)
        self.assertEqual(self.settings(KAFKA=self.kafka.bootstrap_servers).keys(), {"KAFKA"})
        with self.subTest("of many"):
            self.fail("within it")
        self.kafka.pause(1)
        self.fail("on purpose")
"""


def run(*words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MINIKAFKA_", "PYTEST_"))}
    environment["TMPDIR"] = str(directory)  # logs that are kept go with the test
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, env=environment)


def test_one_cluster_is_for_all_tests_and_a_failing_one_shows_its_logs(tmp_path: Path) -> None:
    tmp_path.joinpath("test_own.py").write_text(TESTS)
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base"), "--strict-markers"]
    brokers = ["--minikafka-brokers", "1", "--minikafka-set", "num.partitions=1"]
    done = run("pytest", *options, *brokers, "test_own.py", directory=tmp_path)
    assert "3 failed, 7 passed, 2 errors" in done.stdout, done.stdout + done.stderr
    shown = done.stdout.partition("_ test_who_asks_while_it_runs _")[2].partition("_ test_that_fails _")[0]
    assert shown.partition("- minikafka -")[2].lstrip("-").startswith("\nbroker 1 is down\n"), shown
    assert "asked-for" in shown.partition("- minikafka node-1 -")[2]
    shown = done.stdout.partition("_ test_that_fails _")[2].partition("_ test_that_ends_the_cluster _")[0]
    assert shown.partition("- minikafka -")[2].lstrip("-").startswith("\nbroker 1 is paused\n"), shown
    assert "named-in-the-log" in shown.partition("- minikafka node-1 -")[2]
    assert "test_the_next_one" not in shown
    for test, line in (
        ("whose_topic_cannot_be", "INVALID_REPLICATION_FACTOR: replication factor 9 needs as many brokers; "),
        ("behind_it", "this cluster has ended; make another one"),
    ):
        said = done.stdout.partition(f"_ ERROR at setup of test_{test} _")[2].lstrip("_\n")
        assert said.startswith(line), done.stdout


def test_each_worker_of_xdist_has_a_cluster_of_its_own(tmp_path: Path) -> None:
    """One breaks it while the other needs it, and both topics have the same name."""
    text = """import time

import pytest

@pytest.mark.parametrize("turn", range(2))
def test_own(minikafka, request, tmp_path_factory, turn):
    request.node.name = "same"
    assert request.getfixturevalue("minikafka_topic") == "same"
    met = tmp_path_factory.getbasetemp().parent
    (met / f"servers-{turn}").write_text(minikafka.bootstrap_servers)
    while len(found := list(met.glob("servers-*"))) < 2: time.sleep(0.01)
    assert len({each.read_text() for each in found}) == 2
    minikafka.kill(1)
"""
    tmp_path.joinpath("test_own.py").write_text(text)
    options = ["-q", "-n", "2", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base")]
    done = run(
        "pytest", *options, "--minikafka-in-process", "--minikafka-brokers", "1", "test_own.py", directory=tmp_path
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_options_that_cannot_be_are_refused_in_a_line(tmp_path: Path) -> None:
    tmp_path.joinpath("test_own.py").write_text("def test_own(minikafka): pass")
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base"), "--minikafka-set"]
    done = run("pytest", *options, "a", "test_own.py", directory=tmp_path)
    assert done.stderr == "ERROR: --minikafka-set a is not NAME=VALUE\n\n"
    done = run("pytest", *options, "num.partition=1", "test_own.py", directory=tmp_path)
    said = done.stdout.partition("_ ERROR at setup of test_own _")[2].lstrip("_\n")
    assert said.startswith("setting 'num.partition' not found; did you mean num.partitions?\n==="), done.stdout


def test_a_case_of_unittest_has_a_cluster_that_each_test_finds_healed(tmp_path: Path) -> None:
    tmp_path.joinpath("test_case.py").write_text(CASE)
    done = run("unittest", "-q", "test_case", directory=tmp_path)
    assert "Ran 2 tests" in done.stderr
    assert "FAILED (failures=2)" in done.stderr, done.stderr
    within, shown = re.split("AssertionError: (?:within it|on purpose)\n", done.stderr)[1:]
    assert within.startswith("minikafka node-1:\n")
    assert 'self.fail("on purpose")' in within, "the line that fails"
    assert shown.startswith("minikafka:\nbroker 1 is paused\nminikafka node-1:\n")
    assert "partition=t-1" in shown


def test_a_command_has_a_cluster_for_as_long_as_it_runs(tmp_path: Path) -> None:
    script = "echo $KAFKA_BOOTSTRAP_SERVERS $MINIKAFKA_DIR; minikafka cluster kill 1; exit 3"
    words = [
        "minikafka",
        "run",
        "--brokers",
        "1",
        "--",
        "sh",
        "-c",
        script.replace("minikafka", f"{sys.executable} -m minikafka"),
    ]
    done = run(*words, directory=tmp_path)
    assert done.returncode == 3
    servers, directory = done.stdout.splitlines()[0].split()
    assert servers.startswith("127.0.0.1:")
    assert "killed node 1" in done.stdout
    assert f"ended with exit code 3; the brokers' logs: {directory}/node-*/broker.log" in done.stderr
    assert Path(directory, "node-1", "broker.log").exists()
    done = run("minikafka", "run", "--brokers", "1", "no-such-command", directory=tmp_path)
    assert done.returncode == 127
    assert done.stderr == "cannot run no-such-command: No such file or directory\n"


def test_a_command_hears_of_a_signal_that_was_sent_without_a_terminal(tmp_path: Path) -> None:
    """As those do who run tests in the background."""
    script = """import signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
print("up", flush=True)
signal.pause()
"""
    words = [sys.executable, "-m", "minikafka", "run", "--brokers", "1", "--", sys.executable, "-c", script]
    apart: dict[str, Any] = {"start_new_session": True, "env": os.environ | {"TMPDIR": str(tmp_path)}}
    # A shell that runs this in the background has it ignored.
    apart["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True, **apart) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 7
    assert list(tmp_path.iterdir()) == []  # nobody looks at the logs of what was interrupted
