"""Says which field keeps a message from being encoded. Runs only after an encoder has failed, so it may be slow."""

from __future__ import annotations

from collections.abc import Iterator
from struct import error as struct_error
from struct import pack
from typing import Any
from uuid import UUID

from minikafka.wire.layout import FIXED, Column, layout_of
from minikafka.wire.primitives import STRING_SIZE_MAX
from minikafka.wire.schema import NO_TAG, Message


def explain(message: Message, version: int) -> str:
    """A sentence that names the first unusable field, or "" when none is found."""
    for path, complaint in _message_complaints(message, version):
        return f"{type(message).__name__} v{version} cannot be encoded: {path} {complaint}"
    return ""


def _message_complaints(message: Message, version: int, path: str = "") -> Iterator[tuple[str, str]]:
    layout = layout_of(type(message), version)
    for column in (*layout.columns, *layout.tagged):
        yield from _column_complaints(column, getattr(message, column.name), version, path + column.name)


def _column_complaints(column: Column, value: Any, version: int, path: str) -> Iterator[tuple[str, str]]:
    absent_is_none = column.field.tag != NO_TAG and column.struct is not None and column.field.default is None
    may_be_null = column.nullable or absent_is_none
    if value is None:
        if not may_be_null:
            yield path, "must not be null"
    elif column.field.array:
        element = column._replace(field=column.field._replace(array=False, tag=NO_TAG), nullable=False)
        for index, item in enumerate(value):
            yield from _column_complaints(element, item, version, f"{path}[{index}]")
    elif column.struct is not None:
        if isinstance(value, column.struct):
            yield from _message_complaints(value, version, path + ".")
        else:
            yield path, f"is not a {column.struct.__name__} but {value!r}"
    else:
        yield from _primitive_complaints(column.primitive, value, path)


def _primitive_complaints(primitive: str, value: Any, path: str) -> Iterator[tuple[str, str]]:
    try:
        if primitive == "string":
            if len(value.encode()) > STRING_SIZE_MAX:
                yield path, f"is longer than {STRING_SIZE_MAX} bytes"
        elif primitive == "uuid":
            if not isinstance(value, UUID):
                yield path, f"is not a UUID but {value!r}"
        elif primitive in FIXED:
            pack(">" + FIXED[primitive][0], value)
        else:
            b"".join((value,))
    except (struct_error, AttributeError, TypeError, UnicodeEncodeError) as error:
        yield path, f"is {value!r:.100}: {error}"
