"""Which partition a record goes to, other than by the client's own choice."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import count
from typing import TypeAlias
from zlib import crc32

Choose: TypeAlias = "Callable[[bytes | None], int | None]"
"""The partition for a key; None leaves the choice to the client."""


class Partitioner(StrEnum):
    """How a record's partition is chosen."""

    MURMUR2 = "murmur2"
    """As Java's client: by the hash of the key; without one, a batch at a time."""
    CRC32 = "crc32"
    """As librdkafka's default, consistent_random."""
    ROUND_ROBIN = "round-robin"
    RANDOM = "random"
    INPUT = "input"
    """The partition that a JSON object names."""


def choice(partitioner: Partitioner, partitions: Sequence[int], rng: random.Random) -> Choose:
    """A function that chooses among the partitions of a topic."""
    if partitioner is Partitioner.CRC32:
        return lambda key: rng.choice(partitions) if not key else partitions[crc32(key) % len(partitions)]
    if partitioner is Partitioner.ROUND_ROBIN:
        turn = count()
        return lambda key: partitions[next(turn) % len(partitions)]
    if partitioner is Partitioner.RANDOM:
        return lambda key: rng.choice(partitions)
    return lambda key: None
