"""What is at an HTTP address, read whole and within a time. It blocks: a node and its loop leave it to a thread.

The timeouts of the standard library are those of one read: a server that sends a byte now and then would keep the
thread for ever. Here they shrink to what is left.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import socket
from typing import Any, Final
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

_LATE: Final = "timed out"


def read_page(wanted: str | Request, redirects: HTTPRedirectHandler, *, within_s: float, size_max: int) -> bytes:
    """At most so many bytes of it, of where ``redirects`` lead. Raises OSError, as are TimeoutError and
    urllib.error.HTTPError; http.client.HTTPException; ValueError for no address."""
    left_s = partial(_left_s, time.monotonic() + within_s)
    with build_opener(redirects, _Plain(left_s), _Encrypted(left_s)).open(wanted) as answer:
        text: bytes = answer.read(size_max)
    return text


def _left_s(until_s: float) -> float:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError(_LATE)
    return left_s


class _Plain(HTTPHandler):
    def __init__(self, left_s: Callable[[], float]) -> None:
        super().__init__()
        self._left_s = left_s

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_connecting(HTTPConnection, self._left_s), req)


class _Encrypted(HTTPSHandler):
    def __init__(self, left_s: Callable[[], float]) -> None:
        super().__init__()
        self._left_s = left_s

    def https_open(self, req: Request) -> HTTPResponse:
        connection = partial(HTTPSConnection, context=ssl.create_default_context())
        return self.do_open(_connecting(connection, self._left_s), req)


def _connecting(make: Callable[..., HTTPConnection], left_s: Callable[[], float]) -> Any:
    """Makes a connection, as ``AbstractHTTPHandler.do_open`` asks for it."""

    def connect(host: str, **how: Any) -> HTTPConnection:
        connection = make(host, **how | {"timeout": left_s()})
        connection.response_class = partial(_response, left_s)  # type: ignore[assignment]  # it is called only
        return connection

    return connect


def _response(left_s: Callable[[], float], sock: socket, *given: Any, **named: Any) -> HTTPResponse:
    return HTTPResponse(_Timed(sock, left_s), *given, **named)  # type: ignore[arg-type]  # it asks for a file only


class _Timed:
    """What a response asks of its socket."""

    def __init__(self, sock: socket, left_s: Callable[[], float]) -> None:
        self._sock = sock
        self._left_s = left_s

    def makefile(self, mode: str) -> BufferedReader:
        return BufferedReader(_Reads(self._sock, self._left_s))


class _Reads(RawIOBase):
    def __init__(self, sock: socket, left_s: Callable[[], float]) -> None:
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
