"""Partitions whose readers of committed records wait for the end of a transaction, and for whose."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minikafka.cli.output import duration
from minikafka.model import LATEST

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.model import TopicPartition

PARTITIONS_AT_ONCE: Final = 1_000
LONG_MS: Final = 10_000
"""Most transactions are over by then. Of others an overview tells."""


class HeldBack(NamedTuple):
    """A partition whose last stable offset is below its high watermark, because of one transaction or several.

    Of the first: ``transactional_id`` is None when no coordinator knows the producer, and ``hangs`` says that none will
    end it. ``since_ms``: wall clock, when it began; of one that hangs when its producer last wrote there.
    """

    partition: TopicPartition
    last_stable_offset: int
    high_watermark: int
    transactional_id: str | None
    producer_id: int
    hangs: bool
    since_ms: int

    @property
    def held_for_ms(self) -> int:
        """For how long by now."""
        return time.time_ns() // 1_000_000 - self.since_ms

    @property
    def by(self) -> str:
        """Whose transaction, and since when: ``transaction of copier, 34 s``."""
        who = f"producer {self.producer_id}" if self.transactional_id is None else self.transactional_id
        return f"{'hanging ' if self.hangs else ''}transaction of {who}, {duration(self.held_for_ms)}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON, beside the partition."""
        names = ("transactional_id", "producer_id", "hangs", "since_ms")
        return {name: getattr(self, name) for name in names}


async def held_back(admin: Admin, ends: Mapping[TopicPartition, int]) -> list[HeldBack]:
    """Those of partitions with these ends, as they were just before. KafkaError."""
    from minikafka.model import Isolation

    stable: dict[TopicPartition, int] = {}
    for some in _portions(iter(ends)):
        found = await admin.list_offsets(dict.fromkeys(some, LATEST), isolation=Isolation.READ_COMMITTED)
        stable |= {tp: at.offset for tp, at in found.items()}
    behind = [tp for tp, end in ends.items() if stable[tp] < end]
    if not behind:
        return []
    firsts: dict[TopicPartition, HeldBack] = {}
    for each, known in await admin.open_transactions(behind):
        tp, producer = each.partition, each.producer
        began_ms = None if known is None else known.started_ms
        firsts.setdefault(
            tp,
            HeldBack(
                tp,
                stable[tp],
                ends[tp],
                each.transactional_id,
                producer.producer_id,
                known is None,
                producer.last_timestamp if began_ms is None else began_ms,
            ),
        )
    return [firsts[tp] for tp in sorted(firsts)]


async def held_back_for_long(admin: Admin, partitions: list[TopicPartition]) -> list[HeldBack]:
    """Of these partitions those that are held back for more than 10 s. KafkaError."""
    ends: dict[TopicPartition, int] = {}
    for some in _portions(iter(partitions)):
        ends |= {tp: at.offset for tp, at in (await admin.list_offsets(dict.fromkeys(some, LATEST))).items()}
    return [each for each in await held_back(admin, ends) if each.held_for_ms >= LONG_MS]


def sentence(held: list[HeldBack]) -> str:
    """For an overview: how many, and one of them."""
    longest = max(held, key=lambda each: each.held_for_ms)
    partitions = "1 partition" if len(held) == 1 else f"{len(held)} partitions"
    return (
        f"read_committed consumers wait in {partitions}: {longest.partition} at offset {longest.last_stable_offset}"
        f" for the {longest.by}"
    )


def _portions(partitions: Iterator[TopicPartition]) -> Iterator[list[TopicPartition]]:
    while some := list(islice(partitions, PARTITIONS_AT_ONCE)):
        yield some
