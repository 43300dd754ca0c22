"""A network that keeps one request back: a proxy before a node's port for clients.

The client sees its connection break, as after a fault of the network, and repeats the request on another one. What was
kept back reaches the node when :meth:`DelayingProxy.deliver` lets it go.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode
from minikafka.wire.headers import decode_request_header, decode_response_header

HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 30.0


class DelayingProxy:
    """Passes everything on, but keeps the next request of an API back once it is told to. Closed by ``with``."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self._key: ApiKey | None = None
        self._kept = b""
        self._is_kept = threading.Event()
        self._sockets = {self._server}
        self._run(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for each in list(self._sockets):
            _hang_up(each)
            each.close()

    def keep_next(self, key: ApiKey) -> None:
        """Keep the next request of this API back, and break its connection."""
        self._is_kept.clear()
        self._key = key

    def wait_kept(self) -> None:
        """Until that has happened. TimeoutError when it does not."""
        if not self._is_kept.wait(PATIENCE_S):
            raise TimeoutError("there was no request that could be delayed")

    def deliver(self) -> Any:
        """Let the node have the request now. Its answer."""
        header, _ = decode_request_header(self._kept)
        key, version = ApiKey(header.api_key), header.api_version
        with socket.create_connection((HOST, self._target_port), timeout=PATIENCE_S) as node:
            _send(node, self._kept)
            answer = _receive(node)
        _, position = decode_response_header(answer, key, version)
        return decode(key.response_class, version, answer, position)[0]

    # -- inside -----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            client, _ = self._server.accept()
            self._sockets.add(client)
            try:
                node = socket.create_connection((HOST, self._target_port))
            except OSError:  # it does not run yet
                _hang_up(client)
                continue
            self._sockets.add(node)
            self._run(self._pass_requests, client, node)
            self._run(_pass_answers, node, client)

    def _pass_requests(self, client: socket.socket, node: socket.socket) -> None:
        while frame := _receive(client):
            if self._key is not None and int.from_bytes(frame[:2]) == self._key:
                self._key, self._kept = None, frame
                _hang_up(client)
                _hang_up(node)
                self._is_kept.set()
                return
            _send(node, frame)
        _hang_up(node)

    def _run(self, work: Callable[..., None], *sockets: socket.socket) -> None:
        def until_it_breaks() -> None:
            with suppress(OSError, EOFError):
                work(*sockets)

        threading.Thread(target=until_it_breaks, name="delaying proxy", daemon=True).start()


def _pass_answers(node: socket.socket, client: socket.socket) -> None:
    while data := node.recv(1 << 16):
        client.sendall(data)
    _hang_up(client)


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _send(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(len(frame).to_bytes(4) + frame)


def _receive(connection: socket.socket) -> bytes:
    """The next frame, without its size. EOFError at the end."""
    return _exactly(connection, int.from_bytes(_exactly(connection, 4)))


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise EOFError
        received += chunk
    return bytes(received)
