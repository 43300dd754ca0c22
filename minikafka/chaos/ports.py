"""Free ports of this machine."""

from __future__ import annotations

import random
import socket
import time
from typing import Final

from minikafka.chaos.layout import (
    CONTROLLER_PORT_OFFSET,
    HOST,
    METRICS_PORT_OFFSET,
    REPLICATION_PORT_OFFSET,
    ClusterError,
    ClusterLayout,
)

_PATIENCE_S: Final = 0.5
_POLL_INTERVAL_S: Final = 0.02


def is_free(port: int) -> bool:
    """True when no process listens on the port. ClusterError for one that this user may not listen on."""
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((HOST, port))
        except PermissionError:
            raise ClusterError(f"port {port} is for root only; choose a --base-port of 1024 or more") from None
        except OSError:
            return False
    return True


def check_ports(layout: ClusterLayout, node_id: int) -> None:
    """Raise ClusterError if somebody has a port of the node."""
    give_up_s = time.monotonic() + _PATIENCE_S
    metrics_port = layout.metrics_port(node_id)
    for port in (*layout.ports(node_id), *([] if metrics_port is None else [metrics_port])):
        # The kernel may take a moment to free the resources of a killed process.
        while not is_free(port) and time.monotonic() < give_up_s:
            time.sleep(_POLL_INTERVAL_S)
        if not is_free(port):
            raise ClusterError(
                f"port {port}, which node {node_id} needs, is in use; "
                "stop what uses it (`minikafka cluster list`, `docker compose ps`), or start a cluster elsewhere "
                "with --dir and --base-port"
            )


class ReservedPorts:
    """The ports of a cluster, from ``base_port`` on. No other process that reserves ports gets them, until they are
    given back, even while the brokers are down: two that start at once would else choose the same ones.

    A bound socket holds each. It lets those listen on the port who say SO_REUSEADDR, as brokers do.
    """

    def __init__(self, brokers: int) -> None:
        self.base_port, self._sockets = _held(brokers, random.Random())

    def close(self) -> None:
        """Give them back."""
        for each in self._sockets:
            each.close()


def free_base_port(brokers: int, rng: random.Random | None = None) -> int:
    """A base port with free ports for that many brokers, below the ports of outgoing connections.

    The ports for metrics are included.
    """
    base_port, sockets = _held(brokers, rng or random.Random())
    for each in sockets:
        each.close()
    return base_port


def _held(brokers: int, rng: random.Random) -> tuple[int, list[socket.socket]]:
    kinds = (0, REPLICATION_PORT_OFFSET, CONTROLLER_PORT_OFFSET, METRICS_PORT_OFFSET)
    for _ in range(200):
        base_port = rng.randrange(11_000, 32_000)
        sockets: list[socket.socket] = []
        try:
            for port in (base_port + kind + i for kind in kinds for i in range(brokers)):
                sockets.append(socket.socket())
                sockets[-1].bind((HOST, port))  # without SO_REUSEADDR, so that nobody else has it
                sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        except OSError:
            for each in sockets:
                each.close()
        else:
            return base_port, sockets
    raise ClusterError("found no free ports between 11000 and 32000")
