"""What a client says in a TLS handshake, on its way to OpenSSL: one flight after the other, each in its turn.

To answer the first one, and to decode the certificates of the second, is the dear part of a handshake. A thousand
clients that connect at once send them at once, a little later, and an event loop would give OpenSSL all of them in one
turn. So they are held here, where there is a line. And who sends nothing, costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Final, cast

from minikafka.net.connection import Connection
from minikafka.net.portions import Portions
from minikafka.net.turns import Turns

OTHERS: Final = 3
"""Times as much of the loop is for those who are in."""
PAUSE_MAX_S: Final = 0.01
"""A loop that is busy with other things takes long, too."""
_HEADER_BYTES: Final = 5
_KINDS: Final = range(20, 25)
_RECORD_BYTES_MAX: Final = _HEADER_BYTES + (1 << 14) + 256
_HELD_BYTES_MAX: Final = 2 * _RECORD_BYTES_MAX
"""No more is read: there is a whole record in them. What a thousand strangers send waits in the kernel."""
_READ_BYTES: Final = 4096
_ALERT_BYTES_MAX: Final = 64
"""Of a record with an alert, encrypted or not. So few are no work for OpenSSL, also out of turn."""


class Line:
    """One flight is looked at after the other, and what it took the loop is left to others several times."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns) -> None:
        self._loop = loop
        self._turns = turns
        self._is_free = asyncio.Lock()
        self._is_begun = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, *, is_first: bool) -> AsyncIterator[None]:
        """Wait for one's turn. One first flight at a time stands among the others: who has begun gets to an end."""
        async with self._is_begun if is_first else nullcontext():
            await self._is_free.acquire()
            try:
                await self._turns.wait()
            except BaseException:
                self._is_free.release()
                raise
            began_s = self._loop.time()
            try:
                yield
            finally:
                pause_s = min(OTHERS * (self._loop.time() - began_s), PAUSE_MAX_S)
                self._loop.call_later(pause_s, self._is_free.release)


