"""What a message class looks like in one version: which columns are there, in which order, and how each is coded."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.wire.errors import WireError
from minikafka.wire.schema import NO_TAG, Field, Message, VersionRange

FIXED: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Primitive types of fixed size: struct format and size in bytes."""


class Column(NamedTuple):
    """A field as one version codes it."""

    name: str
    field: Field
    nullable: bool

    @property
    def struct(self) -> type[Message] | None:
        """The class of the value or of the elements; None for a primitive."""
        return None if isinstance(self.field.type, str) else self.field.type

    @property
    def primitive(self) -> str:
        """Kafka's name of the primitive type of the value or of the elements; "" for a struct."""
        return self.field.type if isinstance(self.field.type, str) else ""

    @property
    def is_fixed(self) -> bool:
        """True for a primitive of fixed size that is not in an array."""
        return not self.field.array and self.primitive in FIXED


class Layout(NamedTuple):
    """A class in one version: columns in wire order, tagged columns in tag order, fields the version has not."""

    columns: tuple[Column, ...]
    tagged: tuple[Column, ...]
    absent: tuple[Column, ...]


def layout_of(cls: type[Message], version: int) -> Layout:
    """The layout of `cls` in `version`."""
    columns, tagged, absent = [], [], []
    for name, field in cls.SCHEMA.items():
        column = Column(name, field, VersionRange.parse(field.nullable).has(version))
        if not VersionRange.parse(field.versions).has(version):
            absent.append(column)
        elif field.tag != NO_TAG:
            tagged.append(column)
        else:
            columns.append(column)
    return Layout(tuple(columns), tuple(sorted(tagged, key=lambda column: column.field.tag)), tuple(absent))


def is_flexible(cls: type[Message], version: int) -> bool:
    """True when the version has compact lengths and tagged fields (KIP-482)."""
    return VersionRange.parse(cls.FLEXIBLE).has(version)


def check_version(cls: type[Message], version: int) -> None:
    """Raise WireError when the message has no such version."""
    if not VersionRange.parse(cls.VERSIONS).has(version):
        raise WireError(f"{cls.__name__} has versions {cls.VERSIONS}, not {version}")


def size_min(cls: type[Message], version: int) -> int:
    """The least number of bytes a value of `cls` takes (at least 1, so that a count can always be checked)."""
    flexible = is_flexible(cls, version)
    size = sum(column_size_min(column, flexible) for column in layout_of(cls, version).columns)
    return max(1, size + flexible)


def column_size_min(column: Column, flexible: bool) -> int:
    """The least number of bytes the column takes."""
    if column.is_fixed:
        return FIXED[column.primitive][1]
    if flexible or (column.struct is not None and not column.field.array):
        return 1  # a compact length, or the presence byte of a nullable struct
    return 2 if column.primitive == "string" and not column.field.array else 4
