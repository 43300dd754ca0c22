"""Directories that a start finds in a log directory, by their names."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from minikafka.model import TopicPartition
from minikafka.storage.directory_names import (
    deleted_directory_id,
    is_stray_name,
    parse_directory_name,
    parse_future_directory_name,
)
from minikafka.storage.disk import Disk


class FoundDirectories(NamedTuple):
    """Paths and partitions, in the order of names."""

    logs: list[TopicPartition]
    unusable: dict[TopicPartition, str]
    """Entries with a log's name that are not logs, and why."""
    futures: list[tuple[TopicPartition, UUID]]
    deleted: list[str]
    deleted_ids: set[UUID]
    strays: list[str]


def find_directories(disk: Disk, path: str) -> FoundDirectories:
    """Sort the names in a log directory; OSError when it cannot be read."""
    found = FoundDirectories([], {}, [], [], set(), [])
    for name in disk.listdir(path):
        tp, future, deleted = (
            parse_directory_name(name),
            parse_future_directory_name(name),
            deleted_directory_id(name),
        )
        if tp is not None and disk.is_dir(f"{path}/{name}"):
            found.logs.append(tp)
        elif tp is not None:
            found.unusable[tp] = "it is a file"
        elif future is not None:
            found.futures.append(future)
        elif deleted is not None:
            found.deleted_ids.add(deleted)
            found.deleted.append(f"{path}/{name}")
        elif is_stray_name(name):
            found.strays.append(f"{path}/{name}")
    return found
