"""Checks of closed segments at a start: missing ones, and their ends.

A start trusts records below the recovery point, but checks the end of each segment there: an empty, cut or unreadable
file would otherwise be found only by a later read, after the node has led with it. The middle of a segment is verified
at its first read.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import Final

from minikafka.storage.damage import DamageFound
from minikafka.storage.disk import Disk, File
from minikafka.storage.errors import BadBatchError, is_passing
from minikafka.storage.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY_BYTES
from minikafka.storage.scan import WALK_CHUNK_BYTES, check_place, scan_headers
from minikafka.storage.segment import Segment
from minikafka.storage.segment_list import SegmentList
from minikafka.storage.segment_names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX

_LOST: Final = "the list of segments is missing"
_OFFSET_ENTRY: Final = struct.Struct(">ii")


def check_listed(
    damage: DamageFound, segment_list: SegmentList, segments: Sequence[Segment], log_start_offset: int
) -> None:
    """A listed segment that is missing or too small is damage, unless the log starts after it anyway."""
    sizes = {segment.base_offset: segment.size for segment in segments}
    missing = segment_list.durable - sizes.keys()
    short = {base for base, size in sizes.items() if size < segment_list.size_of(base)}
    bounds = sorted({*missing, *sizes})
    for base, end_offset in zip_longest(bounds, bounds[1:]):
        if end_offset is not None and end_offset <= log_start_offset:
            continue
        if base in missing:
            damage.mark(base, "a segment is missing")
        elif base in short:
            damage.mark(base, f"the segment had {segment_list.size_of(base)} bytes", position=sizes[base])
    segment_list.remove(missing, shrinking=short)  # the mark says it from now on


def check_start(damage: DamageFound, first: Segment, log_start_offset: int, noted: int | None) -> None:
    """A log that begins after its noted start lost its first segment, unless its log start is after that anyway."""
    if noted is not None and first.base_offset > max(noted, log_start_offset):
        damage.mark(max(noted, log_start_offset), f"the log began at offset {noted}, not at {first.base_offset}")


def check_unlisted(
    damage: DamageFound,
    segments: Sequence[Segment],
    log_start_offset: int,
    recovery_point: int,
) -> None:
    """A log without a readable list must have all its files: a hole in it is damage.

    The list is written before the first file goes, so the first segment must begin at or before the log start. Below
    the recovery point only the cleaner leaves gaps, and a cleaned log has a list: if that was lost, segments may be
    lost, too. So a cleaned log without its list is fetched again because of its gaps.
    """
    first = segments[0].base_offset
    if first > log_start_offset:
        damage.mark(log_start_offset, f"{_LOST}, and the log begins at offset {first}")
    if len(segments) > 1 and segments[1].base_offset <= recovery_point:
        for before, behind in pairwise(segments):
            end = end_of(damage.disk, before) if behind.base_offset <= recovery_point else behind.base_offset
            if end is not None and log_start_offset < behind.base_offset > end:
                damage.mark(end, f"{_LOST}, and offset {behind.base_offset} follows {end - 1}")
                break


def check_closed(damage: DamageFound, segments: Sequence[Segment]) -> None:
    """Check the ends of trusted segments. Segments after damage stay until they are fetched again."""
    for segment in segments:
        bad = _damage_at_end(damage.disk, segment)
        if bad is not None:
            path = segment.path(LOG_SUFFIX)
            damage.mark(segment.base_offset, bad.why, path=path, position=bad.position)


def _damage_at_end(disk: Disk, segment: Segment) -> BadBatchError | None:
    """Damage at the end of ``segment``, which another one follows; None if it is whole. Costs a few small reads."""
    try:
        end_offset = _end(disk, segment)
    except BadBatchError as error:
        return error
    except OSError as error:
        if is_passing(error):
            raise
        return BadBatchError(0, f"the file cannot be read ({error})")
    if end_offset > segment.next_offset:
        return BadBatchError(segment.size, f"offset {segment.next_offset} should follow, but {end_offset} does")
    return None


def end_of(disk: Disk, segment: Segment) -> int | None:
    """The offset after the last batch in the file; None when it cannot be read."""
    try:
        return _end(disk, segment)
    except BadBatchError:
        return None
    except OSError as error:
        if is_passing(error):
            raise
        return None


def _end(disk: Disk, segment: Segment) -> int:
    file = disk.open_read(segment.path(LOG_SUFFIX))
    tail = _last_entry(disk, segment.path(OFFSET_INDEX_SUFFIX), OFFSET_ENTRY_BYTES)
    start = 0 if tail is None else _OFFSET_ENTRY.unpack(tail)[1]
    if start == segment.size:  # of a batch that a cut took away; the file of the index is older than the cut
        start = 0
    try:
        return _walk(file, start, segment)
    except BadBatchError:
        return _walk(file, 0, segment)  # the index may be what is damaged


def _walk(file: File, start: int, segment: Segment) -> int:
    end_offset = segment.base_offset
    if not 0 <= start <= segment.size:
        raise BadBatchError(segment.size, f"the file ends before byte {start}, which its index has")
    for position, header in scan_headers(file, start, segment.size, WALK_CHUNK_BYTES):
        check_place(position, header, end_offset, segment.base_offset + MAX_RELATIVE_OFFSET + 1)
        end_offset = header.next_offset
    return end_offset


def _last_entry(disk: Disk, path: str, size: int) -> bytes | None:
    """The last entry of an index file; None without a whole, readable one."""
    if not disk.exists(path):
        return None
    file_size = disk.size(path)
    try:
        entry = disk.open_read(path).pread(size, file_size - size) if file_size >= size else b""
    except OSError as error:
        if is_passing(error):
            raise
        return None
    return entry if len(entry) == size and file_size % size == 0 else None
