"""Shares of the process's file descriptors.

A lack of descriptors must cost no more than a connection or a new topic. Connections get half of them, including the
second descriptor of a consumer that is served by sendfile (``net.duplicates``). The other half is for logs: the
controller creates no more replicas on a broker than it can hold open, with a reserve for files that logs open for a
while.
"""

from __future__ import annotations

import resource
from typing import Final, NamedTuple

WANTED: Final = (65_536, 10_240)  # macOS allows no more than the second
PEERS_MIN: Final = 16
PEERS_MAX: Final = 1_000
DUPLICATES_MAX: Final = 1_000
SEGMENTS_MAX: Final = 256
OTHERS: Final = 64  # checkpoints, snapshots, segments that a thread looks into, and the process's own files
REPLICAS_MIN: Final = 64


class Shares(NamedTuple):
    """Most open descriptors of each kind."""

    clients: int
    """Connections of all listeners for clients together."""
    peers: int
    """Connections of each of the other two listeners."""
    duplicates: int
    """Second descriptors of connections, for sendfile. A connection without one is served by reading."""
    replicas: int
    """Replicas on this node: each keeps its active segment open."""
    segments: int
    """Closed segments that were read lately, of all logs together."""


def shares(limit: int) -> Shares:
    """Share out ``limit`` descriptors."""
    connections = limit // 2
    peers = min(PEERS_MAX, max(PEERS_MIN, connections // 8))
    rest = max(PEERS_MIN, connections - 2 * peers)
    duplicates = min(DUPLICATES_MAX, rest // 8)
    segments = min(SEGMENTS_MAX, limit // 4)
    return Shares(
        clients=rest - duplicates,
        peers=peers,
        duplicates=duplicates,
        replicas=max(REPLICAS_MIN, limit - connections - segments - OTHERS),
        segments=segments,
    )


def limit() -> int:
    """Most descriptors of the process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED[0] if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raise the soft limit to what a node can use, at most to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in WANTED:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or allowed <= soft:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        except (ValueError, OSError):
            continue
        return
