"""The topics of the cluster, as the group coordinator sees them.

A driver gives them. They may be newer than what a group was last told of: it looks at them again with the first
heartbeat after each change (``Shard.topics_version``).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple, Protocol
from uuid import UUID

Racks = tuple[frozenset[str], ...]
"""For each partition, the racks of its replicas; empty when no broker has a rack."""


class Topic(NamedTuple):
    """A topic that exists."""

    topic_id: UUID
    name: str
    partitions: int
    racks: Racks = ()


class Topics(Protocol):
    """Look-ups in the newest metadata."""

    def named(self, name: str) -> Topic | None:
        """The topic of this name."""

    def with_id(self, topic_id: UUID) -> Topic | None:
        """The topic of this id."""


class NoTopics:
    """A cluster without topics."""

    def named(self, name: str) -> Topic | None:
        """None."""

    def with_id(self, topic_id: UUID) -> Topic | None:
        """None."""


def metadata_hash(topics: Topics, names: Iterable[str]) -> int:
    """An int64 that is another one when topics of these names come, go, or have other partitions or racks (KIP-1101).

    0 without topics. The function is not Kafka's: who takes over the log finds another hash, and assigns once more.
    """
    digest = blake2b(digest_size=8)
    is_empty = True
    for name in sorted(names):
        topic = topics.named(name)
        if topic is not None:
            is_empty = False
            racks = [sorted(each) for each in topic.racks]
            digest.update(repr((topic.topic_id.int, topic.name, topic.partitions, racks)).encode())
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)
