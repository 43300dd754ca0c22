"""Finds out that the peer of a connection is gone, without reading from it."""

from __future__ import annotations

import select
import socket
from typing import Final, NamedTuple


class Patience(NamedTuple):
    """How long a kernel believes in a peer that says nothing: then it asks, so often, at this interval."""

    idle_s: int
    interval_s: int
    probes: int


WITH_CALLERS: Final = Patience(60, 10, 6)
"""Whoever calls costs little while it is silent."""
WITH_CALLED: Final = Patience(10, 5, 3)
"""Somebody waits for its answer, maybe for minutes: of a group that rebalances. A machine that lost its power says
nothing, and after it started again only to those who ask."""

_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)  # Linux reports the peer's FIN, other systems only a reset


def keep_alive(sock: socket.socket, patience: Patience) -> None:
    """Let the kernel find out that a silent peer is dead."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", patience.idle_s),
        ("TCP_KEEPINTVL", patience.interval_s),
        ("TCP_KEEPCNT", patience.probes),
    ):
        if hasattr(socket, name):  # macOS lacks the first before Python 3.10's own name for it
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_gone(fileno: int) -> bool:
    """True when the peer closed or reset the connection. Bytes that it sent before may still be unread."""
    poll = select.poll()
    poll.register(fileno, _HUNG_UP)
    return bool(poll.poll(0))
