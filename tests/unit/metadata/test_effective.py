"""Settings in effect: dynamic ones of the image above the node's own."""

from __future__ import annotations

from minikafka.config import BrokerConfig, TopicConfig
from minikafka.metadata import effective
from minikafka.metadata.delta import replay_records
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import ConfigRecord, ConfigResourceType
from minikafka.model import OffsetAndEpoch

BROKER = ConfigResourceType.BROKER


def test_topic_above_node_above_cluster_above_file(small: MetadataImage) -> None:
    static = BrokerConfig({"log.segment.bytes": 2000, "log.roll.ms": 7})
    image = replay_records(
        small,
        [
            ConfigRecord(BROKER, "", "log.segment.bytes", "3000"),
            ConfigRecord(BROKER, "", "log.retention.bytes", "30"),
            ConfigRecord(BROKER, "1", "log.segment.bytes", "4000"),
            ConfigRecord(BROKER, "2", "log.segment.bytes", "5000"),
        ],
        OffsetAndEpoch(20, 1),
    )
    config = effective.broker_config(image, static)
    assert (config.log_segment_bytes, config.log_retention_bytes, config.log_roll_ms) == (4000, 30, 7)
    topic = TopicConfig(image.topic_overrides("orders"), config)
    assert (topic.segment_bytes, topic.retention_bytes, topic.segment_ms, topic.retention_ms) == (4000, 30, 7, 5)


def test_a_node_without_dynamic_settings_has_its_own(small: MetadataImage) -> None:
    static = BrokerConfig()
    assert effective.broker_config(small, static) is static
