"""The dialling side: one outgoing connection whose responses are matched to requests by correlation id."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import ssl
import struct
from typing import Final, Protocol, Self, cast

from minikafka.model import Endpoint
from minikafka.net.liveness import WITH_CALLED, keep_alive
from minikafka.net.outbox import Chunk, Outbox
from minikafka.wire.errors import WireError
from minikafka.wire.framing import FrameError, ReceiveBuffer

_CORRELATION_ID = struct.Struct(">i")
_ERROR_NUMBER = re.compile(r"\[Errno (\d+)\]")

NO_WAY_THERE: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH, errno.EHOSTUNREACH})
"""What connecting to one address of several fails with on a host that does not speak its protocol, IPv6 for example."""


class ChannelClosedError(ConnectionError):
    """The connection ended before the answer came."""


class CorrelationReader(Protocol):
    """Finds the correlation id of a response frame. Raises WireError for a malformed one."""

    def __call__(self, frame: memoryview, /) -> int: ...


def kafka_correlation_id(frame: memoryview) -> int:
    """The first four bytes of a Kafka response. Raises FrameError for a shorter frame."""
    if len(frame) < 4:
        raise FrameError("a response shorter than its correlation id")
    correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
    return correlation_id


class Channel(asyncio.BufferedProtocol):
    """One TCP connection to a peer, made by :meth:`open`. When it breaks, every waiting call fails."""

    def __init__(self, correlation_id_of: CorrelationReader, max_frame_bytes: int) -> None:
        self._correlation_id_of = correlation_id_of
        self._buffer = ReceiveBuffer(max_frame_bytes)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._due_s: dict[int, float] = {}  # of these, when the answer must be there
        self._watchdog: asyncio.TimerHandle | None = None
        self._watched_until_s = 0.0
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._loop = asyncio.get_running_loop()
        self._next_correlation_id = 0
        self._was_reset = False
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        *,
        timeout_s: float,
        correlation_id_of: CorrelationReader = kafka_correlation_id,
        max_frame_bytes: int = 512 * 1024 * 1024,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """Connect. Raises OSError (ConnectionRefusedError, gaierror, SSLError, ...) or TimeoutError.

        A malformed host counts as a name that does not exist: peers and brokers report their addresses, and may report
        anything.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, channel = await loop.create_connection(
                    lambda: cls(correlation_id_of, max_frame_bytes), endpoint.host, endpoint.port, ssl=tls
                )
        except OSError as error:
            if type(error) is not OSError or error.errno is not None:
                raise
            raise _with_its_number(error) from error
        except ValueError as error:  # the resolver was not asked
            raise socket.gaierror(socket.EAI_NONAME, f"{endpoint.host!r} is not a host name: {error}") from error
        return channel

    def next_correlation_id(self) -> int:
        """A fresh id, wrapping within int32."""
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        return self._next_correlation_id

    def request(
        self, correlation_id: int, frame: Chunk | list[Chunk], timeout_s: float | None = None
    ) -> asyncio.Future[bytes]:
        """Send one frame (size prefix included); the future gets the response frame, without its size prefix.

        It fails with ChannelClosedError if the connection ends before, and with TimeoutError after ``timeout_s``.
        Cancelling it drops the answer.
        """
        future: asyncio.Future[bytes] = self._loop.create_future()
        if self._outbox is None:
            future.set_exception(ChannelClosedError("the connection is closed"))
            return future
        self._waiting[correlation_id] = future
        if timeout_s is not None:
            due_s = self._due_s[correlation_id] = self._loop.time() + timeout_s
            if self._watchdog is None or due_s < self._watched_until_s:
                self._watch_until(due_s)
        self._outbox.write(frame if isinstance(frame, list) else [frame])
        return future

    def post(self, frame: Chunk) -> None:
        """Send one frame that gets no answer."""
        if self._outbox is None:
            raise ChannelClosedError("the connection is closed")
        self._outbox.write([frame])

    @property
    def is_open(self) -> bool:
        """False once the connection ended or is ending."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_receiving(self) -> bool:
        """True when a part of a response has arrived."""
        return len(self._buffer) > 0

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for their answer."""
        return len(self._waiting)

    def close(self) -> None:
        """Close at once; waiting calls fail."""
        if self._transport is not None:
            self._transport.abort()

    async def end(self) -> bool:
        """Send no more, and wait until the peer has ended the connection, too. True when it was reset instead."""
        if self._transport is not None and self._transport.can_write_eof():
            try:
                self._transport.write_eof()
            except OSError:  # the kernel knows already, this loop does not
                return True
            await asyncio.shield(self.closed)
        return self._was_reset

    # -- asyncio callbacks ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one, but not by inheritance
        self._outbox = Outbox(transport, lambda _error: self.close())
        sock = transport.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock, WITH_CALLED)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._was_reset = exc is not None
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ChannelClosedError(f"the connection ended{f': {exc}' if exc else ''}"))
        self._waiting.clear()
        self._due_s.clear()
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        if not self.closed.done():
            self.closed.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.writable(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        try:
            while (frame := self._buffer.next_frame()) is not None:
                correlation_id = self._correlation_id_of(frame)
                self._due_s.pop(correlation_id, None)
                future = self._waiting.pop(correlation_id, None)
                if future is not None and not future.done():
                    future.set_result(bytes(frame))
        except WireError:
            self.close()

    def eof_received(self) -> bool:
        return False

    # -- answers that are overdue -----------------------------------------------------------------------------------

    def _watch_until(self, due_s: float) -> None:
        """One timer for all requests, which is left as it is when they are answered: one for each that is made and
        cancelled costs as much as sending it."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._watched_until_s = due_s  # uvloop's handle of a time that has come does not tell it
        self._watchdog = self._loop.call_at(due_s, self._end_overdue)

    def _end_overdue(self) -> None:
        self._watchdog = None
        now_s = self._loop.time()
        for correlation_id in [each for each, due_s in self._due_s.items() if due_s <= now_s]:
            del self._due_s[correlation_id]
            future = self._waiting.pop(correlation_id)
            if not future.done():
                future.set_exception(TimeoutError())
        if self._due_s:
            self._watch_until(min(self._due_s.values()))


def _with_its_number(error: OSError) -> OSError:
    """The same error, as ConnectionRefusedError if all addresses refused.

    A name may have several addresses (``localhost``: ::1 and 127.0.0.1). If all of them fail, asyncio raises a plain
    OSError with their errno values in its text only. Addresses without a route do not count.
    """
    numbers = {int(number) for number in _ERROR_NUMBER.findall(str(error))}
    if len(numbers) > 1:
        numbers -= NO_WAY_THERE
    if len(numbers) != 1:
        return OSError(str(error))
    (number,) = numbers
    return OSError(number, os.strerror(number))
