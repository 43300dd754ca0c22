"""Whether the other end of a connection is still there, without reading from it."""

from __future__ import annotations

import select
import socket
from typing import Final

KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 10
KEEPALIVE_PROBES: Final = 6

_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)  # Linux tells of the peer's FIN, other systems of a reset only


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel find out that a silent peer is gone: within two minutes, not never."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):  # macOS lacks the first before Python 3.10's own name for it
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_gone(fileno: int) -> bool:
    """True when the peer closed or reset the connection. What it sent before may be unread still."""
    poll = select.poll()
    poll.register(fileno, _HUNG_UP)
    return bool(poll.poll(0))
