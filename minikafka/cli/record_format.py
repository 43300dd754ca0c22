"""Records as lines: fields as Kafka's console consumer prints them, a format as kcat's, or JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeAlias

import typer

from minikafka.cli.output import json_line, text_or_base64

if TYPE_CHECKING:
    from minikafka.client.records import ConsumerRecord

Line: TypeAlias = "Callable[[ConsumerRecord], bytes]"

NULL: Final = b"null"
FIELDS: Final = ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
"""In the order in which Kafka's console consumer prints them; it has no field for the topic."""

_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN: Final = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_NO_TEXT: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Printed(NamedTuple):
    """What is printed of a record, and between what."""

    fields: frozenset[str] = frozenset({"value"})
    separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    null: bytes = NULL


def print_properties(printed: Printed, properties: Sequence[str]) -> Printed:
    """With the properties of Kafka's console consumer: ``print.key=true``, ``key.separator=:``, ..."""
    for assignment in properties:
        name, is_assignment, value = assignment.partition("=")
        field = name.removeprefix("print.")
        if not is_assignment:
            _refuse("--property", f"{assignment!r} is not NAME=VALUE")
        if name.startswith("print.") and field in FIELDS:
            is_on = value.lower() == "true"
            printed = printed._replace(fields=printed.fields | {field} if is_on else printed.fields - {field})
        elif name == "key.separator":
            printed = printed._replace(separator=unescaped(value))
        elif name == "line.separator":
            printed = printed._replace(line_separator=unescaped(value))
        elif name == "null.literal":
            printed = printed._replace(null=value.encode())
        else:
            known = ", ".join(
                (*(f"print.{each}" for each in FIELDS), "key.separator", "line.separator", "null.literal")
            )
            _refuse("--property", f"{name!r} not found; there are {known}")
    return printed


def fields_line(printed: Printed) -> Line:
    """Lines with these fields, in Kafka's order."""
    if printed.fields == {"value"}:
        return lambda record: (printed.null if record.value is None else record.value) + printed.line_separator
    shown = [_FIELD_BYTES[field] for field in FIELDS if field in printed.fields]

    def line(record: ConsumerRecord) -> bytes:
        return printed.separator.join([field(record, printed.null) for field in shown]) + printed.line_separator

    return line


def format_line(form: str) -> Line:
    """Lines in a format as kcat's: ``%t`` topic, ``%p`` partition, ``%o`` offset, ``%k`` key, ``%s`` value, ..."""
    parts: list[bytes | Callable[[ConsumerRecord, bytes], bytes]] = []
    at = 0
    for found in _TOKEN.finditer(form):
        parts.append(form[at : found.start()].encode())
        at = found.end()
        if found[1] is not None:
            if found[1] not in _TOKENS:
                known = ", ".join(f"%{token}" for token in _TOKENS)
                _refuse("--format", f"%{found[1]} not found; there are {known}")
            parts.append(_TOKENS[found[1]])
        else:
            parts.append(_escape(found[2], found[0]))
    parts.append(form[at:].encode())
    return lambda record: b"".join([part if isinstance(part, bytes) else part(record, NULL) for part in parts])


def record_as_json(record: ConsumerRecord) -> bytes:
    """One line of JSON; bytes that are no text are base64."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
    }
    return json_line(fields)


def unescaped(text: str) -> bytes:
    r"""With ``\t``, ``\n``, ``\x1f`` as what they stand for."""
    return re.sub(rb"\\(x[0-9a-fA-F]{2}|.)", lambda found: _escape(found[1].decode(), found[0].decode()), text.encode())


def for_a_terminal(line: bytes) -> bytes:
    r"""The line with ``\xff`` for a byte that is no text, and ``\x1b`` for a control character: no escape sequences."""
    text = line.decode(errors="surrogateescape")
    return _NO_TEXT.sub(_in_letters, text).encode()


def _in_letters(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]) & 0xFF:02x}"


def _escape(letters: str, written: str) -> bytes:
    if len(letters) == 3:
        return bytes([int(letters[1:], 16)])
    return _ESCAPES.get(letters, written.encode())


def _header_bytes(record: ConsumerRecord, null: bytes) -> bytes:
    pairs = [
        name.encode(errors="surrogateescape") + b":" + (null if value is None else value)
        for name, value in record.headers
    ]
    return b",".join(pairs)


def _number(value: int) -> bytes:
    return b"%d" % value


_FIELD_BYTES: Final[Mapping[str, Callable[[ConsumerRecord, bytes], bytes]]] = {
    "timestamp": lambda record, null: b"CreateTime:%d" % record.timestamp,
    "partition": lambda record, null: b"Partition:%d" % record.partition,
    "offset": lambda record, null: b"Offset:%d" % record.offset,
    "epoch": lambda record, null: b"Epoch:%d" % record.leader_epoch,
    "headers": lambda record, null: _header_bytes(record, null) or b"NO_HEADERS",
    "key": lambda record, null: null if record.key is None else record.key,
    "value": lambda record, null: null if record.value is None else record.value,
}
_TOKENS: Final[Mapping[str, Callable[[ConsumerRecord, bytes], bytes]]] = {
    "t": lambda record, null: record.topic.encode(),
    "p": lambda record, null: _number(record.partition),
    "o": lambda record, null: _number(record.offset),
    "k": _FIELD_BYTES["key"],
    "s": _FIELD_BYTES["value"],
    "h": _header_bytes,
    "T": lambda record, null: _number(record.timestamp),
    "K": lambda record, null: _number(-1 if record.key is None else len(record.key)),
    "S": lambda record, null: _number(-1 if record.value is None else len(record.value)),
    "%": lambda record, null: b"%",
}


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)
