"""The scene "compacted topics": the cleaner works on logs that are led, followed, cut, moved and damaged meanwhile.

Each record of the other clients has a key of its own, so none of them may go. Another producer sends *noise*: records
of one key, in batches of their own, most of which the cleaner drops, each replica in its own time. So replicas are
compared without noise, and without the empty batches that stand for gaps (docs/decisions/0019). Transactions have noise
in them, too. Of their batches the cleaner drops some and their markers change, so they are left to the judge of the
history. So are the records of coordinators, which the cleaner works on, too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from minikafka.broker import maintenance
from minikafka.client import Producer
from minikafka.errors import KafkaError
from minikafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from minikafka.records.batch import HEADER_SIZE, parse_header

NOISE: Final = b"noise"
COMPACTION_INTERVAL_S: Final = 1.0
BACKOFF_S: Final = 0.2


NODE_SETTINGS: Final[dict[str, object]] = {
    "offsets.topic.segment.bytes": 4_000,
    "transaction.state.log.segment.bytes": 4_000,
    "log.cleaner.min.cleanable.ratio": 0.01,
}


def settings_of(seed: int) -> dict[str, str]:
    """Of each topic: small segments, cleaned at once."""
    return {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": str((2_048, 6_000, 20_000)[seed % 3]),
        "delete.retention.ms": str((86_400_000, 20_000)[seed // 3 % 2]),  # of markers
    }


@contextmanager
def cleaning_often(is_so: bool) -> Iterator[None]:
    """The cleaner of each node looks every second, if ``is_so``."""
    before = maintenance.COMPACTION_CHECK_INTERVAL_S
    if is_so:
        maintenance.COMPACTION_CHECK_INTERVAL_S = COMPACTION_INTERVAL_S
    try:
        yield
    finally:
        maintenance.COMPACTION_CHECK_INTERVAL_S = before


async def make_noise(
    bootstrap_servers: str, partitions: Sequence[TopicPartition], rng: random.Random, wall_s: Callable[[], float]
) -> None:
    """Send noise until cancelled; nobody counts it."""
    while True:
        try:
            async with Producer(
                bootstrap_servers,
                client_id="noise",
                enable_idempotence=False,
                delivery_timeout_ms=5_000,
                max_block_ms=5_000,
                rng=random.Random(rng.getrandbits(64)),
                wall_s=wall_s,
            ) as producer:
                while True:
                    tp = rng.choice(partitions)
                    for _ in range(rng.choice((1, 1, 5, 40))):
                        value = NOISE * rng.choice((1, 20, 200))
                        await producer.send(tp.topic, value, key=NOISE, partition=tp.partition)
                    await asyncio.sleep(rng.expovariate(10.0))
        except KafkaError:
            await asyncio.sleep(BACKOFF_S)


def may_go(batch: bytes | bytearray) -> bool:
    """The cleaner may drop the batch, or made it."""
    header = parse_header(batch)
    return NOISE in batch or header.record_count == 0 or header.is_control


def is_state_of_coordinators(directory: str) -> bool:
    """That of a log in which every record may go."""
    return directory.rpartition("/")[2].startswith((CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))


def lasting(content: bytes) -> bytes:
    """A log's batches without those that may go; all of it where it is damaged."""
    kept, at = [], 0
    while at < len(content):
        if at + HEADER_SIZE > len(content):
            return content
        size = parse_header(content, at).size_in_bytes
        batch = content[at : at + size]
        if size < HEADER_SIZE or len(batch) < size:
            return content
        if not may_go(batch) and not parse_header(batch).is_transactional:
            kept.append(batch)
        at += size
    return b"".join(kept)
