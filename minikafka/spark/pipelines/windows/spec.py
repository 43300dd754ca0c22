"""Keys, windows and aggregates, parsed from the words of a command line. Pure.

A *named expression* is Spark SQL with a name for its result: ``sum(json.amount) AS total``. Without ``AS`` the name
comes from the expression's words: ``sum(json.amount)`` is ``sum_amount``, ``count(*)`` is ``count``, ``json.user`` is
``user``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from minikafka.spark.pipelines.running import PipelineError

WINDOW_START: Final = "window_start"
WINDOW_END: Final = "window_end"
COUNT: Final = "count(*) AS count"
DAY_MS: Final = 86_400_000
DURATION_MAX_MS: Final = 36_500 * DAY_MS

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}
_DURATION: Final = re.compile(r"\s*(\d+)\s*(ms|s|m|h|d)\s*")
_ALIAS: Final = re.compile(r"(?P<expression>.*\S)\s+as\s+(?:`(?P<quoted>[^`]+)`|(?P<plain>\w+))\s*", re.I | re.S)
_STRING: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_FIELD: Final = re.compile(r"\bjson\s*\.\s*(?:`([^`]+)`|(\w+))")
_JSON: Final = re.compile(r"(?<![\w.])json\b(?!\s*[.(])")


class Emit(StrEnum):
    """Times of writing results."""

    UPDATE = "update"  # after each batch, every window that changed: the newest of a key counts
    FINAL = "final"  # a window once, when the watermark has passed its end


class Named(NamedTuple):
    """A Spark SQL expression with the name of its result."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Windows:
    """Aggregates of records by key and event-time window; :meth:`parse` makes one from words."""

    keys: tuple[Named, ...]
    aggregates: tuple[Named, ...]
    window_ms: int
    slide_ms: int  # between the starts of two windows; equal to window_ms when they do not overlap
    watermark_ms: int  # wait of a window for late records, by the time of newer ones
    time: str = "timestamp"
    where: str | None = None
    schema: str | None = None  # DDL of the fields of ``json``; None: found in a sample
    emit: Emit = field(default=Emit.UPDATE)

    @classmethod
    def parse(
        cls,
        *,
        window: str,
        key: Iterable[str] = (),
        agg: Iterable[str] = (),
        slide: str | None = None,
        watermark: str = "10s",
        time: str = "timestamp",
        where: str | None = None,
        schema: str | None = None,
        emit: str = Emit.UPDATE,
    ) -> Windows:
        """Windows from words. Raises PipelineError with the option's name on the command line."""
        window_ms = parse_duration(window, "--window", at_least_ms=1)
        slide_ms = window_ms if slide is None else parse_duration(slide, "--slide", at_least_ms=1)
        if slide_ms > window_ms:
            raise PipelineError(f"--slide {slide} is longer than --window {window}: records between would be left out")
        keys = tuple(parse_named(text, "--key") for text in key)
        aggregates = tuple(parse_named(text, "--agg") for text in agg) or (parse_named(COUNT, "--agg"),)
        _check_names(keys, aggregates)
        if emit not in tuple(Emit):
            raise PipelineError(f"--emit {emit}: it is one of {', '.join(Emit)}")
        return cls(
            keys=keys,
            aggregates=aggregates,
            window_ms=window_ms,
            slide_ms=slide_ms,
            watermark_ms=parse_duration(watermark, "--watermark"),
            time=time,
            where=where,
            schema=schema,
            emit=Emit(emit),
        )

    @property
    def words(self) -> Iterator[str]:
        """All Spark SQL in it, without the content of strings."""
        named = (each.expression for each in self.keys + self.aggregates)
        for text in (*named, self.time, self.where or ""):
            yield _STRING.sub("''", text)

    @property
    def reads_json(self) -> bool:
        """True when values must be parsed."""
        return self.schema is not None or any(self.json_fields) or self.reads_whole_json

    @property
    def reads_whole_json(self) -> bool:
        """True when an expression uses ``json`` as a whole, with all fields."""
        return any(_JSON.search(text) for text in self.words)

    @property
    def json_fields(self) -> frozenset[str]:
        """The outermost fields of ``json`` in expressions."""
        return frozenset(quoted or plain for text in self.words for quoted, plain in _FIELD.findall(text))

    @property
    def reads_headers(self) -> bool:
        """True when an expression uses the headers."""
        return any(re.search(r"\bheaders\b", text) for text in self.words)


def parse_duration(text: str, option: str, *, at_least_ms: int = 0) -> int:
    """``500ms``, ``10s``, ``5m``, ``1h``, ``1d`` in milliseconds. Raises PipelineError that names the option."""
    found = _DURATION.fullmatch(text)
    if not found:
        raise PipelineError(f"{option} {text}: a duration is a number with a unit: 500ms, 10s, 5m, 1h, 1d")
    duration_ms = int(found[1]) * _UNITS_MS[found[2]]
    if duration_ms < at_least_ms:
        raise PipelineError(f"{option} {text}: it must be longer than 0")
    if duration_ms > DURATION_MAX_MS:
        raise PipelineError(f"{option} {text}: it must not be longer than {format_duration(DURATION_MAX_MS)}")
    return duration_ms


def format_duration(duration_ms: int) -> str:
    """The shortest words for a duration: 90000 is ``90s``, 3600000 is ``1h``."""
    unit = next(unit for unit, size_ms in reversed(_UNITS_MS.items()) if duration_ms % size_ms == 0)
    return f"{duration_ms // _UNITS_MS[unit]}{unit}" if duration_ms else "0s"


def parse_named(text: str, option: str) -> Named:
    """``EXPR AS NAME`` or ``EXPR``. Raises PipelineError that names the option."""
    if not text.strip():
        raise PipelineError(f"{option} is empty; give a Spark SQL expression, for example {_EXAMPLES[option]!r}")
    if found := _ALIAS.fullmatch(text):
        return Named(found["quoted"] or found["plain"], found["expression"].strip())
    words = re.findall(r"\w+", _STRING.sub(lambda string: string[0][1:-1], text))
    plain = [word for word in words if word not in ("json", "value")] or words
    return Named("_".join(plain) or option.lstrip("-"), text.strip())


_EXAMPLES: Final = {"--key": "json.user", "--agg": "sum(json.amount) AS total"}


def _check_names(keys: tuple[Named, ...], aggregates: tuple[Named, ...]) -> None:
    taken = {WINDOW_START: "every result has it", WINDOW_END: "every result has it"}
    for option, named in [*(("--key", key) for key in keys), *(("--agg", aggregate) for aggregate in aggregates)]:
        if why := taken.get(named.name.lower()):
            raise PipelineError(
                f"{option} {named.expression!r} would be called {named.name}, and so is another: {why}; say {option} "
                f"'{named.expression} AS another_name'"
            )
        taken[named.name.lower()] = f"{option} {named.expression!r}"
