"""Alerts of TLS for clients that are turned away in the handshake: one without a certificate learns that it needs one.

OpenSSL writes the alert into memory when a handshake fails. The event loops close the socket then, and leave it there,
and the client would see nothing but the end of the connection.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from contextvars import ContextVar

ARRIVING: ContextVar[socket.socket] = ContextVar("ARRIVING")
"""The connection whose handshake the current task carries out."""


class Alerting(ssl.SSLObject):
    """The server's side of a handshake."""

    _output: ssl.MemoryBIO
    _socket: socket.socket | None

    def tell(self, output: ssl.MemoryBIO, to: socket.socket | None) -> None:
        """``output`` is where OpenSSL writes."""
        self._output, self._socket = output, to

    def do_handshake(self) -> None:
        """As the base class."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self._socket is not None:
                with suppress(OSError):  # it is gone, or takes nothing: then it is not told
                    self._socket.send(self._output.read())
            raise
        self._socket = None
