"""The topics of the cluster, as the group coordinator sees them.

A driver gives them. They may be newer than what a group was last told of: it looks at them again with the first
heartbeat after each change (``Shard.topics_version``).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol
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


class _Known(NamedTuple):
    """Of a topic."""

    hash: int
    partitions: int


class TopicHashes:
    """An int64 for the topics of a group, another one when they come, go, or get partitions or racks (KIP-1101).

    Each topic is hashed once, for all groups, until topics change. The functions are not Kafka's: who takes over the
    log finds another hash, and assigns once more.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: dict[str, _Known] = {}

    def forget(self) -> None:
        """Topics have changed."""
        self._known.clear()

    def of(self, names: Iterable[str]) -> int:
        """Of the topics of these names that there are; 0 without any."""
        return (sum(self._of(name).hash for name in names) + (1 << 63)) % (1 << 64) - (1 << 63)

    def partitions_of(self, names: Iterable[str]) -> int:
        """How many partitions these topics have."""
        return sum(self._of(name).partitions for name in names)

    def _of(self, name: str) -> _Known:
        found = self._known.get(name)
        if found is None and (topic := self._topics.named(name)) is not None:
            found = self._known[name] = _Known(_hash(topic), topic.partitions)
        return found or _NO_TOPIC


_NO_TOPIC: Final = _Known(0, 0)


def _hash(topic: Topic) -> int:
    racks = [sorted(each) for each in topic.racks]
    what = repr((topic.topic_id.int, topic.name, topic.partitions, racks))
    return int.from_bytes(blake2b(what.encode(), digest_size=8).digest(), "big")
