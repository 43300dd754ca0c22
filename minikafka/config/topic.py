"""The settings a topic may override, each with the node's settings it falls back to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from minikafka.config.broker import BrokerConfig
from minikafka.config.kinds import Kind, ReplicaList, long, no_tiers, replica_list
from minikafka.config.setting import (
    ConfigEntry,
    ConfigError,
    ConfigSource,
    ConfigSynonym,
    Setting,
    SettingGroup,
    parse_settings,
)

T = TypeVar("T")

_TIERED: Final = "for the local part of a topic with tiered storage, which is not there: without effect."
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


class Fallback(NamedTuple):
    """A node's setting that gives a topic's value, and how many of the topic's units one of its units has."""

    row: Setting[Any]
    unit: int = 1

    def convert(self, value: Any) -> Any:
        """A node's value in the topic's unit; -1 ("no bound") stays itself."""
        return value if self.unit == 1 or value < 0 else value * self.unit


class TopicSetting(Setting[T], Generic[T]):
    """A row of a topic; the last fallback is the one with a default. A row that only topics have has its own."""

    def __init__(self, kind: Kind[T], *fallbacks: Fallback, doc: str, default: T | None = None) -> None:
        if fallbacks:
            last = fallbacks[-1]
            default = last.convert(last.row.default)
        assert default is not None
        super().__init__(kind, default, doc=doc, dynamic=True)
        self.fallbacks = fallbacks


def like(row: Setting[T]) -> TopicSetting[T]:
    """A topic's setting of the same kind and meaning as one of the node."""
    return TopicSetting(row.kind, Fallback(row), doc=row.doc)


