"""Lines of CSV and JSON -> records to write. Errors name file and line.

Files whose name ends in ``.gz`` are decompressed.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

_TEXT_MAX: Final = 60
_FIELD_MAX: Final = 2**31 - 1
_TIMESTAMP_MAX_MS: Final = (2**63 - 1) // 1000  # the largest time in microseconds
_PARTITION_MAX: Final = 2**31 - 1


class Record(NamedTuple):
    """One row of a file, as a record to write."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None
    timestamp_ms: int | None = None
    partition: int | None = None


Parse: TypeAlias = Callable[[str], Record]


def read_records(path: str, kind: str, key: str | None, value: str | None) -> Iterator[Record]:
    """The rows of a file, in order. Raises ValueError, naming the line, for a malformed one."""
    if kind == "csv":
        yield from _csv_records(path, key, value)
        return
    parse = _record_of_consume if kind == "records" else _parser(key, value)
    for number, line in enumerate(_lines(path), 1):
        text = line.rstrip("\r\n")
        if text:
            try:
                yield parse(text)
            except (ValueError, RecursionError) as error:
                what = f"{error.msg} at character {error.colno}" if isinstance(error, json.JSONDecodeError) else error
                raise ValueError(f"{path}, line {number}: {what}: {text[:_TEXT_MAX]}") from None


def _lines(path: str) -> Iterator[str]:
    """The lines of a file, with their line ends. Raises ValueError, naming the line, for bytes that are no text."""
    number = 0
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                yield line.decode("utf-8" if number > 1 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, line {number}: not UTF-8 text: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read behind line {number}: {error}") from None


def _csv_records(path: str, key: str | None, value: str | None) -> Iterator[Record]:
    csv.field_size_limit(_FIELD_MAX)
    rows = csv.reader(_lines(path), strict=True)
    try:
        names = next(rows, [])
        of_key, of_value = (None if column is None else _place(path, names, column) for column in (key, value))
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f"{path} has two columns {twice[0]!r}; rename one")
        for row in filter(None, rows):
            if len(row) != len(names):
                where = f"{path}, line {rows.line_num}"
                raise ValueError(f"{where}: {len(row)} fields, but the header line has {len(names)}")
            yield Record(
                None if of_key is None else row[of_key].encode(),
                _json(dict(zip(names, row, strict=True))) if of_value is None else row[of_value].encode(),
            )
    except csv.Error as error:
        raise ValueError(f"{path}, line {rows.line_num}: {error}") from None


def _place(path: str, names: list[str], column: str) -> int:
    if column not in names:
        raise ValueError(f"column {column!r} not found in {path}; its columns are {', '.join(names)}")
    return names.index(column)


def _parser(key: str | None, value: str | None) -> Parse:
    """A line of JSON; the value is the whole line, or a field of it."""

    def parse(line: str) -> Record:
        fields = _object(line)
        of_key = None if key is None else _as_bytes(_field(fields, key))
        return Record(of_key, line.encode() if value is None else _as_bytes(_field(fields, value)))

    return parse


def _object(line: str) -> dict[str, Any]:
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    return fields


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise ValueError(f"field {name!r} not found")
    return fields[name]


def _as_bytes(found: Any) -> bytes | None:
    """Text unchanged, null as null, other values as JSON."""
    if found is None:
        return None
    return found.encode() if isinstance(found, str) else _json(found)


def _record_of_consume(line: str) -> Record:
    """A line of ``minikafka consume --json``."""
    fields = _object(line)
    return Record(
        _text_or_base64(fields.get("key")),
        _text_or_base64(_field(fields, "value")),
        [_header(each) for each in fields.get("headers") or ()],
        _whole(fields, "timestamp", -_TIMESTAMP_MAX_MS, _TIMESTAMP_MAX_MS),
        _whole(fields, "partition", 0, _PARTITION_MAX),
    )


def _header(found: Any) -> tuple[str, bytes | None]:
    if not (isinstance(found, list) and len(found) == 2 and isinstance(found[0], str)):
        raise ValueError(f"a header is a list of a name and a value, not {found!r}")
    found[0].encode()  # a ValueError for bytes that were no text
    return found[0], _text_or_base64(found[1])


def _whole(fields: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    found = fields.get(name)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise ValueError(f"the field {name!r} is {found!r}, which cannot be one")
    return found


def _text_or_base64(found: Any) -> bytes | None:
    if found is None:
        return None
    if isinstance(found, str):
        return found.encode()
    if isinstance(found, dict) and isinstance(found.get("base64"), str):
        return b64decode(found["base64"], validate=True)
    raise ValueError(f'{found!r} is neither text nor {{"base64": ...}}')


def _json(found: Any) -> bytes:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
