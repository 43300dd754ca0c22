"""Formats of durations, topics, partitions and offsets in options, in addition to the kinds of settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar
from warnings import catch_warnings, simplefilter

from minikafka.config.kinds import INT_MAX, LONG_MAX, ConfigType, Kind, choice, long
from minikafka.model import EARLIEST, TopicPartition
from minikafka.spark.options.values import Edge

T = TypeVar("T")

_UNITS_MS: Final = {
    unit: ms
    for units, ms in (
        (("", "ms", "millisecond", "milliseconds"), 1),
        (("s", "sec", "second", "seconds"), 1000),
        (("m", "min", "minute", "minutes"), 60_000),
        (("h", "hour", "hours"), 3_600_000),
        (("d", "day", "days"), 86_400_000),
    )
    for unit in units
}
NOTES: Final = "@"  # prefix of the values in a stream's offsets that are no topics
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_OFFSETS: Final = 'JSON like {"topic":{"0":123,"1":-2}} (-2 is the earliest offset, -1 the latest)'
_TIMESTAMPS: Final = 'JSON like {"topic":{"0":1700000000000}} (milliseconds since 1970)'
_PARTITIONS: Final = 'JSON like {"topic":[0,1]}'


def duration_ms() -> Kind[int]:
    """A duration in Spark's format (``15m``, ``10 seconds``); milliseconds without a unit."""
    allowed = "a length of time such as 500ms, 10s, 15m or 1h"

    def parse(raw: object) -> int:
        match = re.fullmatch(r"\s*([0-9]{1,15})\s*([a-z]*)\s*", str(raw).lower())
        if match is None or match[2] not in _UNITS_MS:
            raise ValueError(allowed)
        return int(match[1]) * _UNITS_MS[match[2]]

    return Kind(ConfigType.LONG, allowed, parse, _duration)


def time_ms() -> Kind[int]:
    """A point in time."""
    allowed = "milliseconds since 1970, a whole number of 0 or more"
    number = long(0)

    def parse(raw: object) -> int:
        try:
            return number.parse(raw)
        except ValueError:
            raise ValueError(allowed) from None

    return Kind(ConfigType.LONG, allowed, parse)


def word(*words: str) -> Kind[str]:
    """One of these words, in upper or lower case."""
    exact = choice(*words)
    return Kind(ConfigType.STRING, exact.allowed, lambda raw: exact.parse(str(raw).lower()))


def anything() -> Kind[str]:
    """Any text, unchanged."""
    return Kind(ConfigType.STRING, "text", str)


def hidden() -> Kind[str]:
    """Any text, which is never printed; it may have several lines, as a key has."""
    return Kind(ConfigType.PASSWORD, "text", str, lambda _value: "(hidden)")


def topic() -> Kind[str]:
    """A topic's name."""
    allowed = "the name of a topic (letters, digits, '.', '_' and '-', at most 249)"

    def parse(raw: object) -> str:
        return _topic(str(raw).strip(), allowed)

    return Kind(ConfigType.STRING, allowed, parse)


def topics() -> Kind[tuple[str, ...]]:
    """Names of topics, separated by commas; repeated names count once."""
    allowed = "topics separated by commas"

    def parse(raw: object) -> tuple[str, ...]:
        names = [name for item in str(raw).split(",") if (name := item.strip())]
        if not names:
            raise ValueError(allowed)
        return tuple(dict.fromkeys(_topic(name, allowed) for name in names))

    return Kind(ConfigType.LIST, allowed, parse, ",".join)


def pattern() -> Kind[str]:
    """A regular expression."""

    def parse(raw: object) -> str:
        try:
            with catch_warnings():
                simplefilter("error", FutureWarning)  # different meaning in Java: [a-z&&[^x]]
                re.compile(str(raw))
        except (re.error, FutureWarning) as error:
            raise ValueError(f"a regular expression: {error}") from None
        if not str(raw).strip():
            raise ValueError("a regular expression that is found in names of topics")
        return str(raw).strip()

    return Kind(ConfigType.STRING, "a regular expression", parse)


def partitions() -> Kind[tuple[TopicPartition, ...]]:
    """``{"topic":[0,1]}``."""

    def parse(raw: object) -> tuple[TopicPartition, ...]:
        found = [
            TopicPartition(name, _number(index, 0, INT_MAX, _PARTITIONS))
            for name, indexes in _topics_of(raw, _PARTITIONS)
            for index in _checked(indexes, list, _PARTITIONS)
        ]
        if not found:
            raise ValueError(_PARTITIONS)
        return tuple(dict.fromkeys(found))

    return Kind(ConfigType.STRING, _PARTITIONS, parse)


def offsets() -> Kind[Edge | dict[TopicPartition, int]]:
    """``earliest``, ``latest``, or an offset for each partition, also in the format of a stream's progress."""
    allowed = f"earliest, latest, or {_OFFSETS}"

    def parse(raw: object) -> Edge | dict[TopicPartition, int]:
        name = str(raw).strip().upper()
        return Edge[name] if name in Edge.__members__ else _by_partition(raw, EARLIEST, allowed)

    return Kind(ConfigType.STRING, allowed, parse, lambda value: value.name.lower() if isinstance(value, Edge) else "")


def timestamps() -> Kind[dict[TopicPartition, int]]:
    """A time for each partition."""
    return Kind(ConfigType.STRING, _TIMESTAMPS, lambda raw: _by_partition(raw, 0, _TIMESTAMPS))


def checked(kind: Kind[T], check: Callable[[T], str]) -> Kind[T]:
    """The same kind with a check, which returns the allowed values, or None for an allowed value."""

    def parse(raw: object) -> T:
        value = kind.parse(raw)
        if problem := check(value):
            raise ValueError(problem)
        return value

    return Kind(kind.config_type, kind.allowed, parse, kind.format)


def _by_partition(raw: object, minimum: int, allowed: str) -> dict[TopicPartition, int]:
    found = {
        TopicPartition(name, _index(index, allowed)): _number(value, minimum, LONG_MAX, allowed)
        for name, values in _topics_of(raw, allowed, notes=NOTES)
        for index, value in _checked(values, dict, allowed).items()
    }
    if not found:
        raise ValueError(allowed)
    return found


def _topics_of(raw: object, allowed: str, notes: str = "") -> Iterator[tuple[str, Any]]:
    try:
        parsed = json.loads(str(raw))
    except (ValueError, RecursionError):
        raise ValueError(allowed) from None
    for name, value in _checked(parsed, dict, allowed).items():
        if notes and name.startswith(notes):
            continue
        yield _topic(name, allowed), value


def _topic(name: str, allowed: str) -> str:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"{allowed}; {name!r} cannot be a topic")
    return name


def _index(text: str, allowed: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(f"{allowed}; {text!r} is no partition")
    return int(text)


def _number(value: object, minimum: int, maximum: int, allowed: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        value = int(value)  # Spark's JSON of timestamps is often written with quotes
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ValueError(f"{allowed}; {value!r} cannot stand there")
    return value


def _checked(value: Any, type_: type[T], allowed: str) -> T:
    if not isinstance(value, type_):
        raise ValueError(allowed)
    return value


def _duration(value_ms: int) -> str:
    for unit, ms in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if value_ms and value_ms % ms == 0:
            return f"{value_ms // ms}{unit}"
    return f"{value_ms}ms"
