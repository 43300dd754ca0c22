"""What is at an HTTP address, read whole and within a time. It blocks: a node and its loop leave it to a thread.

The timeouts of the standard library are those of one address of a name, of the TLS handshake and of one read: a server
that sends a byte now and then would keep the thread for ever. Here they shrink to what is left. Only the system bounds
how long it looks up a name, and what that takes is left to nothing else.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from typing import Any, Final
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

PORT_MAX: Final = 65_535
_LATE: Final = "timed out"


def read_page(wanted: str | Request, redirects: HTTPRedirectHandler, *, within_s: float, size_max: int) -> bytes:
    """At most so many bytes of it, of where ``redirects`` lead. Raises OSError, as are TimeoutError and
    urllib.error.HTTPError; http.client.HTTPException; ValueError for no address."""
    left_s = partial(_left_s, time.monotonic() + within_s)
    with build_opener(redirects, _Connections(left_s)).open(wanted) as answer:
        text: bytes = answer.read(size_max)
    return text


def _left_s(until_s: float) -> float:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError(_LATE)
    return left_s


class _Connections(HTTPHandler, HTTPSHandler):
    """Of both schemes. What is done with them is done in time."""

    def __init__(self, left_s: Callable[[], float]) -> None:
        super(HTTPSHandler, self).__init__()  # its own would load the authorities, as each connection does
        self._left_s = left_s

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(partial(self._connection, HTTPConnection), req)

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(partial(self._connection, HTTPSConnection), req)

    def _connection(self, make: Callable[..., HTTPConnection], host: str, **_timeout: Any) -> Any:
        """As ``do_open`` asks for it."""
        connection: Any = make(host)
        connection.response_class = partial(_response, self._left_s)
        connection._create_connection = partial(_connected, self._left_s)
        return connection


def _connected(left_s: Callable[[], float], name: tuple[str, int], *_source: object) -> socket.socket:
    """As ``socket.create_connection``, but each address has its share of the time."""
    if (
        name[1] > PORT_MAX
    ):  # of a page that redirects here, maybe; the system takes the last bits, or raises OverflowError
        raise OSError(f"there is no port {name[1]}")
    addresses: list[Any] = [where[:2] for *_, where in socket.getaddrinfo(*name, type=socket.SOCK_STREAM)]
    for left in range(len(addresses), 0, -1):
        try:
            sock = socket.create_connection(addresses[-left], left_s() / left)
        except OSError:
            if left == 1:
                raise
        else:
            sock.settimeout(left_s())  # of the TLS handshake
            return sock
    raise OSError(f"{name[0]} has no address")


def _response(left_s: Callable[[], float], sock: socket.socket, *given: Any, **named: Any) -> HTTPResponse:
    return HTTPResponse(_Timed(sock, left_s), *given, **named)  # type: ignore[arg-type]  # it asks for a file only


class _Timed:
    """What a response asks of its socket."""

    def __init__(self, sock: socket.socket, left_s: Callable[[], float]) -> None:
        self._sock = sock
        self._left_s = left_s

    def makefile(self, mode: str) -> BufferedReader:
        return BufferedReader(_Reads(self._sock, self._left_s))


class _Reads(RawIOBase):
    def __init__(self, sock: socket.socket, left_s: Callable[[], float]) -> None:
        self._sock = sock
        self._left_s = left_s
        self._file = sock.makefile("rb", buffering=0)  # the socket stays open for it

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._left_s())
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
