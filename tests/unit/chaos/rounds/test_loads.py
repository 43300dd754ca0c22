"""A load whose client ends says so at once, and how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from live_cluster import eventually

from minikafka.chaos.history import History
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.rounds.java_clients import JavaClients, JavaWorker
from minikafka.chaos.rounds.loads import Load, Produce, Worker
from minikafka.chaos.rounds.minikafka_clients import MinikafkaClients
from minikafka.chaos.rounds.reached import Reached


class Client(JavaWorker):
    """A process that is no Java."""

    def __init__(self, load: Load, kind: str, program: str) -> None:
        super().__init__("client", load, "", kind, {})
        self._command = [sys.executable, "-c", program]


class Failing(Produce):
    """Its writer is killed; its reader goes on until it is told."""

    def make_writers(self) -> list[Worker]:
        return [Client(self, "writer", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")]

    def make_readers(self) -> list[Worker]:
        return [Client(self, "follower", "import sys; sys.stdin.read(); sys.exit('no heap')")]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_that_ends_is_noticed_at_once() -> None:
    """A round of an hour went on for an hour, and then showed a traceback of the thread that tells clients to end."""
    load = Failing(Reached("127.0.0.1:1"), History(), 10, 0, MinikafkaClients())
    load.start()
    with pytest.raises(ClusterError, match=r"client, a client in Java, ended with SIGKILL:"):
        load.wait(60)
    load.abandon()
    (reader,) = load.readers
    reader.join(60)
    assert str(reader.failure).endswith("ended with exit code 1:\nno heap\n")


TELLING_FIRST = """
import json, sys
print('["a", "invoke", "send", [["t-0", "1"]]]', flush=True)
print(json.dumps(["a", "ok", "send", [["t-0", sys.stdin.read(1), 0]]]), flush=True)
sys.stdin.read()
"""


class TellingFirst(Produce):
    def make_writers(self) -> list[Worker]:
        return [Client(self, "writer", TELLING_FIRST)]

    def make_readers(self) -> list[Worker]:
        return []


def test_a_client_waits_until_it_is_noted_what_it_is_about_to_do() -> None:
    """A record was read, and noted as read, before it was noted that its transaction was to be committed."""
    load = TellingFirst(Reached("127.0.0.1:1"), History(), 10, 0, MinikafkaClients())
    load.start()
    eventually(lambda: len(load.history.events) == 2, "both events")
    load.abandon()
    assert load.history.events[1].value == [["t-0", "n", 0]]


def test_what_java_clients_lack_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was all that the compiler said."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"^--client java needs java and javac \(17 or newer\), for example .*$"):
        JavaClients(tmp_path)
    for name, said in (("java", ""), ("javac", "ChaosClient.java:22: error: package org.a.b does not exist\nimport")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("CLASSPATH", os.devnull)
    with pytest.raises(ClusterError, match=r"with the Java clients of CLASSPATH: package org\.a\.b does not exist$"):
        JavaClients(tmp_path)


class Hearing(Produce):
    """A client that says on standard error what it is told."""

    def make_writers(self) -> list[Worker]:
        return [Client(self, "writer", "import sys; sys.exit(repr(sys.stdin.read()))")]

    def make_readers(self) -> list[Worker]:
        return []


@pytest.mark.parametrize(("end", "told"), [(Produce.stop_sending, "'e'"), (Produce.abandon, "''")])
def test_a_client_whose_load_is_abandoned_is_not_told_to_end_in_order(end: Callable[[Load], None], told: str) -> None:
    """After Ctrl-C Java's producers went on for two minutes: they had records for a cluster that was gone."""
    load = Hearing(Reached("127.0.0.1:1"), History(), 10, 0, MinikafkaClients())
    load.start()
    with suppress(ClusterError):
        end(load)
    (writer,) = load.writers
    writer.join(60)
    assert str(writer.failure).endswith(f"ended with exit code 1:\n{told}\n")
