"""Results of producers and consumers: records, batches, and the position of a written record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.records.batch import BatchHeader
from minikafka.records.record import Header


class ConsumerRecord(NamedTuple):
    """A record with its position. ``leader_epoch``: epoch of its batch. ``timestamp``: in milliseconds.

    ``headers``: a tuple, unless there are more than 100. Then each is made when it is asked for, and a KafkaError
    (CORRUPT_MESSAGE) comes only then if they cannot be read.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    leader_epoch: int


class FetchedBatches(NamedTuple):
    """Fetched batches of one partition: for each its position in ``buffer`` and its header.

    Wanted are the records of ``tp`` from ``start_offset`` to before ``end_offset``; the first batch may begin earlier.
    Control batches are left out of ``batches``, and so are aborted transactions for a read_committed consumer; it may
    be empty.
    """

    tp: TopicPartition
    buffer: memoryview
    batches: tuple[tuple[int, BatchHeader], ...]
    start_offset: int
    end_offset: int
    high_watermark: int


class GroupMetadata(NamedTuple):
    """A consumer as a member of its group. Without a generation: a group that has no members."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Progress(NamedTuple):
    """How far a consumer has read, and as which member; for :meth:`Producer.send_offsets`."""

    offsets: Mapping[TopicPartition, OffsetAndEpoch]
    group: GroupMetadata


class RecordMetadata(NamedTuple):
    """Position of a written record; ``offset`` is -1 with acks=0, and for a duplicate with a forgotten offset."""

    topic: str
    partition: int
    offset: int
    timestamp: int


Delivery: TypeAlias = asyncio.Future[RecordMetadata]
"""Result of a record's delivery: RecordMetadata, or a KafkaError."""
