"""Free ports of this machine."""

from __future__ import annotations

import random
import socket

from minikafka.chaos.layout import (
    CONTROLLER_PORT_OFFSET,
    HOST,
    METRICS_PORT_OFFSET,
    REPLICATION_PORT_OFFSET,
    ClusterError,
)


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


def free_base_port(brokers: int, rng: random.Random | None = None) -> int:
    """A base port with free ports for that many brokers, below the ports of outgoing connections.

    The ports for metrics are included.
    """
    chosen = rng or random.Random()
    for _ in range(200):
        base_port = chosen.randrange(11_000, 32_000)
        ports = [
            base_port + kind + i
            for kind in (0, REPLICATION_PORT_OFFSET, CONTROLLER_PORT_OFFSET, METRICS_PORT_OFFSET)
            for i in range(brokers)
        ]
        if all(map(is_free, ports)):
            return base_port
    raise ClusterError("found no free ports between 11000 and 32000")
