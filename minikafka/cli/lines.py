"""Bytes from a file or pipe as records: one per line, passed on as soon as they are there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

LINE_SIZE_MAX: Final = 16 << 20
_CHUNK_SIZE: Final = 1 << 18


class LineError(ValueError):
    """A line that is no record; the message names it by its number."""


class KeyedLine(NamedTuple):
    """A record to be: its key, or None, and its value."""

    key: bytes | None
    value: bytes


class LineSplitter:
    """Puts lines together from chunks of bytes, and gives them without their ends."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LINE_SIZE_MAX:
            raise LineError(f"line too long: at most {LINE_SIZE_MAX >> 20} MiB allowed")
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        """The last line, if it did not end."""
        rest, self._rest = self._rest, b""
        return [rest.removesuffix(b"\r")] if rest else []


async def read_chunks(descriptor: int) -> AsyncIterator[bytes]:
    """The bytes of a file, pipe or terminal as they come; a wait for more does not block the event loop."""
    loop = asyncio.get_running_loop()
    while True:
        readable = asyncio.Event()
        try:
            loop.add_reader(descriptor, readable.set)
        except PermissionError:  # a regular file or /dev/null cannot be watched, and needs no watching
            await asyncio.sleep(0)
        else:
            try:
                await readable.wait()
            finally:
                loop.remove_reader(descriptor)
        chunk = os.read(descriptor, _CHUNK_SIZE)
        if not chunk:
            return
        yield chunk


def split_key(line: bytes, separator: bytes | None, number: int) -> KeyedLine:
    """The key and value of a line: what is before and behind the first `separator`; no key when that is None."""
    if separator is None:
        return KeyedLine(None, line)
    key, found, value = line.partition(separator)
    if not found:
        raise LineError(f"line {number} has no key separator {separator.decode(errors='replace')!r}: {line[:60]!r}")
    return KeyedLine(key, value)
