"""Foreign entries in a partition directory that look like files of the log: they are renamed.

Somebody copied files, or a disk was repaired: a directory with a file's name, an impossible offset, an empty segment
away from the log end. They must neither stop a start nor move an end of the log. Each is logged once.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from minikafka.storage.aside import CORRUPT_SUFFIX, set_aside
from minikafka.storage.closed import end_of
from minikafka.storage.disk import Disk
from minikafka.storage.segment import Segment
from minikafka.storage.segment_names import INDEX_SUFFIXES, LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name, offset_in

NAMED_BY_OFFSET: Final = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)


def rename_impostors(disk: Disk, directory: str) -> None:
    """Rename directories, and segments whose name is not an offset."""
    for name in disk.listdir(directory):
        if name.endswith(CORRUPT_SUFFIX):
            continue
        if disk.is_dir(f"{directory}/{name}"):
            set_aside(disk, directory, name, "it is a directory")
        elif any(name.endswith(suffix) and offset_in(name, suffix) is None for suffix in NAMED_BY_OFFSET):
            set_aside(disk, directory, name, "its name is no offset")


def drop_stray_segments(
    disk: Disk, segments: list[Segment], listed: Container[int], recovery_point: int, begins_by: int
) -> None:
    """Rename empty, unlisted segments that no roll can have made: a roll makes the last one, at the log end.

    The last one may also begin at or below the recovery point, where the cleaner leaves gaps. A single one must begin
    where the log may begin, at ``begins_by`` or before.
    """
    for at in reversed(range(len(segments))):
        segment = segments[at]
        if segment.size or segment.base_offset in listed:
            continue
        if len(segments) == 1 and segment.base_offset <= begins_by:
            continue
        if at and segment is segments[-1] and _may_be_active(disk, segments[at - 1], segment, recovery_point):
            continue
        del segments[at]
        name = f"{file_name(segment.base_offset)}{LOG_SUFFIX}"
        set_aside(disk, segment.directory, name, "it is empty, and does not begin where the log ends")


def _may_be_active(disk: Disk, before: Segment, last: Segment, recovery_point: int) -> bool:
    return last.base_offset <= recovery_point or end_of(disk, before) in (None, last.base_offset)
