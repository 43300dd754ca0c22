"""A run on a cluster that is there says why it cannot begin."""

from __future__ import annotations

import socket

import pytest

from minikafka.chaos.history import History
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.probe import ClusterView, PartitionView
from minikafka.chaos.rounds import trial, visit
from minikafka.chaos.rounds.minikafka_clients import MinikafkaClients
from minikafka.chaos.rounds.trial import Options, Say
from minikafka.chaos.rounds.visit import Visit
from minikafka.client import connections
from minikafka.errors import KafkaError


def _visit(servers: str, say: Say = lambda _: None) -> Visit:
    return Visit(Options(1, servers=servers), History(), say, MinikafkaClients())


def test_who_cannot_connect_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was "none of ... answers", also for a listener with TLS and for a wrong password."""
    monkeypatch.setattr(connections, "BOOTSTRAP_TIMEOUT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(KafkaError, match=f"no broker answers: cannot reach 127.0.0.1:{port}: connection refused"):
        _visit(f"127.0.0.1:{port}").prepare()


def test_topics_of_an_earlier_run_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run on a cluster ended with librdkafka's words for an error of the first topic."""
    left = PartitionView("load", 0, 1, (1,), (1,))

    async def connect(_: Visit) -> None:
        pass

    monkeypatch.setattr(Visit, "_connect", connect)
    monkeypatch.setattr(visit, "probe", lambda *_: ClusterView("c", 1, frozenset({1}), (left,)))
    with pytest.raises(ClusterError, match=r"there is load already, .* \(minikafka topic delete load\)"):
        _visit("127.0.0.1:1").prepare()


def test_a_cluster_that_stays_down_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run was silent for minutes after that: its clients went on waiting."""
    said: list[str] = []
    monkeypatch.setattr(trial, "MORE_WITHIN_S", 0.0)
    assert not _visit("127.0.0.1:1", said.append)._goes_on().ok
    assert said == ["no records are taken any more; what clients still wait for may take minutes"]
