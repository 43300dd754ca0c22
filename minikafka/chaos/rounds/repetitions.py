"""Records that are there several times: who repeated them, the cluster or their producer?

A broker knows a repetition by the producer's id and epoch, and the record's sequence. If these differ, the producer
sent the record again as a new one, and no broker can tell. librdkafka does so (its issue 4953).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Set
from typing import Final, NamedTuple

from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.reading import STALL_S
from minikafka.client import Consumer
from minikafka.client.records import FetchedBatches
from minikafka.errors import KafkaError
from minikafka.ledger.events import Event
from minikafka.ledger.partition import gather
from minikafka.model import NO_SEQUENCE, TopicPartition
from minikafka.records.batch import MAX_SEQUENCE, BatchHeader

_WAIT_MS: Final = 200


class Stamp(NamedTuple):
    """By what brokers know a record again."""

    producer_id: int
    epoch: int
    sequence: int


async def resent(cluster: Reached, events: list[Event]) -> list[list[str]]:
    """Place and id of all records that are there several times, and each time with another stamp.

    Those that cannot be looked at are left out: nobody knows.
    """
    found = []
    for name, history in gather(events).items():
        repeated = {record: history.offsets_at(record) for record in history.offsets_of}
        repeated = {record: offsets for record, offsets in repeated.items() if len(offsets) > 1}
        if not repeated:
            continue
        stamps = await _stamps(cluster, _partition(name), set().union(*repeated.values()))
        found += [[name, record] for record, offsets in repeated.items() if told_apart(stamps, offsets)]
    return found


def told_apart(stamps: Mapping[int, Stamp], offsets: Set[int]) -> bool:
    """Whether each of these offsets has a stamp, and none of them two."""
    return len({stamps[offset] for offset in offsets if offset in stamps}) == len(offsets)


async def _stamps(cluster: Reached, partition: TopicPartition, offsets: Set[int]) -> dict[int, Stamp]:
    """Of the records of idempotent producers at these offsets, as far as they can be read. Not of transactional ones:
    who copies a record once more sends it anew, and must not have done so."""
    found: dict[int, Stamp] = {}
    end = max(offsets) + 1
    try:
        async with Consumer(cluster.servers, security=cluster.security, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            consumer.seek(partition, min(offsets), until=end)
            progress_at = time.monotonic()
            while await consumer.position(partition) < end and time.monotonic() - progress_at < STALL_S:
                for each in await consumer.poll_batches(_WAIT_MS):
                    found |= {at: stamp for at, stamp in _stamps_in(each) if at in offsets}
                    progress_at = time.monotonic()
    except KafkaError:
        pass
    return found


def _stamps_in(fetched: FetchedBatches) -> Iterator[tuple[int, Stamp]]:
    for _, header in fetched.batches:
        if header.has_producer_id and header.base_sequence != NO_SEQUENCE and not header.is_transactional:
            for delta in range(header.last_offset_delta + 1):
                yield header.base_offset + delta, _stamp(header, delta)


def _stamp(header: BatchHeader, delta: int) -> Stamp:
    return Stamp(header.producer_id, header.producer_epoch, (header.base_sequence + delta) & MAX_SEQUENCE)


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
