"""Alerts of TLS for clients that are turned away in the handshake: one without a certificate learns that it needs one.

OpenSSL writes the alert into memory when a handshake fails. The event loops close the socket then, and leave it there,
and the client would see nothing but the end of the connection.
"""

from __future__ import annotations

import ssl
from contextvars import ContextVar
from typing import Protocol


class Arriving(Protocol):
    """A connection whose handshake is carried out."""

    def on_shaken(self) -> None:
        """It has ended."""

    def on_refused(self, alert: bytes) -> None:
        """It has failed."""


ARRIVING: ContextVar[Arriving] = ContextVar("ARRIVING")
"""The one that the current callback is about."""


class Alerting(ssl.SSLObject):
    """The server's side of a handshake."""

    _output: ssl.MemoryBIO
    _arriving: Arriving | None

    def tell(self, output: ssl.MemoryBIO, to: Arriving | None) -> None:
        """``output`` is where OpenSSL writes."""
        self._output, self._arriving = output, to

    def do_handshake(self) -> None:
        """As the base class."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self._arriving is not None:
                self._arriving.on_refused(self._output.read())
            raise
        if self._arriving is not None:
            self._arriving.on_shaken()
            self._arriving = None
