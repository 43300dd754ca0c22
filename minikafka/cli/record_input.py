"""Lines as records: values with keys and headers before them, as for Kafka's console producer, or JSON objects."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import typer

from minikafka.cli.lines import LineError, split_key
from minikafka.cli.record_format import unescaped

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

_FIELDS: Final = frozenset(("topic", "partition", "offset", "timestamp", "key", "value", "headers"))
"""Of an object; ``topic`` and ``offset`` are where it came from, and do not count."""

_SHOWN: Final = 60  # bytes of a line that is wrong


class InputRecord(NamedTuple):
    """A record to be. ``partition`` and ``timestamp_ms`` are None where it does not say."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


Parse: TypeAlias = Callable[[bytes, int], InputRecord]
"""A record of a line and its number. Raises LineError."""


class LineForm(NamedTuple):
    """What is in a line, in this order: headers, key, value. No separator: no such part."""

    key_separator: bytes | None = None
    headers_delimiter: bytes | None = None
    """Behind the headers."""
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null: bytes | None = None
    """What stands for null, as key, value or value of a header."""

    def parse(self, line: bytes, number: int) -> InputRecord:
        """The record of a line."""
        headers: Headers = ()
        if self.headers_delimiter is not None:
            words, found, line = line.partition(self.headers_delimiter)
            if not found:
                _refuse_line(number, f"has no headers delimiter {_shown(self.headers_delimiter)}", words)
            headers = self._headers(words, number)
        key, value = split_key(line, self.key_separator, number)
        return InputRecord(self._or_null(key), self._or_null(value), headers)

    def _headers(self, words: bytes, number: int) -> Headers:
        if not words or words == self.null:
            return ()
        found = []
        for word in words.split(self.headers_separator):
            name, is_pair, value = word.partition(self.headers_key_separator)
            if not is_pair:
                _refuse_line(number, f"has a header without {_shown(self.headers_key_separator)}", word)
            found.append((name.decode(errors="surrogateescape"), self._or_null(value)))
        return tuple(found)

    def _or_null(self, part: bytes | None) -> bytes | None:
        return None if self.null is not None and part == self.null else part


def reader_properties(form: LineForm, properties: Sequence[str]) -> LineForm:
    """With the properties of Kafka's console producer: ``parse.key=true``, ``key.separator=,``, ..."""
    given = {}
    for assignment in properties:
        name, is_assignment, value = assignment.partition("=")
        if not is_assignment:
            _refuse("--property", f"{assignment!r} is not NAME=VALUE")
        given[name] = value
    key_separator, delimiter = (unescaped(given.pop(name, "\\t")) for name in ("key.separator", "headers.delimiter"))
    if given.pop("parse.key", "false").lower() == "true":
        form = form._replace(key_separator=form.key_separator or key_separator)
    if given.pop("parse.headers", "false").lower() == "true":
        form = form._replace(headers_delimiter=delimiter)
    if "headers.separator" in given:
        form = form._replace(headers_separator=unescaped(given.pop("headers.separator")))
    if "headers.key.separator" in given:
        form = form._replace(headers_key_separator=unescaped(given.pop("headers.key.separator")))
    if "null.marker" in given:
        form = form._replace(null=given.pop("null.marker").encode())
    if given:
        known = "parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, headers.key.separator"
        _refuse("--property", f"{next(iter(given))!r} not found; there are {known}, null.marker")
    return form


def parse_json(line: bytes, number: int) -> InputRecord:
    """The record of a JSON object, as ``consume --json`` prints it; what it does not have is null."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        _refuse_line(number, f"is no JSON ({error})", line)
    if not isinstance(fields, dict) or not fields.keys() <= _FIELDS:
        _refuse_line(number, f"is no object with fields of {', '.join(sorted(_FIELDS))} only", line)
    try:
        pairs = fields.get("headers") or []
        headers = tuple((name, _bytes(value)) for name, value in (pairs.items() if isinstance(pairs, dict) else pairs))
        if not all(isinstance(name, str) for name, _ in headers):
            raise ValueError("a header's name is no text")
        whole = [fields.get("timestamp"), fields.get("partition")]
        if any(each is not None and (type(each) is not int or each < 0) for each in whole):
            raise ValueError("timestamp and partition are whole numbers, 0 or more")
        return InputRecord(_bytes(fields.get("key")), _bytes(fields.get("value")), headers, *whole)
    except (ValueError, TypeError) as error:
        _refuse_line(number, f"cannot be a record ({error})", line)


def parse_header(word: str) -> tuple[str, bytes]:
    """``NAME=VALUE``, or ``NAME:VALUE`` as kcat has it."""
    name, separator, value = word.partition("=" if "=" in word else ":")
    if not separator or not name:
        _refuse("--header", f"{word!r} is not NAME=VALUE")
    return name, value.encode()


def _bytes(value: Any) -> bytes | None:
    """Text as UTF-8, ``{"base64": ...}`` as what it stands for, anything else as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return b64decode(value["base64"], validate=True)
        except Base64Error as error:
            raise ValueError(f"base64: {error}") from None
    return json.dumps(value, ensure_ascii=False).encode()


def _shown(separator: bytes) -> str:
    return repr(separator.decode(errors="replace"))


def _refuse_line(number: int, reason: str, line: bytes) -> NoReturn:
    raise LineError(f"line {number} {reason}: {line[:_SHOWN]!r}")


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)
