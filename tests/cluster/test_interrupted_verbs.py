"""Ctrl-C, and a reader that leaves, in the middle of a verb: it ends at once, and says what it has left."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster_cli import CommandLine, take_ctrl_c
from live_cluster import eventually, running_cluster

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import free_base_port
from minikafka.cli.run import BROKEN_PIPE, INTERRUPTED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node for all verbs, whose topics are named after their tests."""
    with running_cluster(tmp_path_factory.mktemp("verbs") / "cluster", 1) as cluster:
        yield cluster


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name


@contextmanager
def begun(*words: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Killed at the end if the verb did not end by itself: a test that fails must not hang."""
    command = [sys.executable, "-m", "minikafka", *words, "--dir", str(directory)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, preexec_fn=take_ctrl_c) as verb:
        try:
            yield verb
        finally:
            if verb.poll() is None:
                verb.kill()


def test_produce_says_how_much_is_acknowledged(cluster: LocalCluster, topic: str) -> None:
    directory = cluster.layout.directory
    minikafka = CommandLine(directory)
    with begun("produce", topic, directory=directory) as produce:
        assert produce.stdin is not None
        produce.stdin.write("a\nb\nc\n")
        produce.stdin.flush()
        count = ("consume", topic, "--from-beginning", "--count", "3", "--timeout", "5")
        eventually(lambda: minikafka.run(*count).stdout == b"a\nb\nc\n", "the records to be written")
        produce.send_signal(signal.SIGINT)
        _, said = produce.communicate(timeout=30)
    assert produce.returncode == INTERRUPTED
    assert said.endswith("interrupted: 3 of the 3 lines read are acknowledged\n")


def test_sigterm_is_as_ctrl_c(cluster: LocalCluster, topic: str) -> None:
    """``timeout`` and ``docker stop`` send it: a consumer leaves its group, rather than to let others wait."""
    directory = cluster.layout.directory
    minikafka = CommandLine(directory)
    minikafka("produce", topic, given=b"a\n")
    with begun("consume", topic, "--group", "readers", "--from-beginning", directory=directory) as consume:
        assert consume.stdout is not None
        assert consume.stdout.readline() == "a\n"
        consume.terminate()
        assert consume.wait(timeout=30) == INTERRUPTED
    (group,) = json.loads(minikafka("group", "list", "--json"))
    assert group["state"] == "Empty"


def test_an_interrupted_start_says_that_nothing_runs(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path / "c", brokers=3, base_port=free_base_port(3))
    with begun("cluster", "start", directory=tmp_path / "c") as start:
        eventually(lambda: len(cluster.running()) == 3, "the nodes to be started")
        start.send_signal(signal.SIGINT)
        _, said = start.communicate(timeout=30)
    assert start.returncode == INTERRUPTED
    assert said == "interrupted: the nodes that were just started are killed\n"
    assert not cluster.running()


def test_followed_logs_end_when_nobody_reads_them_and_nothing_is_logged(cluster: LocalCluster) -> None:
    with begun("cluster", "logs", "-f", directory=cluster.layout.directory) as logs:
        assert logs.stdout is not None
        assert " | " in logs.stdout.readline()
        logs.stdout.close()
        assert logs.wait(timeout=10) == BROKEN_PIPE


def test_consume_ends_when_nobody_reads_it_and_nothing_is_produced(cluster: LocalCluster, topic: str) -> None:
    directory = cluster.layout.directory
    CommandLine(directory)("produce", topic, given=b"a\nb\n")
    with begun("consume", topic, "--from-beginning", directory=directory) as consume:
        assert consume.stdout is not None
        assert consume.stdout.readline() == "a\n"
        consume.stdout.close()
        assert consume.wait(timeout=10) == BROKEN_PIPE


def test_consume_says_why_nothing_is_to_be_seen(cluster: LocalCluster, topic: str) -> None:
    """At once to who reads only so long; to others after two seconds, and on a terminal only."""
    directory = cluster.layout.directory
    minikafka = CommandLine(directory)
    minikafka("produce", topic, given=b"a\n")
    nothing = minikafka.run("consume", topic, "--timeout", "0.5")
    assert (nothing.returncode, nothing.stdout) == (0, b"")
    assert nothing.stderr == b"no new record in 0.5 s; --from-beginning reads those that are there\n"
    assert minikafka.run("consume", topic, "--timeout", "0.5", "--from-beginning").stderr == b""
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "minikafka", "consume", topic, "--dir", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal) as consume:
        os.close(terminal)
        try:
            with os.fdopen(ours, closefd=True) as said:
                expected = "waiting for new records; Ctrl-C ends; --from-beginning reads those that are there\n"
                assert said.readline() == expected
        finally:
            consume.kill()


def test_an_offset_that_is_not_there_is_named(cluster: LocalCluster, topic: str) -> None:
    minikafka = CommandLine(cluster.layout.directory)
    minikafka("produce", topic, given=b"a\nb\n")
    at = ("consume", topic, "--partition", "0", "--timeout", "5", "--count", "1", "--offset")
    assert minikafka(*at, "1") == b"b\n"
    said = minikafka(*at, "7", fails=True).decode()
    assert said == f"minikafka: OFFSET_OUT_OF_RANGE: offset 7 not found: {topic}-0 has offsets 0..2\n"
