"""Shared by the metadata tests: a small image."""

from __future__ import annotations

from uuid import UUID

import pytest

from minikafka.metadata.delta import replay_records
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage
from minikafka.metadata.records import (
    ClusterIdRecord,
    ConfigRecord,
    ConfigResourceType,
    MetadataVersionRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    TopicRecord,
)
from minikafka.model import Endpoint, OffsetAndEpoch

ORDERS = UUID(int=10)
SMALL: list[Record] = [
    MetadataVersionRecord(1),
    ClusterIdRecord("c"),
    RegisterBrokerRecord(1, UUID(int=1), 2, {"CLIENT": Endpoint("h", 1)}, "a", fenced=False),
    RegisterBrokerRecord(2, UUID(int=2), 3, {"CLIENT": Endpoint("h", 2)}, None, ("/d",), fenced=True),
    TopicRecord("orders", ORDERS),
    PartitionRecord(ORDERS, 0, (1, 2), (1,), 1),
    PartitionRecord(ORDERS, 1, (2, 1), (1,), 1, 3, 4),
    ConfigRecord(ConfigResourceType.TOPIC, "orders", "retention.ms", "5"),
]


@pytest.fixture
def orders() -> UUID:
    return ORDERS


@pytest.fixture
def small() -> MetadataImage:
    """One topic of two partitions, broker 1 live and broker 2 fenced."""
    image = replay_records(EMPTY_IMAGE, SMALL, OffsetAndEpoch(len(SMALL) - 1, 1))
    return image
