"""Every array of every request that clients may send, and requests that reach it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from minikafka.wire.api import CLIENTS, ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.layout import FIXED, Column, is_flexible, layout_of
from minikafka.wire.schema import ZERO_UUID, Message

SOME: Final = 10_000
"""What is said where one value does: a name, a time-out in ms."""


class Array(NamedTuple):
    """An array of the request of ``key`` in ``version``: the last of ``path``, in elements of those before it."""

    key: ApiKey
    version: int
    path: tuple[Column, ...]

    @property
    def name(self) -> str:
        """For people: ``Produce v13 topic_data.partition_data``."""
        return f"{self.key.camel_name} v{self.version} {'.'.join(column.name for column in self.path)}"

    def body(self, *counts: int) -> bytes:
        """A request with so many elements on each level of the path; everything in them is zero, empty or null."""
        return self._encoded(_filled(self.key.request_class, list(zip(self.path, counts, strict=True))))

    def _encoded(self, request: Message) -> bytes:
        if self.key is ApiKey.PRODUCE:
            request.acks = 1  # type: ignore[attr-defined]  # with 0 nothing is answered
        return encode(request, self.version)

    def body_of_distinct(self, count: int, length: int = 1) -> bytes:
        """One element on each level above, and ``count`` that differ in everything that they say, names of at least
        ``length`` characters."""
        request = self.key.request_class()
        _distinguish(request, self.version, SOME, of=("string",))
        message, structs = request, [*self.path]
        for column in structs[:-1]:
            assert column.struct is not None
            element = column.struct()
            _distinguish(element, self.version, SOME)
            setattr(message, column.name, [element])
            message = element
        last = self.path[-1]
        setattr(message, last.name, [_distinct(last, self.version, number, length) for number in range(count)])
        return self._encoded(request)

    def body_with_count(self, count: int) -> bytes:
        """One element on each level above, and none in the array, which says that it has ``count``: an int32, or what
        a compact length can say of it."""
        above = [1] * (len(self.path) - 1)
        empty, one = self.body(*above, 0), self.body(*above, 1)
        at = next(position for position, (was, now) in enumerate(zip(empty, one, strict=False)) if was != now)
        if is_flexible(self.key.request_class, self.version):
            return empty[:at] + _uvarint((count + 1) & 0xFFFF_FFFF) + empty[at + 1 :]
        return empty[: at - 3] + count.to_bytes(4, signed=True) + empty[at + 1 :]


def arrays() -> list[Array]:
    """In the first version and in the last of each API."""
    return [
        Array(key, version, path)
        for key in ApiKey
        if key.listeners & CLIENTS
        for version in sorted({key.versions.first, key.versions.last})
        for path in _paths(key.request_class, version)
    ]


def _paths(cls: type[Message], version: int, above: tuple[Column, ...] = ()) -> Iterator[tuple[Column, ...]]:
    for column in layout_of(cls, version).columns:
        if column.field.array:
            yield (*above, column)
            if column.struct is not None:
                yield from _paths(column.struct, version, (*above, column))


def _filled(cls: type[Message], levels: list[tuple[Column, int]]) -> Message:
    message = cls()
    if levels:
        (column, count), *below = levels
        setattr(message, column.name, [_element(column, below) for _ in range(count)])
    return message


def _element(column: Column, below: list[tuple[Column, int]]) -> Any:
    if column.struct is not None:
        return _filled(column.struct, below)
    zeros = {"string": "", "bytes": b"", "records": b"", "uuid": ZERO_UUID}
    assert column.primitive in zeros or column.primitive in FIXED
    return zeros.get(column.primitive, 0)


def _distinct(column: Column, version: int, number: int, length: int) -> Any:
    if column.struct is None:
        return _value(column.primitive, number, length)
    element = column.struct()
    _distinguish(element, version, number, length)
    return element


def _distinguish(message: Message, version: int, number: int, length: int = 1, *, of: Sequence[str] = ()) -> None:
    """Give each field a value of its own; only those ``of`` these types, if any are given, and time-outs."""
    for column in layout_of(type(message), version).columns:
        is_wanted = not of or column.primitive in of or column.name.endswith("timeout_ms")
        if is_wanted and column.struct is None and not column.field.array and column.primitive != "records":
            setattr(message, column.name, _value(column.primitive, number, length))


def _value(primitive: str, number: int, length: int) -> Any:
    match primitive:
        case "string":
            return f"{number:0{length}x}"
        case "bytes":
            return f"{number:0{length}x}".encode()
        case "uuid":
            return UUID(int=number + 1)
        case "bool" | "int8":
            return number % 2
    return number


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])
