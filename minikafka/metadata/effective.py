"""Settings in effect: dynamic settings of the image take precedence over the node's own."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.config import BrokerConfig, GroupConfig
from minikafka.metadata.image import ConfigResource, MetadataImage
from minikafka.metadata.records import ConfigResourceType

EVERY_BROKER = ConfigResource(ConfigResourceType.BROKER, "")


def broker_config(image: MetadataImage, static: BrokerConfig) -> BrokerConfig:
    """The node's settings, with the dynamic ones for this node and for all nodes."""
    node = image.config_of(ConfigResource(ConfigResourceType.BROKER, str(static.node_id)))
    cluster = image.config_of(EVERY_BROKER)
    return static.overridden(node, cluster) if node or cluster else static


def concern_brokers(changed: Iterable[ConfigResource]) -> bool:
    """Whether settings of a broker, or of all, are among those that changed."""
    return any(resource.resource_type is ConfigResourceType.BROKER for resource in changed)


def group_config(image: MetadataImage, group_id: str, broker: BrokerConfig) -> GroupConfig:
    """A group's settings on a node that has these of its own."""
    return GroupConfig(image.config_of(ConfigResource(ConfigResourceType.GROUP, group_id)), broker)
