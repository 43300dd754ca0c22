"""One partition's log: append, read, truncate, flush.

:class:`Log` is what a broker calls. What its parts share is in ``core``; it inherits the appends of ``appending``, and
hands the rest to modules of functions: ``reading``, ``cutting``, ``compaction``, ``flush``.

Invariants: ``log_start_offset <= log_end_offset`` and ``recovery_point <= log_end_offset``; everything below the
recovery point is durable; leader epochs never fall along the log. A failed write, truncation or fsync leaves the log
*offline*: every later call raises the same :class:`StorageFailure` until the log is opened again, which cuts off what
the failed write may have left behind the last good batch.
"""

from __future__ import annotations

from uuid import UUID

from minikafka.model import NO_TIMESTAMP, ZERO_TOPIC_ID, OffsetAndEpoch, TopicPartition
from minikafka.storage import compaction, cutting, flush, reading
from minikafka.storage.appending import AppendInfo, AppendingLog
from minikafka.storage.compaction import CompactionJob
from minikafka.storage.config import LogConfig
from minikafka.storage.core import LogHooks
from minikafka.storage.damage import remove_refetch_mark
from minikafka.storage.disk import Disk
from minikafka.storage.epochs import EpochEntry
from minikafka.storage.errors import Corruption, IllegalLogState, StorageFailure
from minikafka.storage.flush import FlushJob
from minikafka.storage.recovery import load_log
from minikafka.storage.segment import SegmentCache
from minikafka.storage.slice import LogSlice
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


class Log(AppendingLog):
    """See the module. Single-threaded, but the ``run`` of a flush and the ``step`` of a compaction may be elsewhere."""

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

    # -- damage -----------------------------------------------------------------------------------------------------

    def refetched(self) -> None:
        """The damaged part was cut off and fetched again from the leader: the replica counts again."""
        with self.guard("unmark"):
            remove_refetch_mark(self.disk, self.directory)
        self.corruption = None
