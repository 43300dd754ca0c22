"""What a round has before it begins."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

from minikafka.chaos.layout import HOST, ClusterLayout
from minikafka.chaos.rounds.round import NEW


def test_the_ports_of_nodes_that_are_down_are_nobody_elses(tmp_path: Path) -> None:
    """Another cluster took one while its node was killed, and the round ended without a verdict."""
    with ExitStack() as stack:
        layout = NEW["processes"](tmp_path / "cluster", stack).layout
        assert [_can_be_had(port) for port in _ports(layout)] == [False] * 12
    assert all(map(_can_be_had, _ports(layout)))


def _ports(layout: ClusterLayout) -> list[int]:
    return [port for node in layout.node_ids for port in layout.ports(node)]


def _can_be_had(port: int) -> bool:
    with socket.socket() as candidate:
        try:
            candidate.bind((HOST, port))
        except OSError:
            return False
    return True
