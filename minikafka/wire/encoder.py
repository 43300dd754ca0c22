"""Compiles an encoder for one message class in one version.

The encoder is one Python function: it appends pieces to a list and joins them. Neighbouring fields of fixed size,
together with the length in front of the next field, become one ``struct.pack``. Tagged fields are written only when
they differ from their default. Fields that the version does not have are dropped.

Two variations serve the hot path (:mod:`minikafka.wire.hot`): with `segmented` the records of a response are not joined
into it but left as they are, so that they can be sent from a file; with `encoded` the elements of one array field are
bytes already.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Any, Final

from minikafka.wire.diagnosis import explain
from minikafka.wire.errors import WireError
from minikafka.wire.layout import FIXED, Column, check_version, is_flexible, layout_of
from minikafka.wire.primitives import (
    SMALL_UVARINTS,
    STRING_SIZE_MAX,
    encode_uvarint,
    pack_int32s,
    pack_int64s,
    tag_header,
)
from minikafka.wire.schema import EMPTY, Message, RecordsSlot

INLINE_MAX: Final = 4096
"""Records of up to this many bytes are joined into their response even when it is segmented."""

Encoder = Callable[[Any], Any]


class EncoderSource:
    """Writes the source of an encoder, line by line."""

    def __init__(self, cls: type[Message], version: int, segmented: bool = False, encoded: str = "") -> None:
        self.version = version
        self.segmented = segmented
        self.encoded = encoded
        self.flexible = is_flexible(cls, version)
        self.lines: list[str] = []
        self.indent = 2
        self.run: list[tuple[str, str]] = []  # fixed-size values not yet written: (format, expression)
        self.sink = "add"
        self.counter = 0
        self.names: dict[str, Any] = {
            "INLINE_MAX": INLINE_MAX,
            "RecordsSlot": RecordsSlot,
            "SMALL": SMALL_UVARINTS,
            "WireError": WireError,
            "encode_uvarint": encode_uvarint,
            "explain": explain,
            "pack_int32s": pack_int32s,
            "pack_int64s": pack_int64s,
            "struct_error": struct_error,
        }

    def emit(self, *lines: str) -> None:
        """Add lines at the current indentation."""
        self.lines += ["    " * self.indent + line for line in lines]

    def fresh(self, prefix: str) -> str:
        """A new local name."""
        self.counter += 1
        return f"{prefix}{self.counter}"

    # runs of fixed-size values

    def write(self, format: str, expression: str = "") -> None:
        """Write one fixed-size value, later, together with its neighbours; format ``x`` is a zero byte."""
        self.run.append((format, expression))

    def flush(self) -> None:
        """Write the pending values as one pack."""
        if not self.run:
            return
        if all(format == "x" for format, _ in self.run):
            self.emit(f"{self.sink}({bytes(len(self.run))!r})")
        else:
            layout = Struct(">" + "".join(format for format, _ in self.run))
            pack = f"pack_{layout.format[1:].replace('?', 'Z')}"
            self.names[pack] = layout.pack
            values = ", ".join(expression for _, expression in self.run if expression)
            self.emit(f"{self.sink}({pack}({values}))")
        self.run = []

    def write_length(self, format: str, length: str) -> None:
        """Write the length (or count) held by the local `length`; -1 is null."""
        if not self.flexible:
            self.write(format, length)
            self.flush()
            return
        self.flush()
        if length.lstrip("-").isdigit():
            self.emit(f"{self.sink}({encode_uvarint(int(length) + 1)!r})")
        else:
            self.emit(f"{self.sink}(SMALL[{length} + 1] if {length} < 127 else encode_uvarint({length} + 1))")

    # fields

    def struct(self, cls: type[Message], value: str) -> None:
        """Write the writing of the struct held by the local `value`."""
        layout = layout_of(cls, self.version)
        for column in layout.columns:
            self.column(column, f"{value}.{column.name}")
        if layout.tagged:
            self.flush()
            self.tagged_fields(layout.tagged, value)
        elif self.flexible:
            self.write("x")

    def column(self, column: Column, source: str) -> None:
        """Write the writing of one field."""
        if column.field.array:
            self.array(column, source)
        elif column.struct is not None:
            self.one_struct(column.struct, column.nullable, source)
        elif column.is_fixed:
            suffix = ".bytes" if column.primitive == "uuid" else ""
            self.write(FIXED[column.primitive][0], source + suffix)
        else:
            self.bytes_or_string(column.primitive, column.nullable, source)

    def bytes_or_string(self, primitive: str, nullable: bool, source: str) -> None:
        """Write the writing of a length-prefixed value."""
        value, length = self.fresh("s"), self.fresh("n")
        if nullable:
            self.emit(f"if {source} is None:", f"    {value} = b''", f"    {length} = -1", "else:")
            self.indent += 1
        self.emit(f"{value} = {source}.encode()" if primitive == "string" else f"{value} = {source}")
        self.emit(f"{length} = len({value})")
        if primitive == "string" and self.flexible:
            self.emit(f"if {length} > {STRING_SIZE_MAX}:", "    raise TypeError('a string is too long')")
        if nullable:
            self.indent -= 1
        self.write_length("h" if primitive == "string" else "i", length)
        if primitive == "records" and self.segmented:
            self.emit(f"if type({value}) is RecordsSlot or {length} > INLINE_MAX:")
            self.emit(
                f"    if {length}:", f"        segments += b''.join(out), {value}", "        out.clear()", "else:"
            )
            self.emit(f"    {self.sink}({value})")
        else:
            self.emit(f"{self.sink}({value})")

    def one_struct(self, cls: type[Message], nullable: bool, source: str) -> None:
        """Write the writing of a struct; one that may be null is behind a presence byte."""
        self.flush()
        value = self.fresh("m")
        self.emit(f"{value} = {source}")
        if nullable:
            self.emit(f"if {value} is None:", f"    {self.sink}(b'\\xff')", "else:")
            self.indent += 1
            self.write("b", "1")
        self.struct(cls, value)
        self.flush()
        if nullable:
            self.indent -= 1

    def array(self, column: Column, source: str) -> None:
        """Write the writing of an array."""
        items, length = self.fresh("a"), self.fresh("n")
        self.emit(f"{items} = {source}")
        if column.nullable:
            self.emit(f"if {items} is None:", f"    {length} = -1", f"    {items} = ()")
            self.emit("else:", f"    {length} = len({items})")
        else:
            self.emit(f"{length} = len({items})")
        self.write_length("i", length)
        if column.name == self.encoded:
            self.emit(f"out += {items}")
        elif column.primitive in ("int32", "int64"):
            self.emit(f"{self.sink}(pack_{column.primitive}s({items}))")
        else:
            self.loop(column, items)

    def loop(self, column: Column, items: str) -> None:
        """Write the loop over the elements of an array."""
        value = self.fresh("m")
        self.emit(f"for {value} in {items}:")
        self.indent += 1
        if column.struct is not None:
            self.struct(column.struct, value)
        else:
            element = column._replace(field=column.field._replace(array=False), nullable=False)
            self.column(element, value)
        self.flush()
        self.indent -= 1

    # tagged fields

    def tagged_fields(self, tagged: tuple[Column, ...], value: str) -> None:
        """Write the tagged fields that differ from their default."""
        plain = " and ".join(f"not ({self.differs(column, f'{value}.{column.name}')})" for column in tagged)
        self.emit(f"if {plain}:", f"    {self.sink}(b'\\0')", "else:")
        self.indent += 1
        count = " + ".join(f"({self.differs(column, f'{value}.{column.name}')})" for column in tagged)
        self.emit(f"{self.sink}(SMALL[{count}])")
        for column in tagged:
            self.emit(f"if {self.differs(column, f'{value}.{column.name}')}:")
            self.indent += 1
            self.tagged_value(column, f"{value}.{column.name}")
            self.indent -= 1
        self.indent -= 1

    def differs(self, column: Column, source: str) -> str:
        """A boolean expression: the field is not at its default."""
        default = column.field.default
        if default is EMPTY:
            return f"{source} is None or len({source}) > 0"
        if default is None:
            return f"{source} is not None"
        if isinstance(default, (bool, int, float, str, bytes)):
            return f"{source} != {default!r}"
        self.names["ZERO_UUID"] = default
        return f"{source} is not ZERO_UUID and {source} != ZERO_UUID"  # UUIDs compare in Python

    def tagged_value(self, column: Column, source: str) -> None:
        """Write tag, size and value of one tagged field: the value is collected aside because its size comes first."""
        if column.is_fixed:
            header = tag_header(column.field.tag, FIXED[column.primitive][1])
            self.emit(f"{self.sink}({header!r})")
            self.column(column, source)
            self.flush()
            return
        outer, pieces, self.sink = self.sink, self.fresh("p"), self.fresh("add")
        self.emit(f"{pieces} = []", f"{self.sink} = {pieces}.append")
        if column.struct is not None and not column.field.array and not column.nullable:
            value = self.fresh("m")
            self.emit(f"{value} = {source}")
            self.struct(column.struct, value)
        else:
            self.column(column, source)
        self.flush()
        self.sink = outer
        self.emit(f"{pieces} = b''.join({pieces})")
        size = f"len({pieces})"
        self.emit(
            f"{outer}({encode_uvarint(column.field.tag)!r})",
            f"{outer}(SMALL[{size}] if {size} < 128 else encode_uvarint({size}))",
            f"{outer}({pieces})",
        )


def encoder_source(
    cls: type[Message], version: int, segmented: bool = False, encoded: str = ""
) -> tuple[str, dict[str, Any]]:
    """The source of ``encode(m)`` and the globals it needs."""
    source = EncoderSource(cls, version, segmented, encoded)
    source.struct(cls, "m")
    source.flush()
    head = ["def encode(m):", "    segments, out = [], []", "    add = out.append", "    try:"]
    last = ["segments.append(b''.join(out))", "return segments"] if segmented else ["return b''.join(out)"]
    tail = [
        *("        " + line for line in last),
        "    except (struct_error, AttributeError, TypeError, UnicodeEncodeError) as error:",
        f"        raise WireError(explain(m, {version}) or str(error)) from error",
    ]
    return "\n".join([*head, *source.lines, *tail]), source.names


def compile_encoder(cls: type[Message], version: int, segmented: bool = False, encoded: str = "") -> Encoder:
    """A function ``message -> bytes``, or ``message -> list of segments`` when `segmented`.

    The array field of `cls` that `encoded` names is taken to hold encoded elements.
    """
    check_version(cls, version)
    text, names = encoder_source(cls, version, segmented, encoded)
    exec(compile(text, f"<encoder of {cls.__name__} v{version}>", "exec"), names)  # noqa: S102 - written here
    encoder: Encoder = names["encode"]
    return encoder
