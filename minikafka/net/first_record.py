"""The first record of a TLS handshake, which has to be whole before anything is done for it.

To answer it is the dear part of a handshake. A thousand clients that connect at once send theirs at once, a little
later: who had begun with them before would answer all of them in one turn of the loop. And who sends nothing, costs
nothing.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

_HANDSHAKE: Final = 22
_HEADER_BYTES: Final = 5
_SIZE_MAX: Final = _HEADER_BYTES + (1 << 14)


async def first_record(sock: socket.socket) -> bool:
    """Wait until it is there, or what cannot be one. False: the other side ended before. Raises OSError."""
    wanted = 1
    try:
        while True:
            await _readable(sock, wanted)
            begin = sock.recv(max(wanted, _HEADER_BYTES), socket.MSG_PEEK)
            if len(begin) < wanted:
                return False
            size = _size_of(begin)
            if not wanted < size <= _SIZE_MAX:
                return True
            wanted = size
    finally:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


def _size_of(begin: bytes) -> int:
    """Of the record that begins so, as far as that is to be seen; 0 if it is none of a handshake."""
    if begin[0] != _HANDSHAKE:
        return 0
    return _HEADER_BYTES + (int.from_bytes(begin[3:5], "big") if len(begin) >= _HEADER_BYTES else 0)


async def _readable(sock: socket.socket, count: int) -> None:
    """Wait for that many bytes, or the end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(sock, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(sock)
