"""Reads of a log: slices of whole batches, sizes, times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from minikafka.errors import ErrorCode, KafkaError
from minikafka.storage import timestamps
from minikafka.storage.errors import BadBatchError
from minikafka.storage.segment import Segment
from minikafka.storage.slice import LogSlice
from minikafka.storage.timestamps import TimestampedOffset

if TYPE_CHECKING:
    from minikafka.storage.log import Log

T = TypeVar("T")

COLD_READ_BYTES: Final = 1 << 20
"""A read of what was not verified yet ends after so much."""


class Reader:
    """See the module."""

    __slots__ = ("_log",)

    def __init__(self, log: Log) -> None:
        self._log = log

    def read(
        self, start_offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_batch: bool = True
    ) -> LogSlice:
        """Whole batches from the one that holds ``start_offset`` on, as a region of one segment file (row R15).

        They end at or before ``max_offset`` (default: the log's end) and within ``max_bytes``, except that the first
        batch comes even if larger when ``min_one_batch``. The slice may be empty. The first batch may begin before
        ``start_offset``. OFFSET_OUT_OF_RANGE outside of ``[log_start_offset, log_end_offset]``;
        KAFKA_STORAGE_ERROR, with ``corruption`` set, where the file is damaged.
        """
        log = self._log
        log.commit()
        log.refuse_while_cut()
        end_offset = log.log_end_offset
        if not log.log_start_offset <= start_offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.topic_partition} holds offsets {log.log_start_offset} to {end_offset}, not {start_offset}",
            )
        limit = end_offset if max_offset is None or max_offset > end_offset else max_offset
        active = log.segments.active
        found = None
        if start_offset < limit:
            if start_offset >= active.base_offset:
                found = self._read_segment(active, start_offset, max_bytes, limit, min_one_batch)
            else:
                found = self._read_closed(start_offset, max_bytes, limit, min_one_batch)
        return found or LogSlice(active.file, 0, 0)

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """About how many bytes of batches lie between two offsets, from memory and the indexes alone (row D5)."""
        self._log.refuse_while_cut()
        if start_offset >= end_offset:
            return 0
        segments = self._log.segments
        first, last = segments.index_of(start_offset), segments.index_of(end_offset)
        total = 0 if first == last else sum(segments[at].size for at in range(first, last))
        total += self._of_segment(segments[last], lambda segment: segment.estimate_position(end_offset))
        return total - self._of_segment(segments[first], lambda segment: segment.estimate_position(start_offset))

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record stamped at or after ``timestamp`` (ms); None when all are earlier (KIP-79)."""
        log = self._log
        log.commit()
        log.refuse_while_cut()
        start_offset = log.log_start_offset
        for segment in log.segments.since(start_offset):
            found = self._of_segment(
                segment, lambda segment: timestamps.first_at_or_after(segment, timestamp, start_offset)
            )
            if found is not None:
                return found
        return None

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """The first record that has the largest timestamp of the log; None for an empty log (KIP-734)."""
        log = self._log
        log.commit()
        log.refuse_while_cut()
        start_offset = log.log_start_offset
        newest = max(
            self._of_segment(segment, lambda segment: timestamps.largest(segment, start_offset))
            for segment in log.segments.since(start_offset)
        )
        return self.offset_for_timestamp(newest) if log.log_end_offset > log.log_start_offset else None

    def _read_closed(self, start_offset: int, max_bytes: int, limit: int, min_one_batch: bool) -> LogSlice | None:
        """The first segment that still has a batch at or after ``start_offset``: compaction may leave one without."""
        for segment in self._log.segments.since(start_offset):
            if segment.base_offset >= limit:
                return None
            found = self._read_segment(segment, start_offset, max_bytes, limit, min_one_batch)
            if found is not None:
                segment.touch()
                return found
        return None

    def _read_segment(
        self, segment: Segment, start_offset: int, max_bytes: int, limit: int, min_one_batch: bool
    ) -> LogSlice | None:
        try:
            begin, end = segment.bounds(start_offset, max_bytes, limit, min_one_batch=min_one_batch)
            if begin == segment.size:
                return None
            if end - begin > COLD_READ_BYTES and not segment.is_verified(begin, end):  # checksums keep the loop busy
                begin, end = segment.bounds(start_offset, COLD_READ_BYTES, limit, min_one_batch=min_one_batch)
            segment.verify(begin, end)
            return LogSlice(segment.file, begin, end - begin)
        except (BadBatchError, OSError) as error:
            self._log.unreadable(segment, error)

    def _of_segment(self, segment: Segment, ask: Callable[[Segment], T]) -> T:
        try:
            return ask(segment)
        except (BadBatchError, OSError) as error:
            self._log.unreadable(segment, error)
