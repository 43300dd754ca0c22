"""How verbs print: tables for people, JSON for scripts, one line for an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

_WIDEST: Final = 1000  # characters in a row of a table


def print_line(text: str) -> None:
    """One plain line to stdout; what is no character, in a name that was given, is escaped."""
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def print_json(value: Any) -> None:
    """One JSON document to stdout."""
    print_line(json.dumps(value, indent=2))


def json_line(value: Any) -> bytes:
    """One JSON document as one line of UTF-8; bytes that were no text, in the name of a header, are escaped."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def print_json_line(value: Any) -> None:
    """One JSON document on one line to stdout."""
    sys.stdout.write(json_line(value).decode())


def text_or_base64(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes for JSON: text as text; what is not UTF-8 as ``{"base64": ...}``."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(data).decode()}


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table to stdout; a column whose name ends in ``#`` is aligned to the right. Cells may have rich markup.

    A row is a line, whatever the width of the terminal: half words in narrow columns tell nobody anything.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.rstrip("#"), justify="right" if column.endswith("#") else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(width=_WIDEST)
    console.width = console.measure(table).maximum
    console.print(table)


def print_note(text: str) -> None:
    """One line to stderr, beside the data on stdout."""
    sys.stderr.write(text + "\n")


def fail(message: str) -> NoReturn:
    """Say what went wrong and exit with 1."""
    sys.stderr.write(f"minikafka: {message}\n")
    raise SystemExit(1)


def size(count: float) -> str:
    """Bytes as a person reads them: ``512 B``, ``1.5 KiB``, ``23 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")
