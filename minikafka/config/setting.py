"""What a declared setting is, and the base of the classes that hold them.

A row is a class attribute::

    replica_lag_time_max_ms = Setting(integer(1), 10_000, doc="A follower that ...")

Its Kafka name follows from the attribute's (``replica.lag.time.max.ms``), unless ``name`` says it. On an instance the
attribute is the value, typed; on the class it is the row. Values are read at the speed of a plain attribute: the row is
a descriptor without ``__set__``, so that the instance's own dictionary comes first.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar, overload

from minikafka.config.kinds import ConfigType, Kind

T = TypeVar("T")


class ConfigError(ValueError):
    """Settings that cannot be used. ``problems`` has one sentence each: setting, value, what is allowed."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class ConfigSource(IntEnum):
    """Where a value came from, as DescribeConfigs names it (KIP-226)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """A setting that could give an entry its value; the first of an entry's synonyms does."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One row of a DescribeConfigs answer. A sensitive value is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    config_type: ConfigType
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]


def source_of(synonyms: Sequence[ConfigSynonym]) -> ConfigSource:
    """Where an entry with these synonyms has its value from."""
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG


class Setting(Generic[T]):
    """A declared row. ``kafka`` is Apache Kafka's default where ours differs; the doc says why it does.

    ``dynamic``: it may be set on the running cluster; ``of_one_node``: only for one node by its id, which checks it.
    """

    def __init__(
        self,
        kind: Kind[T],
        default: T,
        *,
        doc: str,
        kafka: str | None = None,
        dynamic: bool = False,
        of_one_node: bool = False,
        name: str = "",
    ) -> None:
        self.kind = kind
        self.default = default
        self.doc = " ".join(doc.split())
        self.kafka = kafka
        self.dynamic = dynamic
        self.of_one_node = of_one_node
        self.name = name
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = self.name or attribute.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Setting[T] | T:
        return self if instance is None else self.default

    @property
    def is_sensitive(self) -> bool:
        """True when the value must not be shown."""
        return self.kind.config_type is ConfigType.PASSWORD

    def parse(self, raw: object) -> T:
        """The value of what a source gave; ConfigError names setting, value and what is allowed."""
        try:
            return self.kind.parse(raw)
        except ValueError as error:
            shown = "(hidden)" if self.is_sensitive else repr(raw)
            raise ConfigError([f"{self.name} = {shown}: must be {error}"]) from None

    def shown(self, value: T) -> str | None:
        """The value as text, or None when it is sensitive or there is none."""
        return None if self.is_sensitive or value is None else self.kind.format(value)


class SettingGroup:
    """Base of a class whose attributes are settings. Instances do not change."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} does not change; {name} cannot be set")

    @classmethod
    @cache
    def rows(cls) -> dict[str, Setting[Any]]:
        """Every declared setting by its name, in the order of declaration. Not to be changed."""
        found: dict[str, Setting[Any]] = {}
        for owner in reversed(cls.__mro__):
            found |= {row.name: row for row in vars(owner).values() if isinstance(row, Setting)}
        return found


def parse_settings(rows: Mapping[str, Setting[Any]], given: Mapping[str, object]) -> dict[str, Any]:
    """Each given setting's value; raises one ConfigError that names every problem."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, raw in given.items():
        try:
            values[name] = find_row(rows, name).parse(raw)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return values


LONGEST_COMPARED: Final = 100
"""Characters of a name that is compared with those that there are."""
_NOW: Final = {"broker.id": "node.id", "zookeeper.connect": "controller.quorum.voters"}
"""Settings of Kafka before KRaft, where another name is nearer than the one that is meant."""


def find_row(rows: Mapping[str, Setting[Any]], name: str) -> Setting[Any]:
    """The row of that name; ConfigError suggests the nearest one."""
    row = rows.get(name)
    if row is None:
        near = _NOW.get(name) or _nearest(rows, name)
        hint = f"; did you mean {near}?" if near else ""
        raise ConfigError([f"setting {name!r} not found{hint}"])
    return row


def _nearest(rows: Iterable[str], name: str) -> str | None:
    if len(name) > LONGEST_COMPARED:  # a stranger's, of 32 KB: it is none of them
        return None
    return next(iter(difflib.get_close_matches(name, rows, n=1, cutoff=0.6)), None)
