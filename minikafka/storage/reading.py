"""Reads of a log: slices of whole batches, sizes, times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH
from minikafka.records.batch import HEADER_SIZE
from minikafka.records.build import empty_batch
from minikafka.storage import positions, timestamps
from minikafka.storage.config import NEVER, UNLIMITED
from minikafka.storage.epochs import LeaderEpochCache
from minikafka.storage.errors import BadBatchError
from minikafka.storage.index import MAX_RELATIVE_OFFSET
from minikafka.storage.read_jobs import ReadJob
from minikafka.storage.segment import Segment
from minikafka.storage.slice import LogSlice, MemorySlice
from minikafka.storage.timestamps import TimestampedOffset
from minikafka.storage.verifying import is_warm, verify, verify_again, warm

if TYPE_CHECKING:
    from minikafka.storage.log import Log

T = TypeVar("T")

COLD_READ_BYTES: Final = 1 << 20
"""A read of what was not verified yet ends after so much."""
SEGMENTS_LOOKED_INTO: Final = 4
"""By one job, for the next batch; the next job goes on."""


class Reader:
    """See the module."""

    __slots__ = ("_log",)

    def __init__(self, log: Log) -> None:
        self._log = log

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        *,
        max_offset: int | None = None,
        min_one_batch: bool = True,
        from_first_batch: bool = False,
    ) -> LogSlice:
        """Whole batches from that of ``start_offset`` on, of one segment: a region of its file, or in memory (row R15).

        They end at or before ``max_offset`` (default: the log end) and have at most ``max_bytes``; with
        ``min_one_batch`` the first batch may be larger. The slice may be empty. The first batch may begin before
        ``start_offset``. If compaction left no batch up to ``max_offset``, the slice is an empty batch that spans the
        gap (docs/decisions/0019). ``from_first_batch`` includes what is below ``log_start_offset`` and still in the
        files: the log may begin inside a batch, and a replica needs it whole.

        Raises OFFSET_OUT_OF_RANGE outside ``[log_start_offset, log_end_offset]``, and KAFKA_STORAGE_ERROR with
        ``corruption`` set for a damaged file.
        """
        log = self._log
        log.commit()
        if log.cut_floor is not None:
            log.refuse_while_cut()
        end_offset = log.log_end_offset
        first_offset = log.segments[0].base_offset if from_first_batch else log.log_start_offset
        if not first_offset <= start_offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.topic_partition} holds offsets {first_offset} to {end_offset}, not {start_offset}",
            )
        limit = end_offset if max_offset is None or max_offset > end_offset else max_offset
        active = log.segments.active
        if start_offset >= limit:
            return LogSlice(active.file, 0, 0)
        newest = None if active.tail is None else active.tail.newest
        if newest is not None and newest.serves(start_offset, max_bytes, limit):  # a follower that keeps up
            return newest
        if start_offset >= active.base_offset:
            found = self._read_segment(active, start_offset, max_bytes, limit, min_one_batch)
        else:
            found = self._read_closed(start_offset, max_bytes, limit, min_one_batch)
        if found is None and (min_one_batch or max_bytes >= HEADER_SIZE):
            return self._gap(start_offset, limit)
        return found or LogSlice(active.file, 0, 0)

    def end_of(self, start_offset: int, found: LogSlice) -> int:
        """Where the batches end that :meth:`read` has just found at ``start_offset``, as this log knows: not from them.

        A base offset may go wrong on the disk, and no checksum covers it. Where compaction left a gap behind them, this
        may be the end of the gap.
        """
        if isinstance(found, MemorySlice):
            return found.end_offset
        segments, end = self._log.segments, found.position + found.size
        if start_offset >= segments.active.base_offset:
            return positions.end_before(segments.active, end)
        for segment in segments.since(start_offset):
            if found.is_of(segment.open_file):
                return positions.end_before(segment, end)
        raise AssertionError("the slice was not read just now")

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """About how many bytes of batches lie between two offsets, from memory alone (row D5)."""
        self._log.refuse_while_cut()
        if start_offset >= end_offset:
            return 0
        segments, active = self._log.segments, self._log.segments.active
        if start_offset >= active.base_offset:
            return positions.estimate(active, end_offset) - positions.estimate(active, start_offset)
        first, last = segments.index_of(start_offset), segments.index_of(end_offset)
        total = 0 if first == last else sum(segments[at].size for at in range(first, last))
        end, start = positions.estimate(segments[last], end_offset), positions.estimate(segments[first], start_offset)
        return total + end - start

    # -- reads that take long ---------------------------------------------------------------------------------------

    def is_cold(self, start_offset: int, max_bytes: int) -> bool:
        """True when :meth:`read` cannot answer at once: :meth:`prepare_read` has a job."""
        is_new = self._log.segments.active.has_in_tail(start_offset)
        return not is_new and bool(self._cold_segments(start_offset, max_bytes))

    def prepare_read(self, start_offset: int, max_bytes: int) -> ReadJob[None] | None:
        """None when :meth:`read` can answer at once; else what must be verified and loaded in a thread before.

        After ``run`` call :meth:`complete_read`, then :meth:`read` (or ask again: others may have read much meanwhile).
        """
        cold = self._cold_segments(start_offset, max_bytes)
        ask = partial(_warm, start_offset, _limited(max_bytes))
        return ReadJob(self._log, cold, ask, keeps_indexes=True) if cold else None

    def prepare_verification(self, start_offset: int, size_in_bytes: int) -> ReadJob[None] | None:
        """Verify again what :meth:`read` answers with, whoever wrote it; None when there is nothing.

        ``run`` it in a thread; :meth:`complete_read` says KAFKA_STORAGE_ERROR, and the log is marked, if it is damaged.
        """
        log = self._log
        log.commit()
        log.refuse_while_cut()
        if not log.segments[0].base_offset <= start_offset < log.log_end_offset:
            return None
        epoch_for, limit = LeaderEpochCache(log.epochs.entries).epoch_for, log.log_end_offset
        for segment in log.segments.since(start_offset):
            try:
                begin, end = positions.bounds(segment, start_offset, size_in_bytes, limit, min_one_batch=True)
            except (BadBatchError, OSError) as error:
                log.unreadable(segment, error)
            if begin < segment.size:
                ask = partial(verify_again, start_offset, end, epoch_for)
                return ReadJob(log, [segment], ask, keeps_indexes=False)
        return None

    def prepare_retention(self, wall_ms: int) -> ReadJob[None] | None:
        """The ages of old segments, where :meth:`Cutter.prepare_deletion` would have to load them; None if not."""
        log = self._log
        kept_since_ms = wall_ms - log.config.retention_ms
        if log.is_cutting or log.is_offline or log.config.retention_ms == UNLIMITED:
            return None
        unknown = self._of_unknown_age(log.segments.closed, kept_since_ms)
        return ReadJob(log, unknown, partial(_ages, kept_since_ms), keeps_indexes=False) if unknown else None

    def prepare_compaction(self, wall_ms: int) -> ReadJob[None] | None:
        """The same for :meth:`Log.plan_compaction`: which segments are old enough, or overdue."""
        log, config = self._log, self._log.config
        if log.is_cutting or log.is_offline or not config.is_compacted:
            return None
        closed, young_since_ms = log.segments.closed, wall_ms - config.min_compaction_lag_ms
        unknown: Sequence[Segment] = ()
        begins: list[Segment] = []
        if config.min_compaction_lag_ms:
            unknown = self._of_unknown_age(closed, young_since_ms)
        if config.max_compaction_lag_ms != NEVER:
            dirty = (segment for segment in closed if segment.next_offset > log.first_dirty_offset)
            begins = [segment for segment in islice(dirty, 1) if not segment.knows_first_timestamp]
        if not unknown and not begins:
            return None
        ask = partial(_begins_and_ages, len(begins), young_since_ms)
        return ReadJob(log, [*begins, *unknown], ask, keeps_indexes=False)

    def prepare_timestamp_lookup(self, timestamp: int) -> ReadJob[TimestampedOffset | None]:
        """The first record stamped at or after ``timestamp`` (ms); None when all are earlier (KIP-79).

        ``run`` the job in a thread; :meth:`complete_read` gives the answer. In a batch with very many records, or one
        that cannot be read, its first offset stands for the record's.
        """
        return self._lookup(partial(timestamps.first_of_all, timestamp, self._log.log_start_offset))

    def prepare_max_timestamp_lookup(self) -> ReadJob[TimestampedOffset | None]:
        """The same of the first record that has the largest timestamp of the log; None for an empty one (KIP-734)."""
        return self._lookup(partial(timestamps.first_of_largest, self._log.log_start_offset))

    def complete_read(self, job: ReadJob[T]) -> T:
        """The answer of a job that has run. OFFSET_NOT_AVAILABLE: ask again; KAFKA_STORAGE_ERROR: there is damage."""
        return job.answer()

    def _lookup(
        self, ask: Callable[[Iterable[Segment]], TimestampedOffset | None]
    ) -> ReadJob[TimestampedOffset | None]:
        log = self._log
        log.commit()
        log.refuse_while_cut()
        return ReadJob(log, log.segments.since(log.log_start_offset), ask, keeps_indexes=False)

    def _of_unknown_age(self, segments: Sequence[Segment], young_since_ms: int) -> Sequence[Segment]:
        """The segments from the first of unknown age on; none when the ages up to the first young one are known."""
        for at, segment in enumerate(segments):
            if not segment.knows_age:
                return segments[at:]
            if segment.size and segment.max_timestamp.timestamp >= young_since_ms:
                break
        return ()

    def _cold_segments(self, start_offset: int, max_bytes: int) -> list[Segment]:
        """Those to look into before :meth:`read` can: the first may have no batch left behind the offset."""
        log = self._log
        if log.segments.active.has_in_tail(start_offset):
            return []
        log.commit()
        log.refuse_while_cut()
        if not log.segments[0].base_offset <= start_offset < log.log_end_offset:
            return []  # the read will say so
        max_bytes = _limited(max_bytes)
        segments = log.segments.since(start_offset)
        for at, segment in enumerate(segments):
            try:
                if not is_warm(segment, start_offset, max_bytes):
                    return segments[at : at + SEGMENTS_LOOKED_INTO]
                if positions.position_of(segment, start_offset) < segment.size:
                    return []
            except (BadBatchError, OSError):
                return []  # the read will say so
        return []

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

    def _gap(self, start_offset: int, limit: int) -> MemorySlice:
        """An empty batch from ``start_offset`` to ``limit``, or to where the leader epoch ends that the gap begins in.

        So whoever takes it over has the epochs of this log: below its start, the one that the log starts in.
        """
        log = self._log
        epoch = log.epoch_for_offset(max(start_offset, log.log_start_offset))
        end_offset = min(limit, start_offset + MAX_RELATIVE_OFFSET)
        if epoch != NO_EPOCH:
            end_offset = min(end_offset, log.end_offset_for_epoch(epoch).offset)
        return MemorySlice(start_offset, end_offset, empty_batch(start_offset, end_offset, epoch))

    def _read_segment(
        self, segment: Segment, start_offset: int, max_bytes: int, limit: int, min_one_batch: bool
    ) -> LogSlice | None:
        try:
            begin, end = positions.bounds(segment, start_offset, max_bytes, limit, min_one_batch=min_one_batch)
            if begin == segment.size:
                return None
            if begin == end and min_one_batch:  # the next batch ends behind the limit
                behind = positions.find(segment, start_offset)
                if behind is not None and behind[1].base_offset > start_offset:
                    return self._gap(start_offset, min(limit, behind[1].base_offset))
            is_long = end - begin > COLD_READ_BYTES
            if is_long and not segment.verified.covers(begin, end):  # checksums keep the loop busy
                max_bytes = COLD_READ_BYTES
                begin, end = positions.bounds(segment, start_offset, max_bytes, limit, min_one_batch=min_one_batch)
            verify(segment, begin, end)
            return LogSlice(segment.file, begin, end - begin)
        except (BadBatchError, OSError) as error:
            self._log.unreadable(segment, error)


def _ages(young_since_ms: int, segments: Iterable[Segment]) -> None:
    """Load the largest timestamps up to the first that is young."""
    for segment in segments:
        if segment.size and segment.max_timestamp.timestamp >= young_since_ms:
            return


def _begins_and_ages(begins: int, young_since_ms: int, segments: Iterable[Segment]) -> None:
    """Of the first so many segments the time of the first batch; of the others :func:`_ages`."""
    each = iter(segments)
    for segment in islice(each, begins):
        segment.first_timestamp()
    _ages(young_since_ms, each)


def _limited(max_bytes: int) -> int:
    return max(1, min(max_bytes, COLD_READ_BYTES))


def _warm(start_offset: int, max_bytes: int, segments: Iterable[Segment]) -> None:
    for segment in segments:
        if warm(segment, start_offset, max_bytes):
            return
