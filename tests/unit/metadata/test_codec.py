"""Dataclasses to and from msgpack values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from minikafka.metadata.codec import MalformedError, from_wire, to_wire


class Colour(IntEnum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int | None


@dataclass(frozen=True, slots=True)
class Everything:
    flag: bool
    number: int
    name: str
    blob: bytes
    unique: UUID
    colour: Colour
    point: Point | None
    points: tuple[Point, ...]
    by_name: Mapping[str, tuple[int, ...]]


VALUE = Everything(True, 2**60, "ü", b"\0", UUID(int=5), Colour.RED, Point(1, None), (Point(2, 3),), {"a": (1, 2)})
WIRE = [True, 2**60, "ü", b"\0", UUID(int=5).bytes, 1, [1, None], [[2, 3]], {"a": [1, 2]}]


def test_there_and_back() -> None:
    assert to_wire(VALUE) == WIRE
    assert from_wire(Everything, WIRE) == VALUE
    assert type(to_wire(VALUE)[5]) is int


@pytest.mark.parametrize(
    ("position", "wrong", "path"),
    [
        (0, 1, "Everything.flag: bool is expected, not int"),
        (1, True, "Everything.number: int is expected, not bool"),
        (1, 1.0, "Everything.number: int is expected, not float"),
        (2, b"a", "Everything.name: str is expected, not bytes"),
        (3, "a", "Everything.blob: bytes is expected"),
        (4, b"short", "Everything.unique: 16 bytes are expected"),
        (5, 9, "Everything.colour: 9 is not a Colour"),
        (5, "x", "Everything.colour: 'x' is not a Colour"),
        (6, [1], "Everything.point: Point: 2 fields are expected, not 1"),
        (7, [[2, "3"]], "Everything.points: Point.y: int is expected, not str"),
        (7, None, "Everything.points: a list is expected"),
        (8, {1: [1]}, "Everything.by_name: a map with names"),
        (8, {"a": [None]}, "Everything.by_name: int is expected"),
    ],
)
def test_refuses_what_is_not_it(position: int, wrong: Any, path: str) -> None:
    wire = [*WIRE[:position], wrong, *WIRE[position + 1 :]]
    with pytest.raises(MalformedError) as raised:
        from_wire(Everything, wire)
    assert str(raised.value).startswith(path)


@pytest.mark.parametrize("wire", [None, {}, "abc", WIRE[:-1], [*WIRE, 0]])
def test_refuses_other_numbers_of_fields(wire: Any) -> None:
    with pytest.raises(MalformedError, match="expected"):
        from_wire(Everything, wire)
