"""Names of partitions' directories, as Kafka spells them: a log, one on its way out, a copy on its way in, a stray.

A topic's name is cut where the whole would be too long for a file system; such a copy is not recognised after a
restart, and dropped.
"""

from __future__ import annotations

import re
from uuid import UUID

from minikafka.model import TopicPartition

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
MAX_NAME_LENGTH = 255

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_DELETED = re.compile(r".*\.([0-9a-f]{32})-delete")
_STRAY = re.compile(r".*\.[0-9a-f]{32}-stray")
_FUTURE = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})\.([0-9a-f]{32})-future")


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition whose log a directory of that name holds; None when it is not one."""
    match = _PARTITION.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def parse_future_directory_name(name: str) -> tuple[TopicPartition, UUID] | None:
    """The partition whose copy a directory of that name holds, and the copy's id; None when it is not one."""
    match = _FUTURE.fullmatch(name)
    return (TopicPartition(match[1], int(match[2])), UUID(hex=match[3])) if match else None


def deleted_directory_id(name: str) -> UUID | None:
    """The id in the name of a directory on its way out; None when it is not one."""
    match = _DELETED.fullmatch(name)
    return UUID(hex=match[1]) if match else None


def is_stray_name(name: str) -> bool:
    """A log of that name was set aside: metadata does not place it here."""
    return _STRAY.fullmatch(name) is not None


def deleted_directory_name(tp: TopicPartition, unique: UUID) -> str:
    """What a partition's directory is renamed to before it is removed."""
    return _with_suffix(tp, unique, DELETE_SUFFIX)


def future_directory_name(tp: TopicPartition, unique: UUID) -> str:
    """Where a copy is made that is to take the place of the log in another log directory."""
    return _with_suffix(tp, unique, FUTURE_SUFFIX)


def stray_directory_name(tp: TopicPartition, unique: UUID) -> str:
    """What a log is renamed to that metadata does not place here; it is kept for a while."""
    return _with_suffix(tp, unique, STRAY_SUFFIX)


def _with_suffix(tp: TopicPartition, unique: UUID, suffix: str) -> str:
    suffix = f"-{tp.partition}.{unique.hex}{suffix}"
    return tp.topic[: MAX_NAME_LENGTH - len(suffix)] + suffix
