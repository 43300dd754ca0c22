"""Dataclasses to and from lists of msgpack values, by their type hints.

Records are frozen dataclasses; on the wire each is the list of its fields in order. Types of fields:
``bool``, ``int``, ``float``, ``str``, ``bytes``, ``UUID`` (16 bytes), an ``IntEnum`` (its number), another dataclass or
named tuple (a list), ``X | None``, ``tuple[X, ...]`` (a list), ``dict[str, X]`` (a map). Decoding is strict: a wrong
type or number of fields raises :class:`MalformedError` with the path to it, whatever the bytes.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final, TypeVar
from uuid import UUID

T = TypeVar("T")

Convert = Callable[[Any], Any]


class MalformedError(ValueError):
    """Bytes or values that do not encode the expected type."""


def to_wire(value: Any) -> list[Any]:
    """The fields of a dataclass or named tuple, in order, as msgpack values."""
    return [pack(getattr(value, name)) for name, pack, _ in fields_of(type(value))]


def from_wire(cls: type[T], wire: Any, *, fields_min: int | None = None) -> T:
    """The inverse of :func:`to_wire`. ``fields_min`` lets trailing fields be absent; they take their defaults."""
    fields = fields_of(cls)
    if not isinstance(wire, list | tuple):
        raise MalformedError(f"{cls.__name__}: a list is expected, not {type(wire).__name__}")
    least = len(fields) if fields_min is None else fields_min
    if not least <= len(wire) <= len(fields):
        raise MalformedError(f"{cls.__name__}: {len(fields)} fields are expected, not {len(wire)}")
    values: dict[str, Any] = {}
    for (name, _, unpack), value in zip(fields, wire, strict=False):
        try:
            values[name] = unpack(value)
        except MalformedError as error:
            raise MalformedError(f"{cls.__name__}.{name}: {error}") from None
    return cls(**values)


Fields = tuple[tuple[str, Convert, Convert], ...]

_FIELDS: Final[dict[type, Fields]] = {}


def fields_of(cls: type) -> Fields:
    """(name, to wire, from wire) of every field, in order."""
    fields = _FIELDS.get(cls)
    if fields is None:
        fields = _FIELDS[cls] = _find_fields(cls)
    return fields


def _find_fields(cls: type) -> Fields:
    hints = typing.get_type_hints(cls)
    names = cls._fields if hasattr(cls, "_fields") else [field.name for field in dataclasses.fields(cls)]
    return tuple((name, *_converters(hints[name])) for name in names)


def _converters(hint: Any) -> tuple[Convert, Convert]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _optional(*_converters(next(a for a in arguments if a is not type(None))))
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return _sequence(*_converters(arguments[0]))
    if origin in (dict, Mapping):
        return _mapping(*_converters(arguments[1]))
    if hint is UUID:
        return (lambda value: value.bytes), _unpack_uuid
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return int, _enum(hint)
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return to_wire, lambda wire: from_wire(hint, wire)
    assert hint in (bool, int, float, str, bytes), f"no encoding for {hint}"
    return int if hint is int else _same, _exactly(hint)


def _same(value: Any) -> Any:
    return value


def _exactly(expected: type) -> Convert:
    def unpack(wire: Any) -> Any:
        if type(wire) is not expected:
            raise MalformedError(f"{expected.__name__} is expected, not {type(wire).__name__}")
        return wire

    return unpack


def _enum(expected: type[IntEnum]) -> Convert:
    def unpack(wire: Any) -> Any:
        try:
            return expected(_exactly(int)(wire))
        except ValueError:
            raise MalformedError(f"{wire!r} is not a {expected.__name__}") from None

    return unpack


def _optional(pack: Convert, unpack: Convert) -> tuple[Convert, Convert]:
    return (
        lambda value: None if value is None else pack(value),
        lambda wire: None if wire is None else unpack(wire),
    )


def _sequence(pack: Convert, unpack: Convert) -> tuple[Convert, Convert]:
    def unpack_all(wire: Any) -> Any:
        if not isinstance(wire, list | tuple):
            raise MalformedError(f"a list is expected, not {type(wire).__name__}")
        return tuple(map(unpack, wire))

    return (lambda values: list(map(pack, values))), unpack_all


def _mapping(pack: Convert, unpack: Convert) -> tuple[Convert, Convert]:
    def unpack_all(wire: Any) -> Any:
        if not isinstance(wire, dict) or not all(isinstance(key, str) for key in wire):
            raise MalformedError(f"a map with names is expected, not {type(wire).__name__}")
        return {key: unpack(value) for key, value in wire.items()}

    return (lambda values: {key: pack(value) for key, value in values.items()}), unpack_all


def _unpack_uuid(wire: Any) -> UUID:
    if type(wire) is not bytes or len(wire) != 16:
        raise MalformedError("16 bytes are expected")
    return UUID(bytes=wire)
