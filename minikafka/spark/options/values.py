"""Parsed choices of topics, and of the offsets where reading begins and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from minikafka.model import EARLIEST, LATEST, TopicPartition


class Edge(IntEnum):
    """An end of every partition's log."""

    LATEST = LATEST
    EARLIEST = EARLIEST


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; -1 latest, -2 earliest."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record at or after a time (ms) in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first record at or after a time (ms) for each partition."""

    timestamps_ms: Mapping[TopicPartition, int]


OffsetSpec: TypeAlias = Edge | AtOffsets | AtTimestamp | AtTimestamps


@dataclass(frozen=True, slots=True)
class NamedTopics:
    """All partitions of these topics, including later ones."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MatchingTopics:
    """All partitions of every topic whose name contains a match of the pattern, including later topics."""

    pattern: str


@dataclass(frozen=True, slots=True)
class AssignedPartitions:
    """Exactly these partitions."""

    partitions: tuple[TopicPartition, ...]


TopicChoice: TypeAlias = NamedTopics | MatchingTopics | AssignedPartitions
