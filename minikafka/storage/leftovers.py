"""Finishes compactions and deletions that were under way in a partition directory when the process ended.

``.deleted``, ``.cleaned`` and ``.tmp`` files are removed. A ``.log.swap`` is a complete, synced compacted segment, and
replaces the old ones, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.storage.aside import set_aside
from minikafka.storage.disk import Disk
from minikafka.storage.errors import BadBatchError, is_passing
from minikafka.storage.scan import scan_headers
from minikafka.storage.segment_list import UNKNOWN_SIZE, SegmentList
from minikafka.storage.segment_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SUFFIXES,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
    offset_in,
)

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"


def log_files(disk: Disk, directory: str) -> list[int]:
    """Base offsets of the segments in a partition directory, ascending."""
    return _offsets(disk.listdir(directory), LOG_SUFFIX)


def with_transaction_index(disk: Disk, directory: str) -> frozenset[int]:
    """Base offsets of the segments with an index of aborted transactions."""
    return frozenset(_offsets(disk.listdir(directory), TRANSACTION_INDEX_SUFFIX))


def _offsets(names: Sequence[str], suffix: str) -> list[int]:
    return sorted(offset for name in names if (offset := offset_in(name, suffix)) is not None)


def remove_leftovers(disk: Disk, directory: str, segment_list: SegmentList) -> None:
    """Leave only segments, snapshots and checkpoints in the directory.

    A damaged compacted segment is removed. If its old segments are gone, the list of segments shows the loss.
    """
    names = disk.listdir(directory)
    swaps = _offsets(names, LOG_SUFFIX + SWAP_SUFFIX)
    for base in swaps:
        if segment_list.size_of(base) == UNKNOWN_SIZE:
            _finish_swap(disk, directory, base)
        else:  # the cleaner takes the size off the list before anything has such a name
            set_aside(disk, directory, f"{file_name(base)}{LOG_SUFFIX}{SWAP_SUFFIX}", "its segment was not compacted")
    for name in names:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX, SWAP_SUFFIX)):
            disk.unlink(f"{directory}/{name}")
    there = log_files(disk, directory)
    for kind in INDEX_SUFFIXES:
        for base in set(_offsets(names, kind)).difference(there):
            disk.unlink(f"{directory}/{file_name(base)}{kind}")
    if swaps:
        disk.fsync_dir(directory)


def _finish_swap(disk: Disk, directory: str, base_offset: int) -> None:
    """The compacted segment replaces those whose offsets it covers; another one is merely not compacted."""
    path = f"{directory}/{file_name(base_offset)}{LOG_SUFFIX}{SWAP_SUFFIX}"
    end_offset = base_offset
    try:
        for _position, header in scan_headers(disk.open_read(path), 0, disk.size(path)):
            end_offset = header.next_offset
    except BadBatchError:
        return
    except OSError as error:
        if is_passing(error):
            raise
        return
    there = log_files(disk, directory)
    if not any(base >= end_offset and base > base_offset for base in there):
        return  # the active segment is never compacted
    for base in there:  # with the old log gone, what has a final name is of the new one
        if base_offset <= base < end_offset:
            for kind in SUFFIXES:
                disk.unlink(f"{directory}/{file_name(base)}{kind}")
    for kind in SUFFIXES:
        target = f"{directory}/{file_name(base_offset)}{kind}"
        if disk.exists(target + SWAP_SUFFIX):
            disk.rename(target + SWAP_SUFFIX, target)
