"""Verification of a segment's bytes: of what former processes wrote, and again of what this one wrote.

What a former process wrote is verified once, before it is read (:func:`verify`, :func:`warm`).

Nobody computes the checksums of what this process wrote when it is read: they were right when it came. A disk that
loses it later is noticed by whoever reads it elsewhere, and looked for by :func:`verify_again`. Beside checksums: a
batch begins behind the one before it, and was written in the leader epoch that the log has for its offset. No checksum
covers these, for the broker fills them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from minikafka.model import NO_EPOCH
from minikafka.records.batch import LOG_OVERHEAD, BatchHeader
from minikafka.storage import positions
from minikafka.storage.errors import BadBatchError
from minikafka.storage.scan import check_behind, check_place, scan_batches
from minikafka.storage.segment import Segment


def verify(segment: Segment, begin: int, end: int) -> None:
    """BadBatchError unless every batch in ``[begin, end)`` is as it was appended. Each byte is checked once."""
    verified = segment.verified
    if verified.covers(begin, end):
        return
    end = min(end, verified.trusted_from)
    expected = segment.base_offset
    for position, header, _batch in scan_batches(segment.file, begin, end):
        check_place(position, header, expected, segment.next_offset)
        expected = header.next_offset
    check_behind(segment.file, end, segment.size, expected)
    segment.verified = verified.plus(begin, end)


def is_warm(segment: Segment, offset: int, max_bytes: int) -> bool:
    """True when so many bytes from ``offset`` on can be read without a checksum, from indexes in memory."""
    if segment.has_in_tail(offset):
        return True
    index, verified = segment.index_in_memory, segment.verified
    if index is None or segment.open_file is None:
        return False
    if verified.trusted_from == 0:
        return True
    entry = index.position_before(offset)
    if not verified.covers(entry, entry + 1):
        return False
    begin = positions.position_of(segment, offset)
    return segment.verified.covers(begin, min(begin + max_bytes, segment.size))


def warm(segment: Segment, offset: int, max_bytes: int) -> bool:
    """Make it so, up to the end of a batch; False when there is no batch at or behind ``offset``."""
    found = positions.find(segment, offset)
    if found is None:
        return False
    begin = end = segment.index.position_before(offset)
    expected = segment.base_offset
    for position, header, _batch in scan_batches(segment.file, begin, segment.verified.trusted_from):
        check_place(position, header, expected, segment.next_offset)
        expected = header.next_offset
        end = position + header.batch_length + LOG_OVERHEAD
        if end >= found[0] + max_bytes:
            break
    check_behind(segment.file, end, segment.size, expected)
    segment.verified = segment.verified.plus(begin, end)
    return True


def verify_again(start_offset: int, end: int, epoch_for: Callable[[int], int], segments: Iterable[Segment]) -> None:
    """Read the batches of the first segment from the one at ``start_offset`` to the one that begins at ``end``.

    BadBatchError at the first that is not as it was appended. Those between the index entry before and
    ``start_offset`` are read, too: they tell where it has to begin.
    """
    for segment in segments:
        entry = segment.index.offsets.lookup(start_offset - 1)
        begin = 0 if entry is None else entry.position
        expected = segment.base_offset
        for position, header, _batch in scan_batches(segment.file, begin, segment.size):
            if entry is not None and position == begin and header.last_offset != entry.offset:
                raise BadBatchError(position, f"a batch ends at {header.last_offset} where {entry.offset} was written")
            check_place(position, header, expected, segment.next_offset)
            _check_epoch(position, header, epoch_for)
            if position >= end:
                break
            expected = header.next_offset
        return


def _check_epoch(position: int, header: BatchHeader, epoch_for: Callable[[int], int]) -> None:
    epoch = epoch_for(header.last_offset)  # the log may begin in the middle of a batch
    if header.leader_epoch != epoch != NO_EPOCH:
        raise BadBatchError(position, f"leader epoch {header.leader_epoch} where {epoch} was written")
