"""From a time to an offset: the time index narrows it to a batch, the records of the batch decide (KIP-79, KIP-734)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minikafka.model import NO_TIMESTAMP
from minikafka.records.batch import LOG_OVERHEAD, BatchHeader
from minikafka.records.read import iter_records
from minikafka.storage.scan import scan_headers
from minikafka.storage.segment import WALK_CHUNK_BYTES, Segment


class TimestampedOffset(NamedTuple):
    """A record's timestamp (ms), its offset and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(segment: Segment, timestamp: int, start_offset: int) -> TimestampedOffset | None:
    """The first record of the segment, from ``start_offset`` on, that is stamped at or after ``timestamp``."""
    if segment.size == 0 or segment.max_timestamp.timestamp < timestamp:
        return None
    entry = segment.index.times.lookup(timestamp)
    from_offset = max(start_offset, segment.base_offset if entry is None else entry.offset)
    for position, header in _batches(segment, from_offset):
        if header.max_timestamp < timestamp:
            continue
        batch = segment.file.pread(header.batch_length + LOG_OVERHEAD, position)
        for record in iter_records(batch, 0, header):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampedOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def largest(segment: Segment, start_offset: int) -> int:
    """The largest timestamp in the segment from ``start_offset`` on; -1 when there is none."""
    if start_offset <= segment.base_offset:
        return segment.max_timestamp.timestamp
    newest = NO_TIMESTAMP
    for position, header in _batches(segment, start_offset):
        if header.base_offset >= start_offset:
            newest = max(newest, header.max_timestamp)
            continue
        batch = segment.file.pread(header.batch_length + LOG_OVERHEAD, position)
        live = (record.timestamp for record in iter_records(batch, 0, header) if record.offset >= start_offset)
        newest = max(newest, *live, NO_TIMESTAMP)
    return newest


def _batches(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    return scan_headers(segment.file, segment.position_of(offset), segment.size, WALK_CHUNK_BYTES)
