"""Choice of a record's partition: by the hash of its key, as in Java clients, otherwise a batch at a time (pure)."""

from __future__ import annotations

import random
from typing import Final

from minikafka.client.cluster import TopicView
from minikafka.model import NO_NODE

_MIX: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF


class Partitioner:
    """Records with a key: murmur2. Others: one partition until its batch is full or sent (KIP-480)."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._sticky: dict[str, int] = {}
        self._left: dict[str, int] = {}  # the former sticky partition, not chosen twice in a row

    def choose(self, key: bytes | None, topic: TopicView) -> int:
        """A partition index. Without a key only partitions that have a leader are chosen, if there are any."""
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % len(topic.partitions)
        sticky = self._sticky.get(topic.name)
        if sticky is None or sticky not in topic.partitions or topic.partitions[sticky].leader == NO_NODE:
            sticky = self._sticky[topic.name] = self._another(topic)
        return sticky

    def move_on(self, topic: str, partition: int) -> None:
        """A batch of that partition is complete: if it was the sticky partition, choose another."""
        if self._sticky.get(topic) == partition:
            self._left[topic] = self._sticky.pop(topic)

    def _another(self, topic: TopicView) -> int:
        led = [index for index, partition in topic.partitions.items() if partition.leader != NO_NODE]
        candidates = led or list(topic.partitions)
        left = self._left.get(topic.name)
        return self._rng.choice([index for index in candidates if index != left] or candidates)


def murmur2(data: bytes) -> int:
    """Murmur2, 32 bits, with the seed of Kafka's Java client; unsigned."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        block = int.from_bytes(data[position : position + 4], "little") * _MIX & _MASK
        block = (block ^ block >> 24) * _MIX & _MASK
        value = (value * _MIX & _MASK) ^ block
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MIX & _MASK
    value = (value ^ value >> 13) * _MIX & _MASK
    return value ^ value >> 15
