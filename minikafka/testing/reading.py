"""The records of a topic, for the assertions of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from minikafka.chaos.layout import ClusterError
from minikafka.client import Admin, Consumer, ConsumerRecord, Security
from minikafka.model import LATEST, Isolation, TopicPartition

_POLL_MS: Final = 100
_RECORDS_PER_POLL: Final = 10_000
_REPLICATED_WITHIN_S: Final = 5.0
_LOOK_S: Final = 0.01


async def read_all(
    servers: str, security: Security, topic: str, *, committed: bool, timeout_s: float
) -> list[ConsumerRecord]:
    """All records up to the present end, by partition and offset. Raises KafkaError for a missing topic, and
    ClusterError when there is no progress within ``timeout_s``."""
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await _read_all(servers, security, topic, limit, timeout_s, committed=committed)
    except TimeoutError:
        raise ClusterError(
            f"the records of {topic!r} could not be read: nothing came for {timeout_s:g} s; heal() mends its leaders"
        ) from None


async def _read_all(
    servers: str, security: Security, topic: str, limit: asyncio.Timeout, timeout_s: float, *, committed: bool
) -> list[ConsumerRecord]:
    isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    found: list[ConsumerRecord] = []
    consumer = Consumer(servers, topic, security=security, auto_offset_reset="earliest", isolation_level=isolation)
    async with consumer:
        async with Admin(servers, security=security) as admin:
            await _wait_until_replicated(admin, consumer.assignment)
        ends = await consumer.end_offsets(consumer.assignment)
        unread = set(ends)
        while unread := {tp for tp in unread if await consumer.position(tp) < ends[tp]}:
            if more := await consumer.poll(_POLL_MS, _RECORDS_PER_POLL):
                found += more
                limit.reschedule(asyncio.get_running_loop().time() + timeout_s)
    known = [record for record in found if record.offset < ends[TopicPartition(topic, record.partition)]]
    return sorted(known, key=lambda record: (record.partition, record.offset))


async def _wait_until_replicated(admin: Admin, partitions: Iterable[TopicPartition]) -> None:
    """Consumers do not see what some in-sync replica lacks, and with acks=1, aiokafka's default, that may have been
    acknowledged. What stays so for long, as there are too few replicas, is left out.
    """
    seen = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    written = await admin.epoch_ends({tp: end.epoch for tp, end in seen.items()})
    with suppress(TimeoutError):
        async with asyncio.timeout(_REPLICATED_WITHIN_S):
            while behind := [tp for tp in seen if seen[tp].offset < written[tp].offset]:
                await asyncio.sleep(_LOOK_S)
                before, seen = seen, await admin.list_offsets(dict.fromkeys(behind, LATEST))
                if elsewhere := {tp: end.epoch for tp, end in seen.items() if end.epoch != before[tp].epoch}:
                    written |= await admin.epoch_ends(elsewhere)
