"""How verbs print: tables for people, JSON for scripts, one line for an error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from minikafka.event_log import without_controls

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WIDEST: Final = 1000  # of tables that another program reads: a row stays a line
_LONG_WORD: Final = 16  # a name that is longer, of a topic for example, may break
_GAP: Final = 2  # spaces between columns


def print_line(text: str) -> None:
    """One plain line to stdout; what is no character, or a control character, in a name that was given, is escaped."""
    sys.stdout.write(without_controls(text).encode("utf-8", "backslashreplace").decode() + "\n")


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
    """A table to stdout; a column whose name ends in ``#`` is aligned to the right. Cells may have rich markup; names
    that somebody else chose are :func:`escaped`.

    Cells break between words to fit a terminal, and then long names do; numbers and their units never. Where that is
    not enough each row becomes a list of names and cells. A column with neither a name nor a cell is left out.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    kept = [i for i, column in enumerate(columns) if column or any(row[i] for row in rows)]
    names = [columns[i].rstrip("#") for i in kept]
    is_right = [columns[i].endswith("#") for i in kept]
    cells = [[Text.from_markup(without_controls(row[i])) for i in kept] for row in rows]
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDEST
    texts = [[name, *(row[i].plain for row in cells)] for i, name in enumerate(names)]
    least = [_least(column, is_number=right) for column, right in zip(texts, is_right, strict=True)]
    widths = _widths(texts, least, is_right, console.width - _GAP * (len(names) - 1))
    if widths is None:
        _print_lists(console, names, cells)
        return
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for name, right, width in zip(names, is_right, widths, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold", width=width)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def teller(*, on_stderr: bool) -> Console:
    """A console for what a verb tells while it works, beside JSON on stderr. Where it is no terminal a sentence is one
    line: commands and paths in it are copied, and looked for."""
    from rich.console import Console

    console = Console(stderr=on_stderr, highlight=False)
    console.soft_wrap = not console.is_terminal  # there a display below the lines needs to know how many they are
    return console


def escaped(name: str) -> str:
    """A name as a cell of a table, in which brackets mean something."""
    from rich.markup import escape

    return escape(name)


def _least(texts: Sequence[str], *, is_number: bool) -> int:
    """The width of a column's longest text that does not break: a word of it, or a number with its unit."""
    from rich.cells import cell_len

    name, *cells = texts
    whole = [*name.split(), *(cells if is_number else " ".join(cells).split())]
    return max(map(cell_len, whole), default=0)


def _widths(
    columns: Sequence[Sequence[str]], least: Sequence[int], are_numbers: Sequence[bool], room: int
) -> list[int] | None:
    """The widths of columns with these texts: natural, or less from the widest on until all fits; None if it cannot."""
    from rich.cells import cell_len

    widths = [max(cell_len(line) for text in texts for line in text.split("\n")) for texts in columns]
    if sum(least) > room:
        least = [
            width if is_number else min(width, _LONG_WORD) for width, is_number in zip(least, are_numbers, strict=True)
        ]
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _print_lists(console: Console, names: Sequence[str], rows: Iterable[Sequence[Text]]) -> None:
    """Each row as ``name cell  name cell``, in as many lines as it takes; the later ones are indented."""
    from rich.text import Text

    for row in rows:
        line = Text()
        for i, (name, cell) in enumerate(zip(names, row, strict=True)):
            if not cell:
                continue
            words = " ".join(name.replace("-\n", "-").split())
            pair = Text.assemble(" " * _GAP if i else "", (words, "bold"), " " if words else "", cell)
            if line and line.cell_len + pair.cell_len > console.width:
                console.print(line)
                line = Text()
            line.append_text(pair)
        console.print(line)


def print_note(text: str) -> None:
    """One line to stderr, beside the data on stdout."""
    sys.stderr.write(without_controls(text) + "\n")


def fail(message: str) -> NoReturn:
    """Say what went wrong and exit with 1."""
    sys.stderr.write(f"minikafka: {without_controls(message)}\n")
    raise SystemExit(1)


def size(count: float) -> str:
    """Bytes as a person reads them: ``512 B``, ``1.5 KiB``, ``23 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def duration(ms: float) -> str:
    """A time span as a person reads it: ``250 ms``, ``34 s``, ``5 min``, ``2.5 h``, ``3.0 d``."""
    if ms < 1000:
        return f"{max(ms, 0):.0f} ms"
    for unit, in_seconds, until in (("s", 1, 120), ("min", 60, 120 * 60), ("h", 3600, 48 * 3600)):
        if ms < until * 1000:
            count = ms / 1000 / in_seconds
            return f"{count:.0f} {unit}" if count >= 10 or count == int(count) else f"{count:.1f} {unit}"
    return f"{ms / 86_400_000:.1f} d"


def moment(timestamp_ms: int) -> str:
    """A wall-clock time in UTC: ``2026-01-31T12:00:00.123+00:00``."""
    from datetime import UTC, datetime

    if timestamp_ms < 0:
        return "no time"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        return f"{timestamp_ms} ms"
