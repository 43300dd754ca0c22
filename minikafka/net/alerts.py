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


class _Handshake(ssl.SSLObject):
    """The server's side of a connection."""

    output: ssl.MemoryBIO
    socket: socket.socket | None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.socket is not None:
                with suppress(OSError):  # it is gone, or takes nothing: then it is not told
                    self.socket.send(self.output.read())
            raise
        self.socket = None


class AlertingContext(ssl.SSLContext):
    """Of a listener."""

    sslobject_class = _Handshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        handshake = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(handshake, _Handshake)
        handshake.output = outgoing
        handshake.socket = ARRIVING.get(None)
        return handshake
