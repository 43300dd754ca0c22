"""Reads a socket for the event loop's TLS, in portions of what its connection has room for.

The event loop has 256 KiB for each connection with TLS. It reads as much at once, before anybody looks at the first
record, and OpenSSL copies it twice. A thousand strangers had a node at 500 MB in one turn, though each was refused for
its first four bytes. A connection's receive buffer is small at first, grows by what is taken, and is counted. So twice
as much is read for it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Reader(Protocol):
    """Whom the bytes are for."""

    @property
    def read_bytes_max(self) -> int:
        """For one read; more than 0."""
        ...


class Portions(asyncio.BufferedProtocol):
    """Stands between the socket and ``tls``, which is the event loop's, once hands are shaken."""

    def __init__(self, tls: asyncio.BufferedProtocol, reader: Reader) -> None:
        self._tls = tls
        self._reader = reader

    def get_buffer(self, sizehint: int) -> memoryview:
        size = self._reader.read_bytes_max
        return memoryview(self._tls.get_buffer(size))[:size]

    def buffer_updated(self, nbytes: int) -> None:
        self._tls.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        return self._tls.eof_received()

    def pause_writing(self) -> None:
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        self._tls.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tls.connection_lost(exc)
