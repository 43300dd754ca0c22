"""Positions of batches in the file of a segment, found by offset.

The newest batches of an active segment are known from memory (:class:`~minikafka.storage.tail.Tail`). Elsewhere the
offset index tells where to begin, and the batch headers from there on tell the rest. An index that misleads is made
anew from the file; BadBatchError when the file itself is damaged.
"""

from __future__ import annotations

from minikafka.records.batch import HEADER_SIZE, BatchHeader
from minikafka.storage.batch_index import BatchIndex
from minikafka.storage.errors import BadBatchError
from minikafka.storage.index import DamagedIndexError
from minikafka.storage.scan import WALK_CHUNK_BYTES, boundary_before, check_place, scan_headers
from minikafka.storage.segment import Segment


def position_of(segment: Segment, offset: int) -> int:
    """Position of the first batch that ends at or after ``offset``; ``size`` when there is none."""
    tail = segment.tail
    if tail is not None and offset >= tail.first_offset:
        return tail.position_of(offset, segment.size)
    found = find(segment, offset)
    return segment.size if found is None else found[0]


def find(segment: Segment, offset: int) -> tuple[int, BatchHeader] | None:
    """(position, header) of the first batch that ends at or after ``offset``, read from the file."""
    if offset >= segment.next_offset:
        return None
    try:
        return _walk(segment, offset, offset)
    except (BadBatchError, DamagedIndexError):
        segment.rebuild_index()
        return _walk(segment, offset, offset)


def bounds(segment: Segment, offset: int, max_bytes: int, max_offset: int, *, min_one_batch: bool) -> tuple[int, int]:
    """(begin, end) positions of the whole batches to read from ``offset`` on.

    They end at or before ``max_offset`` and hold at most ``max_bytes``, or one larger batch when ``min_one_batch``.
    """
    begin = position_of(segment, offset)
    end = segment.size if max_offset >= segment.next_offset else position_of(segment, max_offset)
    if begin >= end:
        return begin, begin
    if begin + max_bytes < end:
        end = _boundary(segment, begin, begin + max_bytes, min_one_batch)
    return begin, end


def end_before(segment: Segment, position: int) -> int:
    """The offset after the batch that ends at ``position``, or one in the gap behind it; no batch is asked itself.

    The newest batches are known. Elsewhere the next one tells, whose header is read. Where that cannot be, the end of
    the segment is all that is known.
    """
    if position >= segment.size:
        return segment.next_offset
    known = -1 if segment.tail is None else segment.tail.end_before(position)
    if known >= 0:
        return known
    try:
        _position, behind = next(scan_headers(segment.file, position, segment.size, HEADER_SIZE))
    except (BadBatchError, OSError):  # whoever reads on finds out
        return segment.next_offset
    return min(behind.base_offset, segment.next_offset)


def cut_at(segment: Segment, offset: int) -> tuple[int, int, BadBatchError | None]:
    """(position, end offset) of the batches before ``offset``, and the damage if they end before their time."""
    try:
        found = _walk(segment, offset, offset - 1)
    except (BadBatchError, DamagedIndexError):
        index, position, end_offset, damage = BatchIndex.rebuild_before(
            offset,
            segment.base_offset,
            segment.index_interval_bytes,
            segment.file,
            segment.size,
            segment.next_offset,
        )
        segment.replace_index(index)
        return position, end_offset, damage
    return (segment.size, offset, None) if found is None else (found[0], min(offset, found[1].base_offset), None)


def cut_floor(segment: Segment, offset: int) -> int:
    """An offset at or before that of :func:`cut_at`, from memory alone."""
    tail, index = segment.tail, segment.index_in_memory
    if tail is not None and offset > tail.first_offset:
        return tail.begin_of(offset)
    entry = None if index is None else index.offsets.lookup(offset - 1)
    return segment.base_offset if entry is None else entry.offset + 1


def estimate(segment: Segment, offset: int) -> int:
    """About where ``offset`` is, from memory alone: without an index, as if all records were of one size."""
    tail = segment.tail
    if tail is not None and offset >= tail.first_offset:
        return tail.position_of(offset, segment.size)
    if offset >= segment.next_offset:
        return segment.size
    index = segment.index_in_memory
    if index is None:
        base_offset = segment.base_offset
        return max(0, offset - base_offset) * segment.size // (segment.next_offset - base_offset)
    return index.position_before(offset)


def _walk(segment: Segment, offset: int, from_offset: int) -> tuple[int, BatchHeader] | None:
    """The first batch that ends at or after ``offset``, looked for from the index entry before ``from_offset`` on."""
    entry = segment.index.offsets.lookup(from_offset)
    start, expected = (0 if entry is None else entry.position), segment.base_offset
    for position, header in scan_headers(segment.file, start, segment.size, WALK_CHUNK_BYTES):
        check_place(position, header, expected, segment.next_offset)
        last_offset, expected = header.last_offset, header.next_offset
        if entry is not None and position == start and last_offset != entry.offset:
            raise DamagedIndexError(f"the entry for offset {entry.offset} points at {last_offset}")
        if last_offset >= offset:
            return position, header
    return None


def _boundary(segment: Segment, begin: int, limit: int, min_one_batch: bool) -> int:
    """The last known batch boundary in ``(begin, limit]``, else the end of the first batch or ``begin``."""
    tail = segment.tail
    first_end = -1 if tail is None else tail.boundary_after(begin, segment.size)
    if tail is not None and first_end >= 0:
        known = tail.boundary_at_or_before(limit)
        return known if known > begin else first_end if min_one_batch else begin
    known = segment.index.offsets.boundary_at_or_before(limit)
    if known > begin:
        return known
    return boundary_before(segment.file, begin, segment.size, limit, min_one_batch=min_one_batch)