class TopicConfig(SettingGroup):
    """A topic's settings in effect: ``TopicConfig(overrides, broker_config).retention_ms``.

    A value is the topic's own, or else the first of its fallbacks that the node sets (statically or dynamically), or
    else the default. Overrides that do not parse are left out, as in :meth:`BrokerConfig.overridden`; the controller
    checks them with :func:`parse_topic_setting` before they are recorded.
    """

    _broker: BrokerConfig
    _own: Mapping[str, Any]

    cleanup_policy = like(BrokerConfig.log_cleanup_policy)
    compression_gzip_level = like(BrokerConfig.compression_gzip_level)
    compression_lz4_level = like(BrokerConfig.compression_lz4_level)
    compression_type = like(BrokerConfig.compression_type)
    compression_zstd_level = like(BrokerConfig.compression_zstd_level)
    delete_retention_ms = like(BrokerConfig.log_cleaner_delete_retention_ms)
    file_delete_delay_ms = like(BrokerConfig.log_segment_delete_delay_ms)
    flush_messages = like(BrokerConfig.log_flush_interval_messages)
    flush_ms = like(BrokerConfig.log_flush_interval_ms)
    index_interval_bytes = like(BrokerConfig.log_index_interval_bytes)
    follower_replication_throttled_replicas = TopicSetting(
        replica_list(),
        default=ReplicaList(),
        doc="""Replicas whose fetches follower.replication.throttled.rate slows down, as partition:broker; * for all.
        Set while partitions are reassigned.""",
    )
    leader_replication_throttled_replicas = TopicSetting(
        replica_list(),
        default=ReplicaList(),
        doc="""Replicas to whose followers leader.replication.throttled.rate sends slowly while they lead, as
        partition:broker; * for all. Set while partitions are reassigned.""",
    )
    local_retention_bytes = TopicSetting(long(-2), default=-2, doc=f"As retention.bytes, {_TIERED}")
    local_retention_ms = TopicSetting(long(-2), default=-2, doc=f"As retention.ms, {_TIERED}")
    max_compaction_lag_ms = like(BrokerConfig.log_cleaner_max_compaction_lag_ms)
    max_message_bytes = like(BrokerConfig.message_max_bytes)
    message_timestamp_after_max_ms = like(BrokerConfig.log_message_timestamp_after_max_ms)
    message_timestamp_before_max_ms = like(BrokerConfig.log_message_timestamp_before_max_ms)
    message_timestamp_type = like(BrokerConfig.log_message_timestamp_type)
    min_cleanable_dirty_ratio = like(BrokerConfig.log_cleaner_min_cleanable_ratio)
    min_compaction_lag_ms = like(BrokerConfig.log_cleaner_min_compaction_lag_ms)
    min_insync_replicas = like(BrokerConfig.min_insync_replicas)
    remote_storage_enable = TopicSetting(
        no_tiers(), default=False, doc="Tiered storage is not there: true is refused, as by Kafka where it is off."
    )
    retention_bytes = like(BrokerConfig.log_retention_bytes)
    retention_ms = TopicSetting(
        long(-1),
        Fallback(BrokerConfig.log_retention_ms),
        Fallback(BrokerConfig.log_retention_minutes, MINUTE_MS),
        Fallback(BrokerConfig.log_retention_hours, HOUR_MS),
        doc="Closed segments older than this are deleted; -1 keeps them.",
    )
    segment_bytes = like(BrokerConfig.log_segment_bytes)
    segment_index_bytes = like(BrokerConfig.log_index_size_max_bytes)
    segment_jitter_ms = TopicSetting(
        long(0),
        Fallback(BrokerConfig.log_roll_jitter_ms),
        Fallback(BrokerConfig.log_roll_jitter_hours, HOUR_MS),
        doc=BrokerConfig.log_roll_jitter_ms.doc.removesuffix(" Empty: log.roll.jitter.hours decides."),
    )
    segment_ms = TopicSetting(
        long(1),
        Fallback(BrokerConfig.log_roll_ms),
        Fallback(BrokerConfig.log_roll_hours, HOUR_MS),
        doc="A segment older than this is closed.",
    )
    unclean_leader_election_enable = like(BrokerConfig.unclean_leader_election_enable)

    def __init__(self, overrides: Mapping[str, str] | None = None, broker: BrokerConfig | None = None) -> None:
        broker = broker or BrokerConfig()
        own = _parse_known(overrides or {})
        vars(self).update(_broker=broker, _own=own)
        for row in self.rows().values():
            assert isinstance(row, TopicSetting)
            value = own[row.name] if row.name in own else _fallback_value(row, broker)
            vars(self)[row.attribute] = value

    def describe(self) -> list[ConfigEntry]:
        """Every setting with its value, where it came from, and what else could give it, for DescribeConfigs."""
        return [self._entry(row) for row in self.rows().values()]

    def _entry(self, row: Setting[Any]) -> ConfigEntry:
        assert isinstance(row, TopicSetting)
        synonyms = tuple(self._synonyms(row))
        return ConfigEntry(
            row.name,
            row.shown(getattr(self, row.attribute)),
            synonyms[0].source,
            is_read_only=False,
            is_sensitive=False,
            config_type=row.kind.config_type,
            documentation=row.doc,
            synonyms=synonyms,
        )

    def _synonyms(self, row: TopicSetting[Any]) -> Iterator[ConfigSynonym]:
        if row.name in self._own:
            yield ConfigSynonym(row.name, row.shown(self._own[row.name]), ConfigSource.DYNAMIC_TOPIC_CONFIG)
        for fallback in row.fallbacks:
            for source, value in self._broker.set_values(fallback.row.name):
                if value is not None:
                    yield ConfigSynonym(fallback.row.name, fallback.row.shown(value), source)
        last = row.fallbacks[-1].row if row.fallbacks else row
        yield ConfigSynonym(last.name, last.shown(last.default), ConfigSource.DEFAULT_CONFIG)

    def __repr__(self) -> str:
        return f"TopicConfig({', '.join(f'{name}={self.rows()[name].shown(v)}' for name, v in self._own.items())})"


def parse_topic_setting(name: str, value: str) -> Any:
    """The value of a topic's setting; ConfigError names what is wrong with it."""
    if name not in TopicConfig.rows() and name in BrokerConfig.rows():
        raise ConfigError([f"{name} is a setting of a node, not of a topic{_topic_name_hint(name)}"])
    return parse_settings(TopicConfig.rows(), {name: value})[name]


def _topic_name_hint(node_setting: str) -> str:
    for row in TopicConfig.rows().values():
        if isinstance(row, TopicSetting) and any(fallback.row.name == node_setting for fallback in row.fallbacks):
            return f"; the topic's is {row.name}"
    return ""


def _parse_known(overrides: Mapping[str, str]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for name, value in overrides.items():
        try:
            parsed[name] = parse_topic_setting(name, value)
        except ConfigError:
            continue
    return parsed


def _fallback_value(row: TopicSetting[T], broker: BrokerConfig) -> T:
    for fallback in row.fallbacks:
        value = getattr(broker, fallback.row.attribute)
        if value is not None:
            converted: T = fallback.convert(value)
            return converted
    return row.default
