"""A topic's settings: its own, those of its node, defaults; and which of them DescribeConfigs shows."""

from __future__ import annotations

import pytest

from minikafka.config import BrokerConfig, ConfigError, ConfigSource, ConfigSynonym, TopicConfig
from minikafka.config.overrides import OwnSetting

ONLY_OF_TOPICS = {"local.retention.bytes", "local.retention.ms"}


def test_defaults_are_kafkas() -> None:
    config = TopicConfig()
    assert config.retention_ms == 7 * 24 * 3600 * 1000
    assert config.segment_ms == 7 * 24 * 3600 * 1000
    assert config.segment_bytes == 1024**3
    assert config.max_message_bytes == 1_048_588
    assert config.cleanup_policy == ("delete",)
    assert config.flush_messages == 2**63 - 1
    assert config.min_insync_replicas == 1
    assert config.unclean_leader_election_enable is False


def test_own_value_before_the_nodes_before_the_default() -> None:
    broker = BrokerConfig({"log.segment.bytes": 2000, "min.insync.replicas": 2})
    config = TopicConfig({"segment.bytes": "3000"}, broker)
    assert (config.segment_bytes, config.min_insync_replicas, config.retention_bytes) == (3000, 2, -1)


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": 2}, 2 * 3_600_000),
        ({"log.retention.hours": -1}, -1),
        ({"log.retention.hours": 2, "log.retention.minutes": 3}, 3 * 60_000),
        ({"log.retention.minutes": -1, "log.retention.hours": 2}, -1),
        ({"log.retention.ms": 4, "log.retention.minutes": 3, "log.retention.hours": 2}, 4),
    ],
)
def test_the_finest_unit_that_is_set_decides(settings: dict[str, object], retention_ms: int) -> None:
    assert TopicConfig({}, BrokerConfig(settings)).retention_ms == retention_ms


def test_what_a_newer_controller_recorded_and_this_node_does_not_know_is_left_out() -> None:
    config = TopicConfig({"from.the.future": "1", "segment.bytes": "2000", "cleanup.policy": "shred"})
    assert (config.segment_bytes, config.cleanup_policy) == (2000, ("delete",))


def test_description_names_source_and_synonyms() -> None:
    static = BrokerConfig({"log.retention.minutes": 3})
    broker = static.overridden({}, {"log.retention.ms": "9"})
    entries = {entry.name: entry for entry in TopicConfig({"retention.ms": "5"}, broker).describe()}
    entry = entries["retention.ms"]
    assert (entry.value, entry.source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert entry.synonyms == (
        ConfigSynonym("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ConfigSynonym("log.retention.ms", "9", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ConfigSynonym("log.retention.minutes", "3", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    )
    assert entries["cleanup.policy"].synonyms == (
        ConfigSynonym("log.cleanup.policy", "delete", ConfigSource.DEFAULT_CONFIG),
    )
    assert entries["segment.bytes"].source is ConfigSource.DEFAULT_CONFIG
    assert not entry.is_read_only
    assert entries.keys() == TopicConfig.rows().keys()


def test_synonyms_are_those_that_kafka_names() -> None:
    """It has one synonym for a setting (log.retention.ms), and names others of the node only behind that one."""
    entries = {entry.name: entry for entry in TopicConfig({}, BrokerConfig({"log.retention.hours": 2})).describe()}
    for name, value in [("retention.ms", "7200000"), ("segment.ms", "604800000"), ("remote.storage.enable", "false")]:
        assert (entries[name].value, entries[name].source) == (value, ConfigSource.DEFAULT_CONFIG)
        assert entries[name].synonyms == ()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("retention.ms", "-2", "retention.ms = '-2': must be a whole number of -1 or more"),
        ("compression.type", "brotli", "'brotli': must be one of producer, uncompressed, gzip, snappy, lz4, zstd"),
        ("retention.msec", "1", "did you mean retention.ms?"),
        ("log.retention.hours", "1", "is a setting of a node, not of a topic; the topic's is retention.ms"),
        ("node.id", "1", "is a setting of a node, not of a topic"),
    ],
)
def test_a_wrong_topic_setting_is_refused_with_what_to_do(name: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        TopicConfig.parse(name, value)
    assert problem in str(raised.value)


def test_every_fallback_can_be_changed_on_the_running_cluster() -> None:
    for row in TopicConfig.rows().values():
        assert isinstance(row, OwnSetting)
        assert row.fallbacks or row.name in ONLY_OF_TOPICS or row.name.startswith(("remote.", "leader.", "follower."))
        assert all(fallback.row.dynamic for fallback in row.fallbacks), row.name
        assert row.doc.endswith(".")


def test_replicas_to_throttle_are_listed_or_all() -> None:
    name = "leader.replication.throttled.replicas"
    some = TopicConfig({name: "0:1, 3:2"}).leader_replication_throttled_replicas
    assert some.has(0, 1)
    assert some.has(3, 2)
    assert not some.has(1, 0)
    assert str(some) == "0:1,3:2"
    everything = TopicConfig({name: "*"}).leader_replication_throttled_replicas
    assert everything.has(7, 7)
    assert str(everything) == "*"
    assert not TopicConfig().leader_replication_throttled_replicas
    assert some == TopicConfig.parse(name, "0:1,3:2") != everything
    assert len({some, everything, TopicConfig.parse(name, "*")}) == 2
    (entry,) = [entry for entry in TopicConfig({name: "0:1"}).describe() if entry.name == name]
    assert (entry.value, entry.source) == ("0:1", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    (entry,) = [entry for entry in TopicConfig().describe() if entry.name == name]
    assert (entry.value, entry.source) == ("", ConfigSource.DEFAULT_CONFIG)
    for wrong in ("0", "a:b", "0:1:2", "*,0:1", "-1:1"):
        with pytest.raises(ConfigError, match=r"must be a list of partition:broker, or \*"):
            TopicConfig.parse(name, wrong)
