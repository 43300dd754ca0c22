"""Settings that a topic or a group may have of its own, each with the node's settings it falls back to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, dropwhile
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from minikafka.config.broker import BrokerConfig
from minikafka.config.kinds import Kind
from minikafka.config.setting import (
    ConfigEntry,
    ConfigError,
    ConfigSource,
    ConfigSynonym,
    Setting,
    SettingGroup,
    parse_settings,
    source_of,
)

T = TypeVar("T")


class Fallback(NamedTuple):
    """A node's setting that gives the value, and how many of the own setting's units one of its units has."""

    row: Setting[Any]
    unit: int = 1

    def convert(self, value: Any) -> Any:
        """A node's value in the own setting's unit; -1 ("no bound") stays itself."""
        return value if self.unit == 1 or value < 0 else value * self.unit


class OwnSetting(Setting[T], Generic[T]):
    """A row of a topic or a group; the last fallback is the one with a default. A row without any has its own."""

    def __init__(self, kind: Kind[T], *fallbacks: Fallback, doc: str, default: T | None = None) -> None:
        if fallbacks:
            last = fallbacks[-1]
            default = last.convert(last.row.default)
        assert default is not None
        super().__init__(kind, default, doc=doc, dynamic=True)
        self.fallbacks = fallbacks


def like(row: Setting[T]) -> OwnSetting[T]:
    """A setting of the same kind and meaning as one of the node."""
    return OwnSetting(row.kind, Fallback(row), doc=row.doc)


class OwnConfig(SettingGroup):
    """Settings in effect of a topic or a group: ``TopicConfig(overrides, broker_config).retention_ms``.

    A value is the resource's own, or else the first of its fallbacks that the node sets (statically or dynamically), or
    else the default. Overrides that do not parse are left out, as in :meth:`BrokerConfig.overridden`; the controller
    checks them with :meth:`parse` before they are recorded.
    """

    SOURCE: ClassVar[ConfigSource]
    """Of an own value."""
    RESOURCE: ClassVar[str]
    """What has the settings, as a word."""

    _broker: BrokerConfig
    _own: Mapping[str, Any]

    def __init__(self, overrides: Mapping[str, str] | None = None, broker: BrokerConfig | None = None) -> None:
        broker = broker or BrokerConfig()
        own = self._parse_known(overrides or {})
        vars(self).update(_broker=broker, _own=own)
        for row in self.rows().values():
            assert isinstance(row, OwnSetting)
            value = own[row.name] if row.name in own else _fallback_value(row, broker)
            vars(self)[row.attribute] = value

    def describe(self) -> list[ConfigEntry]:
        """Every setting with its value, where it came from, and what else could give it, for DescribeConfigs."""
        return [self._entry(row) for row in self.rows().values()]

    def _entry(self, row: Setting[Any]) -> ConfigEntry:
        assert isinstance(row, OwnSetting)
        synonyms = tuple(self._synonyms(row))
        return ConfigEntry(
            row.name,
            row.shown(getattr(self, row.attribute)),
            source_of(synonyms),
            is_read_only=False,
            is_sensitive=False,
            config_type=row.kind.config_type,
            documentation=row.doc,
            synonyms=synonyms,
        )

    def _synonyms(self, row: OwnSetting[Any]) -> Iterator[ConfigSynonym]:
        """As in Kafka: without the first fallback (log.retention.ms) the others (log.retention.hours) count for
        nothing, and a setting without a fallback has no default among them."""
        if row.name in self._own:
            yield ConfigSynonym(row.name, row.shown(self._own[row.name]), self.SOURCE)
        names = [fallback.row.name for fallback in row.fallbacks]
        yield from dropwhile(lambda each: each.name != names[0], chain(*map(self._broker.synonyms, names)))

    def __repr__(self) -> str:
        own = ", ".join(f"{name}={self.rows()[name].shown(value)}" for name, value in self._own.items())
        return f"{type(self).__name__}({own})"

    @classmethod
    def parse(cls, name: str, value: str) -> Any:
        """The value of a setting; ConfigError names what is wrong with it."""
        if name not in cls.rows() and name in BrokerConfig.rows():
            raise ConfigError([f"{name} is a setting of a node, not of a {cls.RESOURCE}{cls._name_hint(name)}"])
        return parse_settings(cls.rows(), {name: value})[name]

    @classmethod
    def _name_hint(cls, node_setting: str) -> str:
        for row in cls.rows().values():
            if isinstance(row, OwnSetting) and any(fallback.row.name == node_setting for fallback in row.fallbacks):
                return f"; the {cls.RESOURCE}'s is {row.name}"
        return ""

    @classmethod
    def _parse_known(cls, overrides: Mapping[str, str]) -> dict[str, Any]:
        parsed: dict[str, Any] = {}
        for name, value in overrides.items():
            try:
                parsed[name] = cls.parse(name, value)
            except ConfigError:
                continue
        return parsed


def _fallback_value(row: OwnSetting[T], broker: BrokerConfig) -> T:
    for fallback in row.fallbacks:
        value = getattr(broker, fallback.row.attribute)
        if value is not None:
            converted: T = fallback.convert(value)
            return converted
    return row.default
