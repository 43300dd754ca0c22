"""How a message class declares its fields, for the codec compiler and for readers.

A message class covers every version of one message. Each field is one line: its Python type, its Kafka type, the
versions that have it, and what else there is to say::

    class FetchPartition(Message):
        partition: int = int32("0+")
        current_leader_epoch: int = int32("9+", default=-1)
        replica_directory_id: UUID = uuid("17+", tag=0)

    class FetchTopic(Message):
        topic: str = string("0-12")
        partitions: list[FetchPartition] = array(FetchPartition, "0+")

    class FetchRequest(Message, versions="4-18", flexible="12+"):
        cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None)
        replica_state: ReplicaState | None = struct(ReplicaState, "15+", tag=1)
        topics: list[FetchTopic] = array(FetchTopic, "0+")

Versions are in Kafka's notation (:meth:`VersionRange.parse`). ``tag``: the field is a tagged one (KIP-482), not sent
where it has its default. Structs have the versions of the message they are in. The lines become slots, and optional
keywords of a constructor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar, dataclass_transform, overload
from uuid import UUID

Buffer = bytes | bytearray | memoryview
"""What a ``records`` field may hold."""

T = TypeVar("T")
M = TypeVar("M", bound="Message")

EMPTY: Final[Any] = ()
"""The default of an array: stands for a new empty list."""
ZERO_UUID: Final = UUID(int=0)
VERSION_MAX: Final = 32767
NO_TAG: Final = -1
_ZERO: Final[Any] = object()


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


class Field(NamedTuple):
    """What a line of a message class says.

    `type`: the name of a Kafka primitive, or the class of a struct; of the elements, if it is an array. `nullable`: the
    versions in which it may be null. `default`: what it is where nobody sets it, or the version has no such field.
    `named`: integers of the array name what is asked about, and each counts as an element of the message.
    """

    type: str | type[Message]
    versions: str
    nullable: str
    tag: int
    default: Any
    array: bool = False
    named: bool = False


class Primitive(Generic[T]):
    """A primitive type of Kafka's protocol. Called, it declares a field."""

    def __init__(self, name: str, zero: T) -> None:
        self.name = name
        self.zero = zero

    @overload
    def __call__(self, versions: str, *, default: T = _ZERO, tag: int = NO_TAG) -> T: ...

    @overload
    def __call__(self, versions: str, *, nullable: str, default: T | None = _ZERO, tag: int = NO_TAG) -> T | None: ...

    def __call__(self, versions: str, *, nullable: str = "", default: Any = _ZERO, tag: int = NO_TAG) -> Any:
        return Field(self.name, versions, nullable, tag, self.zero if default is _ZERO else default)


boolean: Final = Primitive("bool", False)
int8: Final = Primitive("int8", 0)
int16: Final = Primitive("int16", 0)
uint16: Final = Primitive("uint16", 0)
int32: Final = Primitive("int32", 0)
int64: Final = Primitive("int64", 0)
float64: Final = Primitive("float64", 0.0)
uuid: Final = Primitive("uuid", ZERO_UUID)
string: Final = Primitive("string", "")
bytes_: Final = Primitive("bytes", b"")
records_: Final[Primitive[Buffer]] = Primitive("records", b"")


@overload
def array(of: Primitive[T], versions: str, *, tag: int = NO_TAG, named: bool = False) -> list[T]: ...
@overload
def array(
    of: Primitive[T], versions: str, *, nullable: str, default: None = _ZERO, tag: int = NO_TAG, named: bool = False
) -> list[T] | None: ...
@overload
def array(of: type[M], versions: str, *, tag: int = NO_TAG) -> list[M]: ...
@overload
def array(of: type[M], versions: str, *, nullable: str, default: None = _ZERO, tag: int = NO_TAG) -> list[M] | None: ...
def array(
    of: Any, versions: str, *, nullable: str = "", default: Any = EMPTY, tag: int = NO_TAG, named: bool = False
) -> Any:
    """Declares an array; empty by default, or None."""
    kind = of.name if type(of) is Primitive else of
    return Field(kind, versions, nullable, tag, EMPTY if default is _ZERO else default, True, named)


def struct(of: type[M], versions: str, *, nullable: str = "", tag: int = NO_TAG) -> M | None:
    """Declares a struct that is null where it is absent."""
    field: Any = Field(of, versions, nullable, tag, None)
    declared: M | None = field
    return declared


@dataclass_transform(kw_only_default=True, eq_default=False)
class MessageType(type):
    """Makes a schema and slots of the fields."""

    SCHEMA: dict[str, Field]
    VERSIONS: str = ""
    FLEXIBLE: str = ""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], versions: str = "", flexible: str = ""
    ) -> MessageType:
        schema = {name: value for name, value in namespace.items() if type(value) is Field}
        rest = {name: value for name, value in namespace.items() if name not in schema}
        return super().__new__(mcs, name, bases, rest | {"SCHEMA": schema, "__slots__": tuple(schema)})

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], versions: str = "", flexible: str = ""
    ) -> None:
        super().__init__(name, bases, namespace)
        if versions:
            cls.set_versions(versions, flexible)

    def set_versions(cls, versions: str, flexible: str) -> None:
        """Of the class and of the structs it is made of."""
        cls.VERSIONS, cls.FLEXIBLE = versions, flexible
        for field in cls.SCHEMA.values():
            if isinstance(field.type, MessageType) and not field.type.VERSIONS:
                field.type.set_versions(versions, flexible)


class Message(metaclass=MessageType):
    """Base of every message and struct. Messages are mutable values: not hashable, compared by content.

    A message says which ``versions`` it has, and which of them are ``flexible``: with compact lengths and tagged fields
    (KIP-482). What it is made of has the same.
    """

    SCHEMA: ClassVar[dict[str, Field]]
    VERSIONS: ClassVar[str]
    FLEXIBLE: ClassVar[str]
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __init__(self, **fields: Any) -> None:
        """For the first object of a class: most classes are never used, and compiling takes 0.1 ms."""
        cls = type(self)
        cls.__init__ = init = _compile_init(cls)  # type: ignore[method-assign]
        init(self, **fields)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.SCHEMA)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.SCHEMA)})"


def _compile_init(cls: type[Message]) -> Callable[..., None]:
    names: dict[str, Any] = {f"of_{name}": field.default for name, field in cls.SCHEMA.items()}
    parameters = "".join(f", {name}=of_{name}" for name in cls.SCHEMA)
    body = [
        f"    self.{name} = " + (f"[] if {name} is EMPTY else {name}" if field.default is EMPTY else name)
        for name, field in cls.SCHEMA.items()
    ]
    text = "\n".join([f"def __init__(self{', *' if parameters else ''}{parameters}):", *(body or ["    pass"])])
    exec(compile(text, f"<constructor of {cls.__name__}>", "exec"), names | {"EMPTY": EMPTY}, names)  # noqa: S102 - written here
    init: Callable[..., None] = names["__init__"]
    return init
