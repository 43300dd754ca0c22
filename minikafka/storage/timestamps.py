"""From a time to an offset: the time index narrows it to a batch, the records of the batch decide (KIP-79, KIP-734).

A batch is opened only where its header does not tell, and up to a budget: 1.4 KB of zstd may hold 2,000,000 records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from minikafka.errors import KafkaError
from minikafka.model import NO_TIMESTAMP
from minikafka.records.batch import LOG_OVERHEAD, TIMESTAMP_TYPE_FLAG, BatchHeader
from minikafka.records.read import iter_records
from minikafka.storage.positions import position_of
from minikafka.storage.scan import WALK_CHUNK_BYTES, scan_headers
from minikafka.storage.segment import Segment

BYTES_MAX: Final = 16 * 1024**2
"""Of records that come out of one batch."""
RECORDS_MAX: Final = 100_000
"""Looked at in one batch: about a tenth of a second."""


class TimestampedOffset(NamedTuple):
    """A record's timestamp (ms), its offset and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_of_all(timestamp: int, start_offset: int, segments: Iterable[Segment]) -> TimestampedOffset | None:
    """The first record from ``start_offset`` on that is stamped at or after ``timestamp``."""
    found = (first_at_or_after(segment, timestamp, start_offset) for segment in segments)
    return next((record for record in found if record is not None), None)


def first_of_largest(start_offset: int, segments: Iterable[Segment]) -> TimestampedOffset | None:
    """The first record from ``start_offset`` on that has the largest timestamp."""
    newest = max(largest(segment, start_offset) for segment in segments)
    return first_of_all(newest, start_offset, segments)


def first_at_or_after(segment: Segment, timestamp: int, start_offset: int) -> TimestampedOffset | None:
    """The first record of the segment, from ``start_offset`` on, that is stamped at or after ``timestamp``."""
    if segment.size == 0 or segment.max_timestamp.timestamp < timestamp:
        return None
    entry = segment.index.times.lookup(timestamp)
    from_offset = max(start_offset, segment.base_offset if entry is None else entry.offset)
    for position, header in _batches(segment, from_offset):
        if header.max_timestamp >= timestamp:
            found = _first_in_batch(segment, position, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def largest(segment: Segment, start_offset: int) -> int:
    """The largest timestamp in the segment from ``start_offset`` on; -1 when there is none."""
    if start_offset <= segment.base_offset:
        return segment.max_timestamp.timestamp
    newest = NO_TIMESTAMP
    for position, header in _batches(segment, start_offset):
        if header.base_offset >= start_offset:
            if header.record_count:  # else it has the time of records that the cleaner took
                newest = max(newest, header.max_timestamp)
            continue
        live = (at for at, offset in _times(segment, position, header) if offset >= start_offset)
        newest = max(newest, *live, NO_TIMESTAMP)
    return newest


def _first_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    """From the header where it tells, else from the records, as far as the budget goes.

    Beyond that, the beginning of the batch stands for the record sought, which is in it: nobody who seeks there misses
    a record.
    """
    epoch = header.leader_epoch
    is_whole = header.base_offset >= start_offset and header.record_count == header.last_offset_delta + 1
    if is_whole and (header.record_count == 1 or header.attributes & TIMESTAMP_TYPE_FLAG):
        return TimestampedOffset(header.max_timestamp, header.base_offset, epoch)
    if is_whole and not header.has_delete_horizon and header.base_timestamp >= timestamp:
        return TimestampedOffset(header.base_timestamp, header.base_offset, epoch)
    for at, offset in _times(segment, position, header):
        if at >= timestamp and offset >= start_offset:
            return TimestampedOffset(at, offset, epoch)
    return None


def _times(segment: Segment, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """(timestamp, offset) of the records of a batch; of its header where they are too many, cannot be read, or are not
    those that it tells of: a producer may send any timestamp and any offset with a record, even such as no answer can
    name."""
    offsets = range(header.base_offset, header.next_offset)
    batch = segment.file.pread(header.batch_length + LOG_OVERHEAD, position)
    try:
        for count, record in enumerate(iter_records(batch, 0, header, max_bytes=BYTES_MAX, with_headers=False)):
            if count == RECORDS_MAX or record.offset not in offsets or record.timestamp > header.max_timestamp:
                break
            yield record.timestamp, record.offset
        else:
            return
    except KafkaError:
        pass  # the producer sent it so, and its checksum is right
    yield header.max_timestamp, header.base_offset
    yield header.max_timestamp, header.last_offset


def _batches(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    return scan_headers(segment.file, position_of(segment, offset), segment.size, WALK_CHUNK_BYTES)
