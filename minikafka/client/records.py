"""What producers and consumers hand out: records with their place, one by one or in batches; where one was written."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, TypeAlias

from minikafka.model import TopicPartition
from minikafka.records.batch import BatchHeader
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


class FetchedBatches(NamedTuple):
    """Batches of one partition as they were fetched, each a position in ``buffer`` and its header.

    Records of ``tp`` from ``start_offset`` to before ``end_offset``. The first batch may begin earlier. Control
    batches and, for a read_committed consumer, aborted transactions are not in ``batches``, which may so be empty.
    """

    tp: TopicPartition
    buffer: memoryview
    batches: tuple[tuple[int, BatchHeader], ...]
    start_offset: int
    end_offset: int
    high_watermark: int


class RecordMetadata(NamedTuple):
    """Where a record was written; ``offset`` is -1 with acks=0, or for a duplicate whose offset is forgotten."""

    topic: str
    partition: int
    offset: int
    timestamp: int


Delivery: TypeAlias = asyncio.Future[RecordMetadata]
"""The fate of a record: RecordMetadata, or a KafkaError."""
