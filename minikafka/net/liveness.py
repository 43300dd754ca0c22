"""Finds out that the peer of a connection is gone, without reading from it."""

from __future__ import annotations

import select
import socket
from typing import Final

KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 10
KEEPALIVE_PROBES: Final = 6

_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)  # Linux reports the peer's FIN, other systems only a reset


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel detect a silent, dead peer within two minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):  # macOS lacks the first before Python 3.10's own name for it
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_gone(fileno: int) -> bool:
    """True when the peer closed or reset the connection. Bytes that it sent before may still be unread."""
    poll = select.poll()
    poll.register(fileno, _HUNG_UP)
    return bool(poll.poll(0))
