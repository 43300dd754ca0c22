"""The other ends: a bare socket that speaks frames, a handler that records them, a region of a file that is counted."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from minikafka.model import Endpoint
from minikafka.net.connection import Connection
from minikafka.net.reply import Reply

T = TypeVar("T")

PATIENCE_S = 20.0


async def eventually(condition: Callable[[], T], what: str) -> T:
    """The first truthy result of ``condition``, asked at every turn of the loop; fails when there is none in time."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PATIENCE_S
    while not (result := condition()):
        assert loop.time() < deadline_s, f"waited in vain for {what}"
        await asyncio.sleep(0.001)
    return result


async def turns(count: int = 3) -> None:
    """Let the loop run everything that is ready, a few times over: bytes sent on the loopback are there by then."""
    for _ in range(count):
        await asyncio.sleep(0)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


class Peer:
    """One end of a TCP connection, without any buffering of its own."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, endpoint: Endpoint, receive_buffer: int | None = None) -> Peer:
        sock = socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.get_running_loop().sock_connect(sock, endpoint)
        return cls(sock)

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._loop.sock_sendall(self.socket, data)

    async def receive(self, count: int) -> bytes:
        """Exactly so many bytes; fewer when the connection ends first."""
        data = b""
        async with asyncio.timeout(PATIENCE_S):
            while len(data) < count and (some := await self._receive_some(count - len(data))):
                data += some
        return data

    async def receive_frame(self) -> bytes:
        """The next frame's body."""
        size = int.from_bytes(await self.receive(4))
        return await self.receive(size)

    async def receive_all(self) -> bytes:
        """Everything until the connection ends."""
        return await self.receive(1 << 40)

    async def _receive_some(self, most: int) -> bytes:
        try:
            return await self._loop.sock_recv(self.socket, min(most, 1 << 16))
        except ConnectionError:
            return b""

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close so that the other side sees ECONNRESET."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Recorder:
    """A frame handler that answers nothing by itself."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.replies: list[Reply] = []
        self.connections: list[Connection] = []
        self.lost: list[Connection] = []
        self.read_events = 0

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.replies.append(connection.open_reply())

    def on_read_event_end(self) -> None:
        self.read_events += 1

    def on_connection_made(self, connection: Connection) -> None:
        self.connections.append(connection)

    def on_connection_lost(self, connection: Connection) -> None:
        self.lost.append(connection)


class Echo(Recorder):
    """Answers each frame with itself, at once."""

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        super().on_frame(connection, frame)
        self.replies[-1].send([framed(bytes(frame))])


class Region:
    """A run of bytes of an open file; counts how it was used."""

    def __init__(self, path: Path, position: int, size: int, *, is_file: bool = True) -> None:
        self._fd = os.open(path, os.O_RDONLY)
        self._is_file = is_file
        self.position = position
        self.size = size
        self.reads = 0
        self.releases = 0

    def fileno(self) -> int | None:
        return self._fd if self._is_file else None

    def read(self) -> bytes:
        self.reads += 1
        return os.pread(self._fd, self.size, self.position)

    def release(self) -> None:
        self.releases += 1
        os.close(self._fd)
