"""Cuts of a log, at its end (truncation) and at its start (retention, DeleteRecords).

A truncation is a job in three parts: ``prepare_truncation`` or ``prepare_restart`` on the event loop,
:meth:`CutJob.run` in any thread, ``complete_cut`` on the loop. From the first part on, no record at or above the cut is
served or counted. In between, appends and flushes are a mistake of the caller, and reads are refused with a retriable
error.

The job is durable step by step before new records can take the place of the old ones. Otherwise a crash could leave a
mix of old and new batches. The order: lower the recovery point on disk below the cut, and with it the log start and the
high watermark; remove later segments from the list and then from the disk, newest first, each removal synced; cut and
sync the file. Until the job is complete ``Log.cut_floor`` keeps checkpoints below the cut, too.

A deletion at the start has the same three parts: ``prepare_deletion``, :meth:`DeletionJob.run`, ``complete_deletion``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.storage import positions, retention
from minikafka.storage.cut_job import EVERYTHING, CutJob
from minikafka.storage.errors import BadBatchError, is_passing
from minikafka.storage.producer_state import ProducerState
from minikafka.storage.retention import DeletionJob
from minikafka.storage.segment import Segment
from minikafka.storage.segment_cache import SegmentCache

if TYPE_CHECKING:
    from minikafka.storage.log import Log

SEGMENTS_AT_ONCE: Final = 25
"""Deleted in one turn of the loop: some 10 ms. Retention may find thousands."""


class Cutter:
    """See the module."""

    __slots__ = ("_job", "_log")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._job: CutJob | None = None

    # -- the end ----------------------------------------------------------------------------------------------------

    def prepare_truncation(self, offset: int) -> CutJob | None:
        """Cut the log at ``offset``, or before the batch that contains it, as a follower does (rows R4, R13).

        Run the job in any thread, then :meth:`complete_cut`. None when the log already ends at or before ``offset``.
        """
        log = self._log
        log.commit()
        assert self._job is None, "a cut is under way"
        if offset >= log.log_end_offset:
            # An epoch that this replica began as leader, without an append, may contradict the new leader's log.
            log.epochs.truncate_from_end(log.log_end_offset)
            return None
        if offset < log.segments[0].base_offset:
            return self.prepare_restart(offset)
        floor = self._floor(offset)
        end_floor = positions.cut_floor(log.segments[log.segments.index_of(offset)], offset)
        log.flusher.forget_since(offset)
        dropped = log.segments.drop_behind(offset)
        job = self._begin(
            CutJob(
                log,
                offset=offset,
                kept=_copies(log.segments.closed),
                last=log.segments.active.copy(SegmentCache()),
                dropped=_taken_out(dropped),
                touched=log.producers.since(floor),
                lower_recorded=log.lower_recorded(floor, end_floor, log.segments[0].base_offset),
                removal=log.segment_list.take_off(
                    [segment.base_offset for segment in dropped], shrinking=[log.active_base_offset]
                ),
            ),
            floor,
        )
        log.recovery_point = min(log.recovery_point, offset)
        self._end_at(offset)
        return job

    def prepare_restart(self, offset: int) -> CutJob:
        """Delete all records; the log is empty and begins at ``offset`` (row R13). Run the job as that of a cut."""
        log = self._log
        log.commit()
        assert self._job is None, "a cut is under way"
        log.flusher.forget_since(0)
        lower_recorded = log.lower_recorded(0, 0, offset)
        dropped = _taken_out(log.segments)
        log.segments.replace_all(log.loaded_segment(offset, 0, offset))
        log.epochs.clear()
        log.producers.clear()
        job = self._begin(
            CutJob(
                log,
                offset=EVERYTHING,
                kept=[],
                last=log.segments.active.copy(SegmentCache()),
                dropped=dropped,
                touched=[],
                lower_recorded=lower_recorded,
                removal=log.segment_list.take_off(segment.base_offset for segment in dropped),
            ),
            0,
        )
        log.recovery_point = log.log_start_offset = offset
        self._end_at(offset)
        return job

    def complete_cut(self, job: CutJob) -> None:
        """The job has run: the log ends at the cut. If the job failed, the log goes offline: StorageFailure."""
        log = self._log
        assert job.is_done
        assert job is self._job
        self._job = log.cut_floor = None
        log.segment_list.gone(job.removal)
        with log.guard("cut"):
            if job.error is not None:
                raise job.error
        log.segments.active.abandon()
        log.segments.replace_last(log.owned(job.last))
        log.recovery_point = min(log.recovery_point, job.end_offset)
        self._end_at(job.end_offset)
        with log.guard("note the end of"):
            log.end_slot.note(job.reached, log.epochs.epoch_before(job.reached))
            log.end_slot.note_start(log.segments[0].base_offset)
        if isinstance(job.producers, ProducerState):
            log.producers = job.producers
        else:
            log.producers.rewind(job.producers)
        log.corruption = job.corruption or log.corruption
        with log.guard("clear away what was cut off"):
            log.throw_away(job.trash)

    def truncate_to(self, offset: int) -> bool:
        """Cut the log at ``offset`` now. False when it already ends at or before it."""
        job = self.prepare_truncation(offset)
        if job is not None:
            job.run()
            self.complete_cut(job)
        return job is not None

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete all records now; the log is empty and begins at ``offset``."""
        job = self.prepare_restart(offset)
        job.run()
        self.complete_cut(job)

    def _floor(self, offset: int) -> int:
        """Lowest possible log end after a cut at ``offset``, mostly from memory alone.

        It is exact if a lower recovery point would mislead a recovery: in the cleaned part, and near the log start.
        """
        log = self._log
        segment = log.segments[log.segments.index_of(offset)]
        floor = positions.cut_floor(segment, offset)
        if floor >= max(log.log_start_offset, log.first_dirty_offset):
            return floor
        try:
            found = positions.find(segment, offset)
        except (BadBatchError, OSError):
            return segment.base_offset
        return offset if found is None else min(offset, found[1].base_offset)

    def _begin(self, job: CutJob, floor: int) -> CutJob:
        log = self._log
        self._job = job
        log.cut_floor = floor
        log.generation += 1
        return job

    def _end_at(self, end_offset: int) -> None:
        log = self._log
        log.epochs.truncate_from_end(end_offset)
        log.log_end_offset = end_offset
        log.lowest_cut = end_offset if log.lowest_cut is None else min(log.lowest_cut, end_offset)
        log.log_start_offset = min(log.log_start_offset, end_offset)
        log.first_dirty_offset = min(log.first_dirty_offset, end_offset)
        log.appender.drop_staged()

    # -- the start --------------------------------------------------------------------------------------------------

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Remove records below ``offset`` from the log, logically. False when the log starts there or later already.

        OFFSET_OUT_OF_RANGE when the log ends before ``offset``.
        """
        log = self._log
        log.commit()
        log.refuse_while_cut()
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
        """DeleteRecords: drop records below ``offset`` (-1: the high watermark); returns the new log start offset."""
        log = self._log
        offset = high_watermark if offset == -1 else offset
        if not 0 <= offset <= high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"records of {log.topic_partition} can be deleted up to {high_watermark}, not {offset}",
            )
        self.maybe_increment_log_start_offset(offset)
        return log.log_start_offset

    def prepare_deletion(self, high_watermark: int, wall_ms: int) -> DeletionJob | None:
        """Apply retention: move the log start after expired segments. See :mod:`minikafka.storage.retention`.

        Run the job in any thread, then :meth:`complete_deletion`. None without expired segments, during a cut, and
        while the cleaner replaces segments or the log arrives from another directory. It has SEGMENTS_AT_ONCE of them
        at most; then ask again.
        """
        log = self._log
        log.commit()
        if log.is_cutting or log.is_swapping or log.is_arriving:
            return None
        count = retention.deletable(
            log.segments,
            log.config,
            log.newest_timestamp,
            log_start_offset=log.log_start_offset,
            high_watermark=high_watermark,
            wall_ms=wall_ms,
        )
        if not count:
            return None
        count = min(count, SEGMENTS_AT_ONCE)
        if count == len(log.segments):
            log.roll()
        with log.guard("delete segments of"):
            self.maybe_increment_log_start_offset(log.segments[count].base_offset)
        going, first_offset = log.segments.closed[:count], log.segments[count].base_offset
        return DeletionJob(
            going,
            log.segment_list.take_off(segment.base_offset for segment in going),
            partial(log.snapshots.missing_at, first_offset, _copies(going)),
            partial(log.end_slot.note_start, first_offset),
        )

    def complete_deletion(self, job: DeletionJob) -> int:
        """The job has run: remove the files, except those cut or rewritten meanwhile; returns the number of segments.

        PassingFailure: the remaining files go later.
        """
        log = self._log
        log.segment_list.gone(job.removal)
        if job.error is not None and is_passing(job.error):
            return 0
        with log.guard("delete segments of"):
            if job.error is not None:
                raise job.error
        # Of old segments that the cleaner replaces, a start could find the new ones only, with a gap behind them.
        count = 0 if log.is_cutting or log.is_swapping else self._still_first(job.segments)
        try:
            with log.guard("delete segments of", is_repeatable=True):
                if job.snapshot is not None and count == len(job.segments):
                    log.snapshots.store(job.snapshot, log.segments[count].base_offset)
                for segment in log.segments.closed[:count]:
                    log.discard(segment)
                    log.segments.drop_first(1)
        finally:
            if log.failure is None:
                with log.guard("note the start of"):
                    log.end_slot.note_start(log.segments[0].base_offset)
        if count:
            with log.guard("delete snapshots of", is_repeatable=True):  # if not now, then with the next segments
                log.snapshots.remove(below=log.segments[0].base_offset)
        return count

    def _still_first(self, segments: Sequence[Segment]) -> int:
        """How many of them the log still begins with, closed, and starts behind."""
        log = self._log
        first = zip(segments, log.segments.closed, strict=False)
        same = (one is other and one.next_offset <= log.log_start_offset for one, other in first)
        return sum(takewhile(bool, same))


def _copies(segments: Iterable[Segment]) -> list[Segment]:
    """For a thread."""
    cache = SegmentCache()
    return [segment.copy(cache) for segment in segments]


def _taken_out(segments: Iterable[Segment]) -> list[Segment]:
    """For a thread to take away; on the loop nobody comes to them any more."""
    copies = _copies(segments)
    for segment in segments:
        segment.abandon()
    return copies
