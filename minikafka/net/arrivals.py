"""Connections on their way in through a TLS handshake, which strangers may begin and leave.

Nothing is done before the first record is there. Then what they say is looked at in a line (``flights``), so that a
thousand at once do not hold up those who are in. When too many are under way, or leave no room for connections, the
oldest is turned away: an honest handshake takes milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from minikafka.event_log import get_logger
from minikafka.net.addresses import Addresses, too_many_of
from minikafka.net.alerts import ARRIVING
from minikafka.net.connection import Connection, Shared
from minikafka.net.flights import Flights, Line
from minikafka.net.handshakes import why_turned_away
from minikafka.net.tasks import TaskOwner

log = get_logger()

HANDSHAKE_TIMEOUT_S: Final = 10.0
ARRIVALS_MAX: Final = 1_000


class Arrivals:
    """Those of one listener. ``context`` gives what they shake hands by, ``make`` makes the connection of one that gets
    in; ``has_room`` says whether one more may come. Each is counted among ``addresses`` until :meth:`arrive`."""

    def __init__(
        self,
        listener: str,
        context: Callable[[], ssl.SSLContext],
        tasks: TaskOwner,
        shared: Shared,
        make: Callable[[], Connection],
        has_room: Callable[[], bool],
        addresses: Addresses,
    ) -> None:
        self._listener = listener
        self._context = context
        self._tasks = tasks
        self._shared = shared
        self._make = make
        self._has_room = has_room
        self._addresses = addresses
        self._loop = asyncio.get_running_loop()
        self._under_way: dict[asyncio.Task[None], None] = {}  # an ordered set, oldest first
        self._expected: set[Connection] = set()
        self._line = Line(self._loop, shared.turns)
        self.failed = 0
        """Handshakes that ended with an error, or took too long."""

    def __len__(self) -> int:
        return len(self._under_way)

    def new(self) -> asyncio.Protocol:
        """What accepts one."""
        return _Arrival(self._admit)

    def arrive(self, connection: Connection) -> bool:
        """It is in: whoever has it counts it from now on. False: it was turned away meanwhile."""
        is_expected = connection in self._expected
        self._expected.discard(connection)
        return is_expected

    def close(self) -> None:
        """Turn all away."""
        for task in self._under_way:
            task.cancel()

    def _admit(self, sock: socket.socket) -> None:
        if len(self._under_way) >= ARRIVALS_MAX or (self._under_way and not self._has_room()):
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]  # at once: more may come before it has ended
            oldest.cancel()
        if not self._has_room() or self._tasks.is_closed:
            sock.close()
            return
        try:
            host = str(sock.getpeername()[0])
        except OSError:  # it has gone
            sock.close()
            return
        if not self._addresses.enter(host):
            sock.close()
            self._note(host, too_many_of(self._addresses, host))
            return
        connection = self._make()
        self._expected.add(connection)
        task = self._tasks.start(self._shake_hands(sock, host, connection), "TLS handshake")
        self._under_way[task] = None
        task.add_done_callback(lambda ended: self._end(ended, host, connection))

    def _end(self, task: asyncio.Task[None], host: str, connection: Connection) -> None:
        self._under_way.pop(task, None)
        if connection in self._expected:  # it did not get in
            self._expected.remove(connection)
            self._addresses.leave(host)

    async def _shake_hands(self, sock: socket.socket, host: str, connection: Connection) -> None:
        """Ends with a connection that is made, or with none."""
        flights, close = Flights(), sock.close
        ARRIVING.set(flights)  # of this task alone, and of what it starts
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: flights, sock)
            close = transport.abort
            if await self._has_begun(flights):
                await flights.shake_hands(connection, self._context(), self._line, HANDSHAKE_TIMEOUT_S)
            else:
                close()
        except OSError as error:  # as is ssl.SSLError
            close()
            if not isinstance(error, ConnectionResetError):
                self.failed += 1
                self._note(host, f"TLS handshake: {why_turned_away(error)}")
        except Exception as error:  # a bug, and whoever comes must not stop the node for all others
            close()
            log.error("a TLS handshake failed", listener=self._listener, peer=host, why=str(error), exc_info=error)
        except BaseException:  # cancelled: this node stops, or it is the oldest of too many
            close()
            raise

    async def _has_begun(self, flights: Flights) -> bool:
        """Wait for that. False: it ended without."""
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                return await flights.begin()
        except TimeoutError:
            raise ConnectionAbortedError(f"nothing came within {HANDSHAKE_TIMEOUT_S:g} s") from None

    def _note(self, host: str, why: str) -> None:
        self._shared.closings.note(self._loop.time(), self._listener, host, why)


class _Arrival(asyncio.Protocol):
    """Takes the socket out of a transport as soon as it is accepted: all those of a server share a context, and TLS has
    to know which connection it is about."""

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
