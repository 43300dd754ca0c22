"""From a time to an offset: the time index narrows it to a batch, the records of the batch decide (KIP-79, KIP-734)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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


def _batches(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    return scan_headers(segment.file, segment.position_of(offset), segment.size, WALK_CHUNK_BYTES)
