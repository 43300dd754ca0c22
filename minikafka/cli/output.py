"""How verbs print: tables for people, JSON for scripts, one line for an error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

_WIDEST: Final = 1000  # of tables that another program reads: a row stays a line
_LONG_WORD: Final = 16  # a name that is longer, of a topic for example, may break
_SPACES_PER_COLUMN: Final = 3  # the padding of cells, and the line between columns that this box does not draw


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

    Cells break between words to fit a terminal. Where that is not enough long names break, too; short words never do.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.rstrip("#"), justify="right" if column.endswith("#") else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDEST
    texts = [
        [column.rstrip("#"), *(Text.from_markup(row[i]).plain for row in rows)] for i, column in enumerate(columns)
    ]
    spaces = len(columns) * _SPACES_PER_COLUMN + 1
    widths = _widths(texts, console.width - spaces)
    for each, width in zip(table.columns, widths, strict=True):
        each.width = width
    console.width = max(console.width, sum(widths) + spaces)
    console.print(table)


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """The widths of columns with these texts: natural, or less from the widest on until all fits, but short words."""
    from rich.cells import cell_len

    widths = [max(cell_len(line) for text in texts for line in text.split("\n")) for texts in columns]
    least = [max((cell_len(word) for text in texts for word in text.split()), default=0) for texts in columns]
    if sum(least) > room:
        least = [min(width, _LONG_WORD) for width in least]
    while sum(widths) > room and widths != least:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


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
