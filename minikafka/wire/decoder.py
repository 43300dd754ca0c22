"""Compiles a decoder for one message class in one version.

The decoder is one Python function without calls per field: nested structs become nested loops, and neighbouring
fields of fixed size, together with the length in front of the next field, become one ``struct.unpack_from``.

Bad input raises :class:`WireError` and nothing else:

- a length is compared with the bytes that are left before anything is sliced or allocated;
- the elements of all arrays together are limited (``ELEMENTS_MAX``, or less: the third argument), and long strings
  count as some;
- ``unpack_from`` and indexing check the rest: the whole body stands in one ``try``, which costs nothing.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Any, NoReturn, Protocol

from minikafka.wire.errors import WireError
from minikafka.wire.layout import (
    FIXED,
    Column,
    check_version,
    column_size_min,
    is_flexible,
    layout_of,
    size_min,
)
from minikafka.wire.primitives import (
    ELEMENTS_MAX,
    STRING_BYTES_PER_ELEMENT,
    STRING_SIZE_MAX,
    finish_uvarint,
    skip_tagged_fields,
    unpack_int32s,
    unpack_int64s,
    uuid_of,
)
from minikafka.wire.schema import EMPTY, Buffer, Message


class Decoder(Protocol):
    """Reads a message at a position; returns it with the position behind it. ``left``: elements its arrays may have."""

    def __call__(self, buf: Buffer, pos: int, left: int = ELEMENTS_MAX, /) -> tuple[Any, int]: ...


def refuse_length(field: str, length: int) -> NoReturn:
    """A length that is null where null is not allowed, negative, or beyond the end."""
    if length == -1:
        raise WireError(f"{field} must not be null")
    too_long = "more than the message holds, or in all more than is allowed"
    raise WireError(f"{field} has length {length}: negative, {too_long}")


class DecoderSource:
    """Writes the source of a decoder, line by line."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self.version = version
        self.flexible = is_flexible(cls, version)
        self.lines: list[str] = []
        self.indent = 2
        self.run: list[tuple[str, str]] = []  # fixed-size reads not yet written: (format, target)
        self.after_run: list[str] = []
        self.names: dict[str, Any] = {
            "ELEMENTS_MAX": ELEMENTS_MAX,
            "WireError": WireError,
            "finish_uvarint": finish_uvarint,
            "new": object.__new__,
            "refuse_length": refuse_length,
            "skip_tagged_fields": skip_tagged_fields,
            "struct_error": struct_error,
            "unpack_int32s": unpack_int32s,
            "unpack_int64s": unpack_int64s,
            "uuid_of": uuid_of,
        }

    def emit(self, *lines: str) -> None:
        """Add lines at the current indentation."""
        self.lines += ["    " * self.indent + line for line in lines]

    def bind(self, name: str, value: Any) -> str:
        """Make `value` a global of the function."""
        self.names[name] = value
        return name

    # runs of fixed-size reads

    def read(self, format: str, target: str) -> None:
        """Read one fixed-size value into `target`, later, together with its neighbours."""
        self.run.append((format, target))

    def flush(self) -> None:
        """Write the pending reads as one unpack."""
        if [format for format, _ in self.run] == ["B"]:
            self.emit(f"{self.run[0][1]} = buf[pos]", "pos += 1")
        elif self.run:
            layout = Struct(">" + "".join(format for format, _ in self.run))
            unpack = self.bind(f"unpack_{layout.format[1:].replace('?', 'Z')}", layout.unpack_from)
            targets = ", ".join(target for _, target in self.run)
            self.emit(f"{targets}{',' if len(self.run) == 1 else ''} = {unpack}(buf, pos)", f"pos += {layout.size}")
        self.emit(*self.after_run)
        self.run, self.after_run = [], []

    def read_length(self, format: str) -> None:
        """Read a length (or count) into ``n``; -1 is null."""
        if not self.flexible:
            self.read(format, "n")
            self.flush()
            return
        self.read("B", "n")
        self.flush()
        self.emit("if n > 127:", "    n, pos = finish_uvarint(buf, pos, n)", "n -= 1")

    # fields

    def struct(self, cls: type[Message], depth: int) -> str:
        """Write the reading of a struct; returns the variable that holds it."""
        layout = layout_of(cls, self.version)
        value = f"m{depth}"
        self.emit(f"{value} = new({self.bind(cls.__name__, cls)})")
        for column in (*layout.absent, *layout.tagged):
            self.emit(f"{value}.{column.name} = {self.default(column.field.default)}")
        for column in layout.columns:
            self.column(column, cls, f"{value}.{column.name}", depth)
        if self.flexible:
            self.read("B", "n")
        self.flush()
        if self.flexible:
            self.tagged_fields(layout.tagged, cls, value, depth)
        return value

    def default(self, value: Any) -> str:
        """A field's default as an expression."""
        if value is EMPTY:
            return "[]"
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return repr(value)
        return self.bind("ZERO_UUID", value)

    def column(self, column: Column, cls: type[Message], target: str, depth: int) -> None:
        """Write the reading of one field into `target`."""
        name = f"{cls.__name__}.{column.name}"
        if column.field.array:
            self.array(column, name, target, depth)
        elif column.struct is not None:
            self.one_struct(column.struct, column.nullable, target, depth)
        elif column.primitive == "uuid":
            raw = f"u{depth}_{column.name}"
            self.read("16s", raw)
            self.after_run.append(f"{target} = uuid_of({raw})")
        elif column.is_fixed:
            self.read(FIXED[column.primitive][0], target)
        else:
            self.bytes_or_string(column.primitive, column.nullable, name, target)

    def bytes_or_string(self, primitive: str, nullable: bool, name: str, target: str) -> None:
        """Write the reading of a length-prefixed value."""
        is_string = primitive == "string"
        self.read_length("h" if is_string else "i")
        expression = {"string": 'str(buf[pos:stop], "utf-8")', "bytes": "bytes(buf[pos:stop])"}.get(
            primitive, "buf[pos:stop]"
        )
        limit = f" or n > {STRING_SIZE_MAX}" if is_string and self.flexible else ""
        self.emit("stop = pos + n", f"if stop > end or n < 0{limit}:")
        self.null_or_refuse(nullable, name, target)
        self.emit("else:")
        if is_string:
            self.emit(
                f"    if n >= {STRING_BYTES_PER_ELEMENT}:",
                f"        left -= n // {STRING_BYTES_PER_ELEMENT}",
                "        if left < 0:",
                f"            refuse_length({name!r}, n)",
            )
        self.emit(f"    {target} = {expression}", "    pos = stop")

    def null_or_refuse(self, nullable: bool, name: str, target: str) -> None:
        """Write the body of the branch for a length that is not usable."""
        if nullable:
            self.emit("    if n != -1:", f"        refuse_length({name!r}, n)", f"    {target} = None")
        else:
            self.emit(f"    refuse_length({name!r}, n)")

    def one_struct(self, cls: type[Message], nullable: bool, target: str, depth: int) -> None:
        """Write the reading of a struct; one that may be null is behind a presence byte."""
        if nullable:
            self.read("b", "n")
        self.flush()
        if nullable:
            self.emit("if n < 0:", f"    {target} = None", "else:")
            self.indent += 1
        value = self.struct(cls, depth + 1)
        self.emit(f"{target} = {value}")
        self.indent -= nullable

    def array(self, column: Column, name: str, target: str, depth: int) -> None:
        """Write the reading of an array."""
        self.read_length("i")
        element = column._replace(field=column.field._replace(array=False), nullable=False)
        least = size_min(column.struct, self.version) if column.struct else column_size_min(element, self.flexible)
        is_integers = column.primitive in ("int32", "int64")
        is_light = is_integers and not column.field.named
        self.emit("left -= n >> 3" if is_light else "left -= n", f"if n < 0 or n * {least} > end - pos or left < 0:")
        self.null_or_refuse(column.nullable, name, target)
        self.emit(*(["    left += n"] if column.nullable else []), "else:")
        self.indent += 1
        if is_integers:
            self.emit(f"{target} = unpack_{column.primitive}s(buf, pos, n)", f"pos += n * {least}")
        else:
            self.loop(element, name, f"a{depth}", depth)
            self.emit(f"{target} = a{depth}")
        self.indent -= 1

    def loop(self, element: Column, name: str, items: str, depth: int) -> None:
        """Write the reading of ``n`` elements into a new list called `items`."""
        self.emit(f"{items} = []", "for _ in range(n):")
        self.indent += 1
        if element.struct:
            value = self.struct(element.struct, depth + 1)
        else:
            value = f"v{depth}"
            if element.is_fixed:
                self.read(FIXED[element.primitive][0], value)
                self.flush()
                value = f"uuid_of({value})" if element.primitive == "uuid" else value
            else:
                self.bytes_or_string(element.primitive, False, name, value)
        self.emit(f"{items}.append({value})")
        self.indent -= 1

    def tagged_fields(self, tagged: tuple[Column, ...], cls: type[Message], value: str, depth: int) -> None:
        """Write the reading of the tagged fields; their count's first byte is in ``n``."""
        self.emit("if n:")
        self.indent += 1
        if not tagged:
            self.emit("pos = skip_tagged_fields(buf, pos, n)")
        else:
            self.known_tagged_fields(tagged, cls, value, depth)
        self.indent -= 1

    def known_tagged_fields(self, tagged: tuple[Column, ...], cls: type[Message], value: str, depth: int) -> None:
        """Write the loop over tagged fields of which some are known."""
        limit = f"limit{depth}"
        self.emit("if n > 127:", "    n, pos = finish_uvarint(buf, pos, n)", "left -= n")
        self.emit("if left < 0:", f"    raise WireError('{cls.__name__} has too many tagged fields')")
        self.emit("for _ in range(n):")
        self.indent += 1
        for name in ("tag", "n"):
            self.emit(f"{name} = buf[pos]", "pos += 1")
            self.emit(f"if {name} > 127:", f"    {name}, pos = finish_uvarint(buf, pos, {name})")
        self.emit(f"{limit} = pos + n")
        self.emit(f"if {limit} > end:", f"    refuse_length('{cls.__name__} tagged field', n)")
        for position, column in enumerate(tagged):
            self.emit(f"{'el' if position else ''}if tag == {column.field.tag}:")
            self.indent += 1
            self.tagged_value(column, cls, f"{value}.{column.name}", depth)
            self.indent -= 1
        self.emit("else:", f"    pos = {limit}", f"if pos != {limit}:")
        self.emit(f"    raise WireError('{cls.__name__} has a tagged field of the wrong size')")
        self.indent -= 1

    def tagged_value(self, column: Column, cls: type[Message], target: str, depth: int) -> None:
        """Write the reading of one known tagged field."""
        if column.struct is not None and not column.field.array and not column.nullable:
            struct_value = self.struct(column.struct, depth + 1)
            self.emit(f"{target} = {struct_value}")
        else:
            self.column(column, cls, target, depth)
            self.flush()


def decoder_source(cls: type[Message], version: int) -> tuple[str, dict[str, Any]]:
    """The source of ``decode(buf, pos)`` and the globals it needs."""
    source = DecoderSource(cls, version)
    value = source.struct(cls, 0)
    head = ["def decode(buf, pos, left=ELEMENTS_MAX):", "    end = len(buf)", "    try:"]
    tail = [
        f"        return {value}, pos",
        "    except (struct_error, IndexError):",
        f"        raise WireError('{cls.__name__} v{version} ends early') from None",
        "    except UnicodeDecodeError as error:",
        f"        raise WireError(f'{cls.__name__} v{version} holds a string that is not UTF-8: {{error}}') from None",
    ]
    return "\n".join([*head, *source.lines, *tail]), source.names


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """A function ``(buf, pos) -> (message, position behind it)``; `buf` should be a memoryview or bytes."""
    check_version(cls, version)
    text, names = decoder_source(cls, version)
    exec(compile(text, f"<decoder of {cls.__name__} v{version}>", "exec"), names)  # noqa: S102 - written here
    decoder: Decoder = names["decode"]
    return decoder
