"""The row of a declared option, and the parser of options."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

from minikafka.config.kinds import ConfigType, Kind


class OptionError(ValueError):
    """An invalid option: its name, the defect, the remedy. One line."""


class Side(Flag):
    """The places where an option has a meaning."""

    BATCH_SOURCE = auto()
    STREAM_SOURCE = auto()
    SINK = auto()
    SOURCE = BATCH_SOURCE | STREAM_SOURCE
    BOTH = SOURCE | SINK


@dataclass(frozen=True, slots=True)
class Option:
    """The row of an option. ``refusal``: the option is known but not supported; the text says what to do instead.

    ``kind`` is None for an option that is accepted with any value and has no effect.
    """

    name: str
    kind: Kind[Any] | None
    default: Any
    side: Side
    doc: str
    refusal: str = ""

    @property
    def default_shown(self) -> str:
        """The default in the user's notation; empty without one."""
        return "" if self.kind is None or self.default is None else self.kind.format(self.default)


def parse_options(rows: Mapping[str, Option], given: Mapping[str, str], side: Side) -> dict[str, Any]:
    """Values by the rows' names, including defaults. ``rows`` are by lower-case name; given names may have any case.

    Raises OptionError for the first option, in alphabetical order, that is unknown, out of place or malformed.
    """
    values = {row.name: row.default for row in rows.values() if row.kind is not None}
    for name in sorted(given, key=str.lower):
        row = rows.get(name.lower())
        if row is None:
            raise OptionError(f"option '{name}' not found{_hint(name, rows.values())}")
        _check_place(row, side)
        if row.kind is not None:
            values[row.name] = parse_value(row, given[name])
    return values


def parse_value(row: Option, raw: str) -> Any:
    """The parsed value. Raises OptionError with the allowed values."""
    assert row.kind is not None
    try:
        return row.kind.parse(raw)
    except ValueError as error:
        shown = "(hidden)" if row.kind.config_type is ConfigType.PASSWORD else _shown(raw)
        raise OptionError(f"option '{row.name}' is {shown}; it must be {error}") from None


def _check_place(row: Option, side: Side) -> None:
    if row.refusal:
        raise OptionError(f"option '{row.name}' cannot be used: {row.refusal}")
    if not row.side & side and not row.name.startswith("kafka."):  # a client's settings may be shared by both sides
        raise OptionError(f"option '{row.name}' {_BELONGS[_home(row.side)]}; remove it")


def _home(side: Side) -> Side:
    return Side.SOURCE if side & Side.SOURCE == Side.SOURCE else side


_BELONGS = {
    Side.SINK: "is one of writing, not of reading",
    Side.SOURCE: "is one of reading, not of writing",
    Side.STREAM_SOURCE: "is one of streaming queries (readStream)",
    Side.BATCH_SOURCE: "is one of batch queries (read): a stream has no end",
}


def _hint(name: str, rows: Iterable[Option]) -> str:
    known = {row.name.lower(): row.name for row in rows if not row.refusal}
    if f"kafka.{name.lower()}" in known:
        return f"; did you mean 'kafka.{name}'? Settings of the client begin with 'kafka.'"
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    if near:
        return f"; did you mean '{known[near[0]]}'?"
    return "; docs/spark-options.md lists all of them"


def _shown(raw: str) -> str:
    return repr(raw if len(raw) <= 100 else raw[:97] + "...")
