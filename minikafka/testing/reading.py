"""The records of a topic, for the assertions of a test."""

from __future__ import annotations

from typing import Final

from minikafka.client import Consumer, ConsumerRecord, Security
from minikafka.model import Isolation, TopicPartition

_POLL_MS: Final = 100
_RECORDS_PER_POLL: Final = 10_000


async def read_all(servers: str, security: Security, topic: str, *, committed: bool) -> list[ConsumerRecord]:
    """All records up to the present end, by partition and offset. Raises KafkaError for a missing topic."""
    isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    found: list[ConsumerRecord] = []
    consumer = Consumer(servers, topic, security=security, auto_offset_reset="earliest", isolation_level=isolation)
    async with consumer:
        ends = await consumer.end_offsets(consumer.assignment)
        unread = set(ends)
        while unread := {tp for tp in unread if await consumer.position(tp) < ends[tp]}:
            found += await consumer.poll(_POLL_MS, _RECORDS_PER_POLL)
    known = [record for record in found if record.offset < ends[TopicPartition(topic, record.partition)]]
    return sorted(known, key=lambda record: (record.partition, record.offset))
