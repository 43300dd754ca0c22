"""How a message class describes itself to the codec compiler.

A message class (all of them are generated, see :mod:`minikafka.wire.messages`) covers every version of one
message: it has the fields of all versions, and ``SCHEMA`` says which versions carry which field and how.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple, Self
from uuid import UUID

Buffer = bytes | bytearray | memoryview
"""What a ``records`` field may hold."""


class RecordsSlot:
    """The place of records that are not in memory: `size` bytes that whoever writes the response finds by `handle`."""

    __slots__ = ("handle", "size")

    def __init__(self, size: int, handle: object) -> None:
        self.size = size
        self.handle = handle

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"RecordsSlot(size={self.size}, handle={self.handle!r})"


EMPTY: Final[Any] = ()
"""The default of an array argument: stands for a new empty list."""

ZERO_UUID: Final = UUID(int=0)
VERSION_MAX: Final = 32767


class VersionRange(NamedTuple):
    """An inclusive range of versions; empty when ``first > last``."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read Kafka's notation: ``"3"``, ``"3-7"``, ``"3+"``, and ``""`` or ``"none"`` for no version."""
        if text in ("", "none"):
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def has(self, version: int) -> bool:
        """True when `version` lies in the range."""
        return self.first <= version <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


class F(NamedTuple):
    """One field of a message class.

    `type` is a Kafka primitive name or the class of a struct; ranges are in Kafka's notation. `default` is None
    for the zero of the type, unless the field is nullable and `null_default` is set. A struct field that is
    tagged or nullable is None when absent.
    """

    name: str
    type: str | type[Message]
    versions: str
    array: bool = False
    nullable: str = ""
    tag: int = -1
    tagged: str = ""
    default: int | str | bool | None = None
    null_default: bool = False


class Message:
    """Base of every message and struct: equality and printing over the declared fields.

    Messages are mutable values: not hashable, compared by content.
    """

    __slots__ = ()
    SCHEMA: ClassVar[tuple[F, ...]] = ()
    VERSIONS: ClassVar[str] = ""
    FLEXIBLE: ClassVar[str] = ""
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.SCHEMA)

    def __repr__(self) -> str:
        fields = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.SCHEMA)
        return f"{type(self).__name__}({fields})"
