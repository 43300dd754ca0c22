"""What is in a partition directory under a name that it has no right to: kept under another name, in nobody's way.

Somebody copied files, or a disk was repaired: a directory with a file's name, a name that no offset has, an empty
segment far from where the log ends. None of that may stop a start, or move an end of the log. Each is logged once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from minikafka.storage.closed import end_of
from minikafka.storage.damage import CORRUPT_SUFFIX
from minikafka.storage.disk import Disk
from minikafka.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, SNAPSHOT_SUFFIX, Segment, file_name, offset_in

log = structlog.get_logger(__name__)

NAMED_BY_OFFSET: Final = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)


def rename_impostors(disk: Disk, directory: str) -> None:
    """A partition directory holds files only, and what is named as a segment is named by an offset."""
    for name in disk.listdir(directory):
        if name.endswith(CORRUPT_SUFFIX):
            continue
        if disk.is_dir(f"{directory}/{name}"):
            set_aside(disk, directory, name, "it is a directory")
        elif any(name.endswith(suffix) and offset_in(name, suffix) is None for suffix in NAMED_BY_OFFSET):
            set_aside(disk, directory, name, "its name is no offset")


def drop_stray_segments(disk: Disk, segments: list[Segment], is_durable: Callable[[int], bool]) -> None:
    """An empty last segment begins where the log ends, for a roll made it: any other one is not of the log.

    Unless a flush has seen it (``is_durable``, by base offset): the cleaner leaves gaps before it.
    """
    while len(segments) > 1 and not segments[-1].size and not is_durable(segments[-1].base_offset):
        end_offset = end_of(disk, segments[-2])
        if end_offset is None or end_offset == segments[-1].base_offset:
            return
        stray = segments.pop()
        name = f"{file_name(stray.base_offset)}{LOG_SUFFIX}"
        set_aside(disk, stray.directory, name, f"it is empty, and the log ends at offset {end_offset}")


def set_aside(disk: Disk, directory: str, name: str, why: str) -> None:
    """Rename one of them."""
    path = f"{directory}/{name}"
    while disk.exists(path):
        path += CORRUPT_SUFFIX
    log.warning("no file of the log", path=f"{directory}/{name}", why=why, kept_as=path)
    disk.rename(f"{directory}/{name}", path)
