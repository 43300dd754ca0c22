"""A connection whose bytes come by the event loop's TLS.

- It is read from in portions of a few records, each of which costs its turn (``tls_records``); when that is spent, it
  stands in line before it decrypts more.
- The event loop reads the socket on while the connection is not read from, and its peer's end would come before what
  the peer has sent. So it is to read only while nothing waits, decrypted or not: the end stays in the kernel, as it
  does without TLS.
- It says that it ends: clients take an end without that for a fault of TLS.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, cast

from minikafka.net.breakable import BreakableConnection
from minikafka.net.connection import Connection
from minikafka.net.handshakes import why_turned_away
from minikafka.net.tls_records import READ_AT_ONCE, RECORD_COST, FewRecords

PORTION_COST: Final = 8 * 1024
"""Of the turn, for a portion that completes no record: some 40 us."""
STALLED_BYTES: Final = 128 * 1024
"""Of a peer that takes nothing: encrypted bytes are in buffers of OpenSSL and of the socket. As measured: 140 KB."""
END_COST: Final = 32 * 1024
"""To say that it ends, and to free what OpenSSL has: some 150 us."""
_NOTHING: Final = memoryview(bytearray())


class EncryptedConnection(Connection):
    """Server side of one, hands shaken."""

    stalled_bytes = STALLED_BYTES

    _tls: FewRecords
    _has_turn: bool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = transport.get_extra_info("ssl_object")
        assert isinstance(tls, FewRecords), "whoever listens has contexts of net.accepting"
        self._tls = tls
        self._has_turn = False  # it has stood in line to decrypt
        _read_socket_below(1, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, ssl.SSLError):
            self._note(f"TLS: {why_turned_away(exc)}")
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        turns = self._turns
        if turns.left <= 0 and not self._has_turn:
            self._stand_in_line()
            self._pause_reading()
            return _NOTHING
        self._has_turn = False
        self._tls.allow(turns)
        return self._buffer.writable(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        if self._tls.holds_back:
            self._stand_in_line()
            self._settle()

    @property
    def certificate(self) -> bytes | None:
        return self._tls.getpeercert(binary_form=True)

    def _take_turn(self) -> None:
        self._has_turn = True
        super()._take_turn()
        # It reads next, and so do those who take this turn with it.
        if self._transport is not None and not self._reading_paused:
            self.spend(RECORD_COST * READ_AT_ONCE if self._tls.has_record else PORTION_COST)

    def _stop_reading(self, transport: asyncio.Transport) -> None:
        super()._stop_reading(transport)
        if not transport.is_closing():
            self._tls.hold_back()
            _read_socket_below(1, transport)

    def _end(self, transport: asyncio.Transport) -> None:
        self.spend(END_COST)
        transport.close()  # says so, and has a turn for that
        self._loop.call_soon(transport.abort)

    def _end_after_replies(self, transport: asyncio.Transport) -> None:
        if not transport.is_closing():
            _read_socket_below(None, transport)  # the peer says that it ends
        transport.close()


class BreakableEncryptedConnection(BreakableConnection, EncryptedConnection):
    """Over a link that a test may break."""


def _read_socket_below(bytes_max: int | None, transport: asyncio.BaseTransport) -> None:
    """While less has arrived that was not looked at. None: the event loop's own limit. Effective at once."""
    cast(Any, transport).set_read_buffer_limits(bytes_max)
