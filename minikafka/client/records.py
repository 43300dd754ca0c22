"""What producers and consumers hand out: a record with its place, and where a record was written."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, TypeAlias

from minikafka.records.record import Header


class ConsumerRecord(NamedTuple):
    """A record with its place. ``leader_epoch`` is the epoch its batch was written in; ``timestamp`` in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    leader_epoch: int


class RecordMetadata(NamedTuple):
    """Where a record was written; ``offset`` is -1 with acks=0, or for a duplicate whose offset is forgotten."""

    topic: str
    partition: int
    offset: int
    timestamp: int


Delivery: TypeAlias = asyncio.Future[RecordMetadata]
"""The fate of a record: RecordMetadata, or a KafkaError."""
