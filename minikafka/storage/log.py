"""One partition's log: append, read, truncate, flush.

Appending is two steps, so that the batches of one read event cost one system call per partition. :meth:`Log.stage`
checks a batch against the producer's state, gives it offsets and the leader epoch in place, and remembers the slice;
:meth:`Log.commit` writes all staged slices with one ``writev`` and only then moves ``log_end_offset``. A staged slice
belongs to the caller's receive buffer and is not looked at again after ``commit``. Nothing staged is ever visible.

Invariants: ``log_start_offset <= log_end_offset`` and ``recovery_point <= log_end_offset``; everything below the
recovery point is durable; leader epochs never fall along the log. A failed write, truncation or fsync leaves the log
*offline*: every later call raises the same :class:`StorageFailure` until the log is opened again, which cuts off what
the failed write may have left behind the last good batch.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_TIMESTAMP, ZERO_TOPIC_ID, OffsetAndEpoch, TopicPartition
from minikafka.records.batch import (
    CONTROL_FLAG,
    LOG_OVERHEAD,
    BatchHeader,
    WritableBuffer,
    assign_offsets,
    set_log_append_time,
)
from minikafka.records.control import EndTxnMarker
from minikafka.storage import compaction, cutting, flush, reading
from minikafka.storage.compaction import CompactionJob
from minikafka.storage.config import LogConfig
from minikafka.storage.core import LogCore, LogHooks
from minikafka.storage.damage import remove_refetch_mark
from minikafka.storage.disk import Disk
from minikafka.storage.epochs import EpochEntry
from minikafka.storage.errors import Corruption, IllegalLogState, StorageFailure
from minikafka.storage.flush import FlushJob
from minikafka.storage.follower import checked_batches
from minikafka.storage.index import MAX_RELATIVE_OFFSET
from minikafka.storage.recovery import LoadedLog, load_log
from minikafka.storage.segment import SegmentCache, StagedBatch
from minikafka.storage.slice import LogSlice
from minikafka.storage.snapshots import marker_in, replay
from minikafka.storage.timestamps import TimestampedOffset

__all__ = [
    "AppendInfo",
    "Corruption",
    "FlushJob",
    "IllegalLogState",
    "Log",
    "LogHooks",
    "LogSlice",
    "StorageFailure",
    "TimestampedOffset",
]


class AppendInfo(NamedTuple):
    """What an append did. ``log_append_time`` is -1 unless the broker stamps; ``duplicate``: nothing was written."""

    base_offset: int
    last_offset: int
    log_append_time: int = NO_TIMESTAMP
    duplicate: bool = False


class Log(LogCore):
    """See the module. Single-threaded: only :meth:`FlushJob.run` may run elsewhere."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        loaded: LoadedLog,
        cache: SegmentCache,
        hooks: LogHooks,
    ) -> None:
        super().__init__(disk, directory, topic_partition, topic_id, config, loaded, cache, hooks)
        self._staged: list[StagedBatch] = []
        self._buffers: list[WritableBuffer] = []
        self._staged_bytes = 0
        self._next_offset = self.log_end_offset  # behind what is staged

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig | None = None,
        *,
        topic_id: UUID = ZERO_TOPIC_ID,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        is_clean: bool = False,
        cache: SegmentCache | None = None,
        hooks: LogHooks | None = None,
    ) -> Log:
        """Load the partition directory, creating it if absent. ``is_clean``: the last stop was orderly."""
        config = config or LogConfig()
        cache = cache or SegmentCache()
        disk.mkdir(directory)
        loaded = load_log(
            disk,
            directory,
            config,
            cache,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            is_clean=is_clean,
        )
        return cls(disk, directory, topic_partition, topic_id, config, loaded, cache, hooks or LogHooks())

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all segment files."""
        return self.segments.size_in_bytes

    @property
    def active_base_offset(self) -> int:
        """Base offset of the segment that is appended to."""
        return self.segments.active.base_offset

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batch, or a later one that was begun; -1 for a log that never had one."""
        return self.epochs.latest_epoch

    @property
    def epoch_entries(self) -> list[EpochEntry]:
        """Where each leader epoch of the log starts, oldest first."""
        return self.epochs.entries

    def last_stable_offset(self, high_watermark: int) -> int:
        """First offset a read_committed consumer may not read, given the high watermark."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    # -- appending --------------------------------------------------------------------------------------------------

    def stage(self, batch: WritableBuffer, header: BatchHeader, *, leader_epoch: int, wall_ms: int) -> AppendInfo:
        """Give a checked batch its place behind what is staged; ``batch`` is changed, and must live until ``commit``.

        KafkaError for a producer out of order (45), fenced (47), a batch larger than a segment (18) or a log that is
        offline (56); then nothing is staged. A duplicate of one of the producer's last five batches is not staged.
        """
        if self.failure is not None:
            raise self.failure
        marker = None
        if header.producer_id >= 0:
            duplicate = self.producers.check(header)
            if duplicate is not None:
                append_time = duplicate.timestamp if self._config.log_append_time else NO_TIMESTAMP
                return AppendInfo(duplicate.first_offset, duplicate.last_offset, append_time, True)
            marker = self._checked_marker(batch, header)
        size = header.batch_length + LOG_OVERHEAD
        assert size == len(batch)
        self._check_size(size)
        append_time = NO_TIMESTAMP
        if self._config.log_append_time:
            header = set_log_append_time(batch, 0, wall_ms)
            append_time = wall_ms
        base_offset = self._next_offset
        last_offset = base_offset + header.last_offset_delta
        if not self._has_room(last_offset, size, wall_ms):
            self.roll()
            self.segments.active.first_append_ms = wall_ms
        if leader_epoch != self.epochs.latest_epoch:
            self.begin_epoch(leader_epoch)
        assign_offsets(batch, 0, base_offset, leader_epoch)
        if header.producer_id >= 0:
            self._note_producer(header, base_offset, marker)
        self._staged.append((last_offset, size, header.max_timestamp))
        self._buffers.append(batch)
        self._staged_bytes += size
        self._next_offset = last_offset + 1
        return AppendInfo(base_offset, last_offset, append_time)

    def commit(self) -> None:
        """Write what is staged and move ``log_end_offset``. StorageFailure when the log is, or now goes, offline."""
        if self.failure is not None:
            raise self.failure
        if not self._staged:
            return
        try:
            self.segments.active.append(self._buffers, self._staged)
        except OSError as error:
            self.fail("append to", error)
        self.log_end_offset = self._next_offset
        self._staged.clear()
        self._buffers.clear()
        self._staged_bytes = 0

    def append_as_follower(
        self, records: memoryview, *, wall_ms: int = NO_TIMESTAMP, allow_gap: bool | None = None
    ) -> AppendInfo:
        """Append batches as the leader wrote them; one cut off at the end of ``records`` is left out (row R11).

        IllegalLogState when they do not begin at ``log_end_offset`` (a compacted log may have gaps: ``allow_gap``,
        by default so for ``cleanup.policy=compact``) or epochs fall. CORRUPT_MESSAGE when a batch is damaged. In both
        cases nothing is appended. ``wall_ms`` serves ``segment.ms``.
        """
        self.commit()
        batches = checked_batches(self, records, self._config.is_compacted if allow_gap is None else allow_gap)
        run_start = run_end = 0
        for position, header in batches:
            size = header.batch_length + LOG_OVERHEAD
            if not self._has_room(header.last_offset, size, wall_ms):
                self._commit_run(records[run_start:position])
                self.roll(header.base_offset)
                self.segments.active.first_append_ms = wall_ms
                run_start = position
            if header.leader_epoch != self.epochs.latest_epoch:
                self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                replay(self.producers, header, records[position : position + size])
            self._staged.append((header.last_offset, size, header.max_timestamp))
            self._staged_bytes += size
            self._next_offset = header.next_offset
            run_end = position + size
        self._commit_run(records[run_start:run_end])
        base_offset = batches[0][1].base_offset if batches else self.log_end_offset
        return AppendInfo(base_offset, self.log_end_offset - 1)

    def begin_epoch(self, epoch: int) -> None:
        """This replica leads in ``epoch`` from the log's end on (KIP-101). IllegalLogState when epochs would fall."""
        if epoch < self.epochs.latest_epoch:
            raise IllegalLogState(
                f"{self.topic_partition} is in leader epoch {self.epochs.latest_epoch}; it cannot begin epoch {epoch}"
            )
        self.epochs.assign(epoch, self._next_offset)

    def roll(self, base_offset: int | None = None) -> None:
        """Close the active segment and begin another at ``base_offset`` (the log's end); nothing if it is empty."""
        self.commit()
        active = self.segments.active
        base_offset = self.log_end_offset if base_offset is None else base_offset
        if active.size == 0 and active.base_offset == base_offset:
            return
        with self.guard("roll"):
            active.seal()
            active.next_offset = base_offset
            if base_offset <= self.recovery_point:
                # No flush and no recovery will look at that segment again: its new indexes are synced here, and before
                # the next segment exists, for until then it is the last one and a restart rebuilds them.
                active.sync_indexes()
            self.segments.add(self.new_segment(base_offset))
            self.snapshots.take(self.producers, base_offset)

    def _has_room(self, last_offset: int, size: int, wall_ms: int) -> bool:
        """May a batch join the active segment, behind what is staged?"""
        active = self.segments.active
        used = active.size + self._staged_bytes
        if used == 0:
            active.first_append_ms = wall_ms
            return last_offset - active.base_offset <= MAX_RELATIVE_OFFSET
        config = self._config
        return (
            used + size <= config.segment_bytes
            and last_offset - active.base_offset <= MAX_RELATIVE_OFFSET
            and wall_ms - active.first_append_ms <= config.segment_ms
            and active.index.size_in_bytes < config.segment_index_bytes
        )

    def _commit_run(self, run: memoryview) -> None:
        if self._staged:
            self._buffers.append(run)
            self.commit()

    def _check_size(self, size: int) -> None:
        if size > self._config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes is larger than a segment of {self.topic_partition} may be, "
                f"segment.bytes={self._config.segment_bytes}",
            )

    def _checked_marker(self, batch: WritableBuffer, header: BatchHeader) -> EndTxnMarker | None:
        if not header.attributes & CONTROL_FLAG:
            return None
        marker = marker_in(batch, header)
        if marker is not None:
            self.producers.check_marker(header, marker)
        return marker

    def _note_producer(self, header: BatchHeader, base_offset: int, marker: EndTxnMarker | None) -> None:
        if marker is not None:
            self.producers.end_transaction(header, marker, base_offset)
        elif not header.attributes & CONTROL_FLAG:
            self.producers.append(header, base_offset)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(
        self, start_offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_batch: bool = True
    ) -> LogSlice:
        """Whole batches from the one that holds ``start_offset`` on, as a region of one segment file (row R15).

        They end at or before ``max_offset`` (default: the log's end) and within ``max_bytes``, except that the first
        batch comes even if larger when ``min_one_batch``. The slice may be empty. The first batch may begin before
        ``start_offset``. OFFSET_OUT_OF_RANGE outside of ``[log_start_offset, log_end_offset]``;
        KAFKA_STORAGE_ERROR, with ``corruption`` set, where the file is damaged.
        """
        self.commit()
        return reading.read(self, start_offset, max_bytes, max_offset, min_one_batch)

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """About how many bytes of batches lie between two offsets, without reading the file (row D5)."""
        return reading.bytes_between(self, start_offset, end_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record stamped at or after ``timestamp`` (ms); None when all are earlier (KIP-79)."""
        self.commit()
        return reading.offset_for_timestamp(self, timestamp)

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """The first record that has the largest timestamp of the log; None for an empty log (KIP-734)."""
        self.commit()
        return reading.offset_of_max_timestamp(self)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Row E2: the largest epoch <= ``epoch`` and the offset where it ends; (-1, -1) when undefined."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """The leader epoch ``offset`` was written in; -1 when not known."""
        return self.epochs.epoch_for(offset)

    # -- cutting ----------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Cut everything from ``offset`` on, durably; an offset inside a batch takes that batch with it.

        False when the log already ends at or before ``offset``. Rows R4, R13.
        """
        self.commit()
        if offset >= self.log_end_offset:
            # An epoch that this replica began as leader, without an append, may contradict the new leader's log.
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        cutting.truncate_to(self, offset)
        self._next_offset = self.log_end_offset
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, durably; the log is empty and begins at ``offset`` (row R13)."""
        self.commit()
        cutting.restart_at(self, offset)
        self._next_offset = offset

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Records below ``offset`` are no longer part of the log. False when they already were not.

        OFFSET_OUT_OF_RANGE when the log ends before ``offset``.
        """
        self.commit()
        return cutting.increment_log_start_offset(self, offset)

    def delete_records(self, offset: int, high_watermark: int) -> int:
        """DeleteRecords: drop what lies below ``offset`` (-1: the high watermark); the new log start offset."""
        self.commit()
        return cutting.delete_records(self, offset, high_watermark)

    def delete_old_segments(self, high_watermark: int, wall_ms: int) -> int:
        """Apply retention; how many segments went. See :mod:`minikafka.storage.retention`."""
        self.commit()
        return cutting.delete_old_segments(self, high_watermark, wall_ms)

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget idle producers (``producer.id.expiration.ms``); ``now_ms`` is monotonic. How many."""
        return self.producers.remove_expired(now_ms, expiration_ms)

    # -- compaction -------------------------------------------------------------------------------------------------

    def plan_compaction(self, high_watermark: int, wall_ms: int) -> CompactionJob | None:
        """A pass of the cleaner if one is due. Call its ``step`` until True, in a thread, then complete it here."""
        self.commit()
        return compaction.plan(self, high_watermark, wall_ms) if self._config.is_compacted else None

    def complete_compaction(self, job: CompactionJob) -> bool:
        """Let the compacted segments take the place of the old ones. False when that is no longer possible."""
        return compaction.complete(self, job)

    # -- making it durable ------------------------------------------------------------------------------------------

    def flush_due(self, wall_ms: int) -> bool:
        """True when a rolled segment, ``flush.messages`` or ``flush.ms`` asks for a flush."""
        return flush.is_due(self, wall_ms)

    def prepare_flush(self) -> FlushJob:
        """What to sync so that the log is durable up to its present end; run it, then :meth:`complete_flush`."""
        self.commit()
        return flush.prepare(self)

    def complete_flush(self, job: FlushJob, *, wall_ms: int = NO_TIMESTAMP) -> None:
        """A job has run: move ``recovery_point``. StorageFailure, and offline, if it failed."""
        flush.complete(self, job, wall_ms)

    def flush(self) -> None:
        """Make everything durable now, here."""
        job = self.prepare_flush()
        job.run()
        self.complete_flush(job)

    def prepare_close(self) -> FlushJob:
        """Write indexes and producer state, and say what to sync; run it, then :meth:`complete_close`."""
        self.commit()
        active = self.segments.active
        if self.has_changed and active.size:
            with self.guard("close"):
                active.seal()
                self.snapshots.take(self.producers, self.log_end_offset)
            self.recovery_point = min(self.recovery_point, active.base_offset)
        return flush.prepare(self, is_last=self.has_changed)

    def complete_close(self, job: FlushJob) -> None:
        """An orderly end: everything is durable. The log cannot be used again."""
        self.complete_flush(job)
        self.go_offline(StorageFailure(f"{self.topic_partition} is closed"))

    def close(self) -> None:
        """An orderly end now, here."""
        job = self.prepare_close()
        job.run()
        self.complete_close(job)

    def go_offline(self, failure: StorageFailure) -> None:
        """The directory failed, or the log was closed or deleted: nothing staged ever becomes visible."""
        super().go_offline(failure)
        self._staged.clear()
        self._buffers.clear()
        self._staged_bytes = 0

    # -- damage -----------------------------------------------------------------------------------------------------

    def refetched(self) -> None:
        """The damaged part was cut off and fetched again from the leader: the replica counts again."""
        with self.guard("unmark"):
            remove_refetch_mark(self.disk, self.directory)
        self.corruption = None
