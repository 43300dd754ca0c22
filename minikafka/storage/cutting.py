"""Cuts of a log, at its end (truncation) and at its start (retention, DeleteRecords).

Truncation is durable, step by step, before anything can be appended where the old records were: otherwise a crash
could leave old and new batches interleaved with nothing to tell them apart. In this order: the recovery point on disk
falls below the cut; segments behind it go, newest first, each removal synced; the file is cut and synced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.errors import ErrorCode, KafkaError
from minikafka.storage import retention

if TYPE_CHECKING:
    from minikafka.storage.log import Log


class Cutter:
    """See the module."""

    __slots__ = ("_log",)

    def __init__(self, log: Log) -> None:
        self._log = log

    # -- the end ----------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Cut everything from ``offset`` on, durably; an offset inside a batch takes that batch with it.

        False when the log already ends at or before ``offset``. Rows R4, R13.
        """
        log = self._log
        log.commit()
        if offset >= log.log_end_offset:
            # An epoch that this replica began as leader, without an append, may contradict the new leader's log.
            log.epochs.truncate_from_end(log.log_end_offset)
            return False
        if offset < log.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with log.guard("truncate"):
            log.lower_bounds(offset)
            while log.segments.active.base_offset > offset:
                self._drop_last()
            end_offset = self._cut_active(offset)
            self._end_at(end_offset)
            self._forget_producers_from(end_offset)
            log.disk.fsync_dir(log.directory)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, durably; the log is empty and begins at ``offset`` (row R13)."""
        log = self._log
        log.commit()
        with log.guard("restart"):
            log.lower_bounds(0)  # a crash on the way may leave the directory empty
            log.epochs.clear()
            log.epochs.store(log.disk, log.directory)
            log.snapshots.remove(below=offset + 1, above=offset)
            while len(log.segments) > 1:
                self._drop_last()
            log.discard(log.segments[0])
            log.segments.replace_all(log.new_segment(offset))
            log.disk.fsync_dir(log.directory)
            log.producers.clear()
            log.log_start_offset = offset
            self._end_at(offset)
            log.recovery_point = offset

    def _cut_active(self, offset: int) -> int:
        """Cut the last segment, which holds ``offset`` now; where the log ends then."""
        log = self._log
        active = log.segments.active
        if offset == active.base_offset:
            active.clear()
            return offset
        if not active.is_active:
            active.activate()
        found = active.find(offset)
        position = active.size if found is None else found[0]
        end_offset = offset if found is None else min(offset, found[1].base_offset)
        log.lower_bounds(end_offset)
        active.truncate(position, end_offset)
        return end_offset

    def _drop_last(self) -> None:
        log = self._log
        log.discard(log.segments.pop())
        log.disk.fsync_dir(log.directory)

    def _end_at(self, end_offset: int) -> None:
        log = self._log
        log.epochs.truncate_from_end(end_offset)
        log.log_end_offset = end_offset
        log.log_start_offset = min(log.log_start_offset, end_offset)
        log.first_dirty_offset = min(log.first_dirty_offset, end_offset)
        log.generation += 1
        log.appender.drop_staged()

    def _forget_producers_from(self, end_offset: int) -> None:
        log = self._log
        log.snapshots.remove(above=end_offset)
        if log.producers.must_reload(end_offset):
            log.producers = log.snapshots.load(log.segments, log.log_start_offset, end_offset)

    # -- the start --------------------------------------------------------------------------------------------------

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Records below ``offset`` are no longer part of the log. False when they already were not.

        OFFSET_OUT_OF_RANGE when the log ends before ``offset``.
        """
        log = self._log
        log.commit()
        if offset <= log.log_start_offset:
            return False
        if offset > log.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.topic_partition} ends at {log.log_end_offset}; it cannot start at {offset}",
            )
        log.log_start_offset = offset
        log.epochs.truncate_from_start(offset)
        return True

    def delete_records(self, offset: int, high_watermark: int) -> int:
        """DeleteRecords: drop what lies below ``offset`` (-1: the high watermark); the new log start offset."""
        log = self._log
        offset = high_watermark if offset == -1 else offset
        if not 0 <= offset <= high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"records of {log.topic_partition} can be deleted up to {high_watermark}, not {offset}",
            )
        self.maybe_increment_log_start_offset(offset)
        return log.log_start_offset

    def delete_old_segments(self, high_watermark: int, wall_ms: int) -> int:
        """Apply retention; how many segments went. See :mod:`minikafka.storage.retention`."""
        log = self._log
        log.commit()
        with log.guard("delete segments of"):
            count = retention.deletable(
                log.segments,
                log.config,
                log_start_offset=log.log_start_offset,
                high_watermark=high_watermark,
                wall_ms=wall_ms,
            )
            if count:
                self.maybe_increment_log_start_offset(log.segments[count].base_offset)
                for segment in log.segments.drop_first(count):
                    log.discard(segment)
                log.snapshots.remove(below=log.segments[0].base_offset)
        return count