class Flights(asyncio.BufferedProtocol):
    """Stands between a connection that was accepted and the event loop's TLS, until hands are shaken."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._read = memoryview(bytearray(_READ_BYTES))
        self._has_news = asyncio.Event()
        self._has_ended = self._is_lost = False
        self._is_decided = False
        self._transport: asyncio.Transport | None = None
        self._tls: asyncio.BufferedProtocol | None = None
        self._shaking: asyncio.Future[asyncio.Transport | None] | None = None

    # -- of the connection -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, but not by inheritance

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read

    def buffer_updated(self, nbytes: int) -> None:
        self._held += self._read[:nbytes]
        if len(self._held) > _HELD_BYTES_MAX - _READ_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._has_news.set()

    def eof_received(self) -> bool:
        self._has_ended = True
        self._has_news.set()
        return True  # what it sent before is looked at: it may be an alert

    def connection_lost(self, exc: Exception | None) -> None:
        if len(self._held) <= _ALERT_BYTES_MAX:
            self._hand_over()  # why it leaves; it may come together with a reset
        self._has_ended = self._is_lost = True
        self._has_news.set()
        if self._tls is not None:
            self._tls.connection_lost(exc)
        self._transport = None  # it has this in its context

    # -- of the side of OpenSSL ------------------------------------------------------------------------------------

    def on_shaken(self) -> None:
        """Hands are shaken: what follows is the connection's."""
        self._is_decided = True

    def on_refused(self, alert: bytes) -> None:
        """The handshake has failed. The event loop closes the socket now, and would leave the alert where it is."""
        self._is_decided = True
        if self._transport is None:
            return
        with suppress(OSError):  # it is gone, or takes nothing: then it is not told
            os.write(self._transport.get_extra_info("socket").fileno(), alert)

    # --------------------------------------------------------------------------------------------------------------

    async def begin(self) -> bool:
        """Wait for the first record, or what cannot be one. False: the other side ended before."""
        return await self._next_flight()

    async def shake_hands(
        self,
        connection: Connection,
        context: ssl.SSLContext,
        line: Line,
        timeout_s: float,
    ) -> None:
        """After ``begin``; ends with a connection that is made. Raises OSError, as is ssl.SSLError."""
        try:
            while await self._next_flight():
                async with line.turn(is_first=self._tls is None):
                    if self._tls is None and self._transport is not None:
                        await self._start_tls(self._transport, context, timeout_s)
                    self._hand_over()
            if self._tls is None or self._shaking is None:
                raise ConnectionResetError
            if not (self._is_decided or self._is_lost):
                self._tls.eof_received()
            tls_transport = await self._shaking
            if self._transport is None or tls_transport is None:
                raise ConnectionResetError
            self._leave(self._transport, self._tls, tls_transport, connection)
        finally:
            if self._shaking is not None and not self._shaking.cancel() and not self._shaking.cancelled():
                self._shaking.exception()  # nobody else looks at it
            if self._tls is not None and self._transport is not None:
                self._transport.set_protocol(self._tls)
            self._transport = self._tls = self._shaking = None

    async def _next_flight(self) -> bool:
        """Wait for a whole record of it. False: there will be none."""
        while not (self._is_decided or self._is_lost):
            if self._next_size():
                return True
            if self._has_ended:
                break
            self._has_news.clear()
            await self._has_news.wait()
        return False

    def _next_size(self) -> int:
        """Of the next record, if it is whole; of all there is, if that is none; else 0."""
        held = self._held
        if held and held[0] not in _KINDS:
            return len(held)
        if len(held) < _HEADER_BYTES:
            return 0
        size = _HEADER_BYTES + (held[3] << 8 | held[4])
        if size > _RECORD_BYTES_MAX:
            return len(held)
        return size if size <= len(held) else 0

    async def _start_tls(self, transport: asyncio.Transport, context: ssl.SSLContext, timeout_s: float) -> None:
        """The event loop's, and stand between. Nobody is told of a connection before it is made."""
        nobody, loop = asyncio.Protocol(), asyncio.get_running_loop()
        starting = loop.start_tls(transport, nobody, context, server_side=True, ssl_handshake_timeout=timeout_s)
        self._shaking = asyncio.ensure_future(starting)
        await asyncio.sleep(0)  # it sets its own protocol
        tls = cast(asyncio.BufferedProtocol, transport.get_protocol())
        assert tls is not self, "the event loop's TLS sets its protocol in its first step"
        transport.set_protocol(self)
        await asyncio.sleep(0)  # and connects it
        self._tls = tls
        if self._is_lost:
            tls.connection_lost(None)

    def _hand_over(self) -> None:
        """One record at a time: what is behind the last one of the handshake is the connection's, which is not made."""
        while self._tls is not None and not (self._is_decided or self._is_lost) and (size := self._next_size()):
            self._give(self._tls, size)
        if self._transport is not None and not self._is_decided:
            self._transport.resume_reading()

    def _leave(
        self,
        transport: asyncio.Transport,
        tls: asyncio.BufferedProtocol,
        tls_transport: asyncio.Transport,
        connection: Connection,
    ) -> None:
        """The event loop goes on, in portions. The kernel tells of the end again if it has come, behind what waits."""
        transport.pause_reading()
        transport.resume_reading()
        self._tls = Portions(tls, connection)  # in this one's place, as soon as hands are shaken
        tls_transport.set_protocol(connection)
        connection.connection_made(tls_transport)
        self._give(self._tls, len(self._held))

    def _give(self, tls: asyncio.BufferedProtocol, count: int) -> None:
        data = memoryview(bytes(self._held[:count]))
        del self._held[:count]
        while data:
            buffer = memoryview(tls.get_buffer(len(data)))
            part = min(len(buffer), len(data))
            buffer[:part] = data[:part]
            tls.buffer_updated(part)
            data = data[part:]
