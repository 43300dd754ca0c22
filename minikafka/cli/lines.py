"""Bytes from a file or pipe as records: one per line, passed on as soon as they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

LINE_SIZE_MAX: Final = 16 << 20
_CHUNK_SIZE: Final = 1 << 18


class LineError(ValueError):
    """A line that is no record; the message names it by its number."""


class KeyedLine(NamedTuple):
    """A record to be: its key, or None, and its value."""

    key: bytes | None
    value: bytes


def read_lines(read: Callable[[int], bytes]) -> Iterator[list[bytes]]:
    """The complete lines of each chunk that `read` returns (like ``os.read``), without their ends; then the last.

    A chunk without a line's end gives an empty list, so that the caller sees every chunk go by.
    """
    rest = b""
    while chunk := read(_CHUNK_SIZE):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_SIZE_MAX:
            raise LineError(f"a line is longer than {LINE_SIZE_MAX >> 20} MiB")
        yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]


def split_key(line: bytes, separator: bytes | None, number: int) -> KeyedLine:
    """The key and value of a line: what is before and behind the first `separator`; no key when that is None."""
    if separator is None:
        return KeyedLine(None, line)
    key, found, value = line.partition(separator)
    if not found:
        raise LineError(f"line {number} has no key separator {separator.decode(errors='replace')!r}: {line[:60]!r}")
    return KeyedLine(key, value)
