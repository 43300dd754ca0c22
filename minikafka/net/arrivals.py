"""Connections on their way in through a TLS handshake, which strangers may begin and leave.

Nothing is done before the first record is there (``first_record``). Then one handshake begins after the other, so that
a thousand at once do not hold up those who are in. When too many are under way, or leave no room for connections, the
oldest is turned away: an honest handshake takes milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from minikafka.net.addresses import Addresses, too_many_of
from minikafka.net.alerts import ARRIVING
from minikafka.net.connection import Connection, Shared
from minikafka.net.first_record import first_record
from minikafka.net.handshakes import why_turned_away
from minikafka.net.tasks import TaskOwner
from minikafka.net.turns import Turns

HANDSHAKE_TIMEOUT_S: Final = 10.0
ARRIVALS_MAX: Final = 1_000
OTHERS: Final = 3
"""Times as much of the loop is for those who are in."""
PAUSE_MAX_S: Final = 0.01
"""A loop that is busy with other things takes long, too."""


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
        self._line = _Line(self._loop, shared.turns)
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
        ARRIVING.set(sock)  # of this task alone
        try:
            if not await self._has_begun(sock):
                sock.close()
                return
            await self._line.wait()
            await self._loop.connect_accepted_socket(
                lambda: connection, sock, ssl=self._context(), ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S
            )
        except OSError as error:  # as is ssl.SSLError
            sock.close()
            if not isinstance(error, ConnectionResetError):
                self.failed += 1
                self._note(host, f"TLS handshake: {why_turned_away(error)}")
        except BaseException:  # cancelled: this node stops, or it is the oldest of too many
            sock.close()
            raise

    async def _has_begun(self, sock: socket.socket) -> bool:
        """Wait for that. False: it ended without."""
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                return await first_record(sock)
        except TimeoutError:
            raise ConnectionAbortedError(f"nothing came within {HANDSHAKE_TIMEOUT_S:g} s") from None

    def _note(self, host: str, why: str) -> None:
        self._shared.closings.note(self._loop.time(), self._listener, host, why)


class _Line:
    """One handshake begins after the other, and what it took the loop to answer is left to others several times."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns) -> None:
        self._loop = loop
        self._turns = turns
        self._is_free = asyncio.Lock()
        self._began_s = 0.0

    async def wait(self) -> None:
        """For one's turn."""
        await self._is_free.acquire()
        try:
            await self._turns.wait()
        finally:
            self._began_s = self._loop.time()
            self._loop.call_soon(self._loop.call_soon, self._pause)  # the first record is read in the turn between

    def _pause(self) -> None:
        took_s = self._loop.time() - self._began_s
        self._loop.call_later(min(OTHERS * took_s, PAUSE_MAX_S), self._is_free.release)


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
