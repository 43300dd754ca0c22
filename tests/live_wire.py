"""Requests to a running node over a bare socket, well-formed or not."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import TypeVar

from minikafka.wire.api import ApiKey, response_class
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.schema import Message

R = TypeVar("R", bound=Message)

TIMEOUT_S = 60.0


class ClosedError(Exception):
    """The node closed the connection."""


class Wire:
    """One connection to a node's listener. Correlation ids count from 1."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._correlation_id = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def ask(self, request: Message, version: int) -> Message:
        """Send a request and wait for its answer. Raises ClosedError when there is none."""
        self.send(request, version)
        return self.receive(request, version)

    def send(self, request: Message, version: int) -> None:
        """Send a request; its answer is fetched with :meth:`receive`, in order."""
        self.send_body(api_key(request), version, encode(request, version))

    def send_body(self, key: int, version: int, body: bytes) -> None:
        """Send a request whose body is given as bytes; `key` must be one with a known header version."""
        self._correlation_id += 1
        self.send_bytes(encode_request(key, version, self._correlation_id, "test", body))

    def send_frame(self, frame: bytes) -> None:
        """Send bytes with a size prefix that fits."""
        self.send_bytes(len(frame).to_bytes(4) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        try:
            self.socket.sendall(data)
        except ConnectionError:
            raise ClosedError from None

    def receive(self, request: Message, version: int) -> Message:
        """The answer to `request`."""
        key = api_key(request)
        frame = self.receive_frame()
        _, position = decode_response_header(frame, key, version)
        return decode_exactly(response_class(key), version, frame, position)

    def receive_frame(self) -> bytes:
        """The next answer, without its size prefix. Raises ClosedError."""
        size = int.from_bytes(self._receive_exactly(4))
        return self._receive_exactly(size)

    def is_closed_by_node(self) -> bool:
        """Wait for the node's next bytes: True when it closed the connection instead."""
        try:
            self.receive_frame()
        except ClosedError:
            return True
        return False

    def _receive_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                chunk = self.socket.recv(size - len(received))
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise ClosedError
            received += chunk
        return bytes(received)


def api_key(request: Message) -> ApiKey:
    """The API that the request's class belongs to."""
    name = type(request).__name__.removesuffix("Request")
    return next(key for key in ApiKey if key.camel_name == name)
