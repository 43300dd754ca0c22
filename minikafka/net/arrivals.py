"""Connections on their way in through a TLS handshake, which strangers may begin and leave.

One handshake begins in a turn of the loop (``turns``), so that a thousand at once do not hold up those who are in.
When too many are under way the oldest is turned away: an honest handshake takes milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from minikafka.net.connection import Connection, Shared
from minikafka.net.tasks import TaskOwner

HANDSHAKE_TIMEOUT_S: Final = 10.0
ARRIVALS_MAX: Final = 1_000


class Arrivals:
    """Those of one listener. ``make`` makes the connection of one that gets in; ``has_room`` says whether one more may
    come."""

    def __init__(
        self,
        listener: str,
        context: ssl.SSLContext,
        tasks: TaskOwner,
        shared: Shared,
        make: Callable[[], Connection],
        has_room: Callable[[], bool],
    ) -> None:
        self._listener = listener
        self._context = context
        self._tasks = tasks
        self._shared = shared
        self._make = make
        self._has_room = has_room
        self._loop = asyncio.get_running_loop()
        self._under_way: dict[asyncio.Task[None], None] = {}  # an ordered set, oldest first

    def __len__(self) -> int:
        return len(self._under_way)

    def new(self) -> asyncio.Protocol:
        """What accepts one."""
        return _Arrival(self._admit)

    def close(self) -> None:
        """Turn all away."""
        for task in self._under_way:
            task.cancel()

    def _admit(self, sock: socket.socket) -> None:
        if not self._has_room() or self._tasks.is_closed:
            sock.close()
            return
        if len(self._under_way) >= ARRIVALS_MAX:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]  # at once: more may come before it has ended
            oldest.cancel()
        task = self._tasks.start(self._shake_hands(sock), "TLS handshake")
        self._under_way[task] = None
        task.add_done_callback(lambda ended: self._under_way.pop(ended, None))

    async def _shake_hands(self, sock: socket.socket) -> None:
        """Ends with a connection that is made, or with none."""
        peer = ""
        try:
            peer = str(sock.getpeername()[0])
            await self._shared.turns.wait()
            await self._loop.connect_accepted_socket(
                self._make, sock, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S
            )
        except OSError as error:  # as is ssl.SSLError
            sock.close()
            if not isinstance(error, ConnectionResetError):
                why = f"TLS handshake: {_reason(error)}"
                self._shared.closings.note(self._loop.time(), self._listener, peer, why)
        except BaseException:  # cancelled: this node stops, or it is the oldest of too many
            sock.close()
            raise


class _Arrival(asyncio.Protocol):
    """Takes the socket out of a transport as soon as it is accepted: that would read the first bytes of the
    handshake."""

    def __init__(self, admit: Callable[[socket.socket], None]) -> None:
        self._admit = admit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)  # uvloop's is one, but not by inheritance
        try:
            sock = socket.socket(fileno=os.dup(accepted.get_extra_info("socket").fileno()))
        except OSError:  # out of descriptors
            accepted.abort()
            return
        accepted.abort()
        sock.setblocking(False)
        self._admit(sock)


def _reason(error: OSError) -> str:
    """OpenSSL's words for it, which say more than those of Python around them."""
    return (error.reason if isinstance(error, ssl.SSLError) else None) or error.strerror or str(error)
