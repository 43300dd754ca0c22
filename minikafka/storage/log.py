"""One partition's log: append, read, truncate, flush.

Appending is two steps, so that the batches of one read event cost one system call per partition. :meth:`Log.stage`
checks a batch against the producer's state, gives it offsets and the leader epoch in place, and remembers the slice;
:meth:`Log.commit` writes all staged slices with one ``writev`` and only then moves ``log_end_offset``. A staged slice
belongs to the caller's receive buffer and is not looked at again after ``commit``. Nothing staged is ever visible.

Invariants: ``log_start_offset <= recovery_point <= log_end_offset`` (a log start may overtake the recovery point, never
the end); everything below the recovery point is durable; leader epochs never fall along the log. A failed write,
truncation or fsync leaves the log *offline*: every later call raises the same :class:`StorageFailure` until the log is
opened again, which cuts off what a failed write may have left behind the last good batch.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_TIMESTAMP, ZERO_TOPIC_ID, OffsetAndEpoch, TopicPartition
from minikafka.records.batch import (
    CONTROL_FLAG,
    LOG_OVERHEAD,
    BatchHeader,
    WritableBuffer,
    assign_offsets,
    crc_is_valid,
    iter_batches,
    set_log_append_time,
)
from minikafka.storage import retention, timestamps
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.errors import BadBatchError, Corruption, IllegalLogState, StorageFailure
from minikafka.storage.flush import FlushJob
from minikafka.storage.index import MAX_RELATIVE_OFFSET
from minikafka.storage.recovery import LoadedLog, load_log
from minikafka.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    SegmentCache,
    StagedBatch,
)
from minikafka.storage.slice import LogSlice
from minikafka.storage.snapshots import SnapshotFiles, marker_in, replay
from minikafka.storage.timestamps import TimestampedOffset

__all__ = ["AppendInfo", "IllegalLogState", "Log", "LogSlice", "StorageFailure"]

_PASSING_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # say nothing about the file


class AppendInfo(NamedTuple):
    """What an append did. ``log_append_time`` is -1 unless the broker stamps; ``duplicate``: nothing was written."""

    base_offset: int
    last_offset: int
    log_append_time: int = NO_TIMESTAMP
    duplicate: bool = False


class LogHooks(NamedTuple):
    """What a log tells its directory."""

    on_failure: Callable[[StorageFailure], None] = lambda _failure: None
    checkpoint_recovery_point: Callable[[], None] = lambda: None  # durably, before data below it is overwritten
    discard: Callable[[Sequence[str]], None] | None = None  # files to unlink some time; None: at once


class Log:
    """See the module. Single-threaded: only :meth:`FlushJob.run` may run elsewhere."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        cache: SegmentCache,
        hooks: LogHooks,
        topic_id: UUID = ZERO_TOPIC_ID,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.segments.active.next_offset
        self.recovery_point = min(loaded.recovery_point, self.log_end_offset)
        self.corruption: Corruption | None = loaded.corruption
        self.failure: StorageFailure | None = None
        self._disk = disk
        self._config = config
        self._cache = cache
        self._hooks = hooks
        self._segments = loaded.segments
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = SnapshotFiles(disk, directory)
        self._staged: list[StagedBatch] = []
        self._buffers: list[WritableBuffer | memoryview] = []
        self._staged_bytes = 0
        self._next_offset = self.log_end_offset  # behind what is staged
        self._generation = 0  # of truncations: a flush that began in an older one moves no recovery point
        self._is_directory_dirty = True
        self._last_flush_ms = NO_TIMESTAMP

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
        return cls(
            disk, directory, topic_partition, config, loaded, cache=cache, hooks=hooks or LogHooks(), topic_id=topic_id
        )

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        """The settings; assign to change them."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        for segment in self._segments:
            segment.index_interval_bytes = config.index_interval_bytes

    @property
    def is_offline(self) -> bool:
        """True once storage failed under the log."""
        return self.failure is not None

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all segment files."""
        return self._segments.size_in_bytes

    @property
    def segment_count(self) -> int:
        """How many segments there are; at least one."""
        return len(self._segments)

    @property
    def active_base_offset(self) -> int:
        """Base offset of the segment that is appended to."""
        return self._segments.active.base_offset

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batch; -1 for a log that never had one."""
        return self._epochs.latest_epoch

    def last_stable_offset(self, high_watermark: int) -> int:
        """First offset a read_committed consumer may not read, given the high watermark."""
        unstable = self._producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    # -- appending --------------------------------------------------------------------------------------------------

    def stage(self, batch: WritableBuffer, header: BatchHeader, *, leader_epoch: int, wall_ms: int) -> AppendInfo:
        """Give a checked batch its place behind what is staged; ``batch`` is changed, and must live until ``commit``.

        KafkaError for a producer out of order (45), fenced (47), a batch larger than a segment (18) or a log that is
        offline (56); then nothing is staged. A duplicate of one of the producer's last five batches is not staged.
        """
        if self.failure is not None:
            raise self.failure
        if header.producer_id >= 0:
            duplicate = self._producers.check(header)
            if duplicate is not None:
                return AppendInfo(duplicate.first_offset, duplicate.last_offset, self._stamp_of(duplicate[4]), True)
        size = header.batch_length + LOG_OVERHEAD
        assert size == len(batch)
        config = self._config
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes does not fit a segment of {self.topic_partition} ({config.segment_bytes})",
            )
        marker = marker_in(batch, header) if header.producer_id >= 0 and header.attributes & CONTROL_FLAG else None
        if marker is not None:
            self._producers.check_marker(header, marker)
        append_time = NO_TIMESTAMP
        if config.log_append_time:
            header = set_log_append_time(batch, 0, wall_ms)
            append_time = wall_ms
        base_offset = self._next_offset
        last_offset = base_offset + header.last_offset_delta
        if not self._has_room(last_offset, size, wall_ms):
            self.roll()
        if leader_epoch != self._epochs.latest_epoch:
            self._begin_epoch(leader_epoch, base_offset)
        assign_offsets(batch, 0, base_offset, leader_epoch)
        if header.producer_id >= 0:
            if marker is not None:
                self._producers.end_transaction(header, marker, base_offset)
            elif not header.attributes & CONTROL_FLAG:
                self._producers.append(header, base_offset)
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
            self._segments.active.append(self._buffers, self._staged)
        except OSError as error:
            self._fail("append to", error)
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
        cases nothing is appended.
        """
        self.commit()
        allow_gap = self._config.is_compacted if allow_gap is None else allow_gap
        batches = self._checked_batches(records, allow_gap)
        if not batches:
            return AppendInfo(self.log_end_offset, self.log_end_offset - 1)
        run_start = 0
        for position, header in batches:
            size = header.batch_length + LOG_OVERHEAD
            if not self._has_room(header.last_offset, size, wall_ms):
                self._commit_run(records[run_start:position])
                self.roll(header.base_offset)
                run_start = position
            if header.leader_epoch != self._epochs.latest_epoch:
                self._begin_epoch(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                replay(self._producers, header, records[position : position + size])
            self._staged.append((header.last_offset, size, header.max_timestamp))
            self._staged_bytes += size
            self._next_offset = header.next_offset
        self._commit_run(records[run_start : position + size])
        return AppendInfo(batches[0][1].base_offset, self.log_end_offset - 1)

    def roll(self, base_offset: int | None = None) -> None:
        """Close the active segment and begin another at ``base_offset`` (the log's end); nothing if it is empty."""
        self.commit()
        active = self._segments.active
        base_offset = self._next_offset if base_offset is None else base_offset
        if active.size == 0 and active.base_offset == base_offset:
            return
        with self._guard("roll"):
            segment = self._new_segment(base_offset)
            active.seal()
            active.next_offset = base_offset
            self._segments.add(segment)
            self._snapshots.take(self._producers, base_offset)
            self._is_directory_dirty = True

    def _has_room(self, last_offset: int, size: int, wall_ms: int) -> bool:
        """May a batch join the active segment, behind what is staged?"""
        active = self._segments.active
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

    def _begin_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch < self._epochs.latest_epoch:
            raise IllegalLogState(
                f"{self.topic_partition} is in leader epoch {self._epochs.latest_epoch}; a batch of epoch {epoch} came"
            )
        self._epochs.assign(epoch, start_offset)

    def _checked_batches(self, records: memoryview, allow_gap: bool) -> list[tuple[int, BatchHeader]]:
        batches = list(iter_batches(records))
        expected, epoch = self.log_end_offset, self._epochs.latest_epoch
        for position, header in batches:
            if header.base_offset != expected and not (allow_gap and header.base_offset > expected):
                raise IllegalLogState(
                    f"{self.topic_partition} ends at {expected}, but a batch at {header.base_offset} came"
                )
            if header.leader_epoch < epoch:
                raise IllegalLogState(
                    f"{self.topic_partition} is in leader epoch {epoch}; a batch of epoch {header.leader_epoch} came"
                )
            if header.last_offset_delta < 0 or not crc_is_valid(records, position, header):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"the batch for {self.topic_partition} at offset {header.base_offset} fails its checksum",
                )
            expected, epoch = header.next_offset, header.leader_epoch
        return batches

    def _stamp_of(self, timestamp: int) -> int:
        return timestamp if self._config.log_append_time else NO_TIMESTAMP

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(
        self, start_offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_batch: bool = True
    ) -> LogSlice:
        """Whole batches from the one that holds ``start_offset`` on, as a region of one segment file (row R15).

        They end at or before ``max_offset`` (default: the log's end) and within ``max_bytes``, except that the first
        batch comes even if larger when ``min_one_batch``. The slice may be empty. The first batch may begin before
        ``start_offset``. OFFSET_OUT_OF_RANGE outside of ``[log_start_offset, log_end_offset]``.
        """
        if self._staged or self.failure is not None:
            self.commit()
        end_offset = self.log_end_offset
        if not self.log_start_offset <= start_offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} holds offsets {self.log_start_offset} to {end_offset}, not {start_offset}",
            )
        limit = end_offset if max_offset is None or max_offset > end_offset else max_offset
        active = self._segments.active
        if start_offset >= limit:
            return LogSlice(active.file, 0, 0)
        if start_offset >= active.base_offset:
            return self._read_from(active, start_offset, max_bytes, limit, min_one_batch) or LogSlice(active.file, 0, 0)
        for segment in self._segments.since(start_offset):
            if segment.base_offset >= limit:
                break
            found = self._read_from(segment, start_offset, max_bytes, limit, min_one_batch)
            if found is not None:
                return found
        return LogSlice(active.file, 0, 0)

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """About how many bytes of batches lie between two offsets, without reading the file."""
        if start_offset >= end_offset:
            return 0
        first, last = self._segments.index_of(start_offset), self._segments.index_of(end_offset)
        total = -self._segments[first].estimate_position(start_offset)
        for at in range(first, last):
            total += self._segments[at].size
        return total + self._segments[last].estimate_position(end_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record stamped at or after ``timestamp`` (ms); None when all are earlier."""
        self.commit()
        for segment in self._segments.since(self.log_start_offset):
            try:
                found = timestamps.first_at_or_after(segment, timestamp, self.log_start_offset)
            except (BadBatchError, OSError) as error:
                self._unreadable(segment, error)
            if found is not None:
                return found
        return None

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """The first record that has the largest timestamp of the log; None for an empty log (KIP-734)."""
        self.commit()
        segments = self._segments.since(self.log_start_offset)
        newest = max(segments, key=lambda segment: segment.max_timestamp.timestamp)  # the first of equals
        return self.offset_for_timestamp(newest.max_timestamp.timestamp) if newest.size else None

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Row E2: the largest epoch <= ``epoch`` and the offset where it ends; (-1, -1) when undefined."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """The leader epoch ``offset`` was written in; -1 when not known."""
        return self._epochs.epoch_for(offset)

    def _read_from(
        self, segment: Segment, start_offset: int, max_bytes: int, limit: int, min_one_batch: bool
    ) -> LogSlice | None:
        try:
            begin, end = segment.bounds(start_offset, max_bytes, limit, min_one_batch=min_one_batch)
            if begin == segment.size:
                return None
            segment.verify(begin, end)
            file = segment.file
        except (BadBatchError, OSError) as error:
            self._unreadable(segment, error)
        segment.touch()
        return LogSlice(file, begin, end - begin)

    def _unreadable(self, segment: Segment, error: BadBatchError | OSError) -> NoReturn:
        """Damaged bytes are not served and the replica is marked; the rest of the log, and other logs, go on."""
        if isinstance(error, BadBatchError) or error.errno not in _PASSING_ERRORS:
            position = error.position if isinstance(error, BadBatchError) else 0
            self.corruption = Corruption(segment.path(LOG_SUFFIX), position, segment.base_offset, str(error), None)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} cannot be read: {error}") from error

    # -- cutting ----------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Cut everything from ``offset`` on, durably; an offset inside a batch takes that batch with it.

        False when the log already ends at or before ``offset``. Rows R4, R13.
        """
        self.commit()
        if offset >= self.log_end_offset:
            return False
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with self._guard("truncate"):
            self._lower_recovery_point(offset)
            while self._segments.active.base_offset > offset:
                self._discard(self._segments.pop().detach())
                self._disk.fsync_dir(self.directory)
            active = self._segments.active
            if not active.is_active:
                active.activate()
            found = active.find(offset)
            position = active.size if found is None else found[0]
            end_offset = offset if found is None else min(offset, found[1].base_offset)
            active.truncate(position, end_offset)
            self._end_at(end_offset)
            if self._producers.must_reload(end_offset):
                self._snapshots.remove(above=end_offset)
                self._producers = self._snapshots.load(self._segments, self.log_start_offset, end_offset)
            self._snapshots.remove(above=end_offset)
            self._disk.fsync_dir(self.directory)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, durably; the log is empty and begins at ``offset`` (row R13)."""
        self.commit()
        with self._guard("restart"):
            self._lower_recovery_point(offset)
            self._epochs.clear()
            self._epochs.store(self._disk, self.directory)
            self._snapshots.remove(below=offset + 1, above=offset)
            while len(self._segments) > 1:
                self._discard(self._segments.pop().detach())
                self._disk.fsync_dir(self.directory)
            self._discard(self._segments[0].detach())
            self._segments.replace_all(self._new_segment(offset))
            self._disk.fsync_dir(self.directory)
            self._producers.clear()
            self.log_start_offset = offset
            self._end_at(offset)
            self.recovery_point = offset

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Records below ``offset`` are no longer part of the log. False when they already were not."""
        if offset <= self.log_start_offset:
            return False
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} ends at {self.log_end_offset}; it cannot start at {offset}",
            )
        self.log_start_offset = offset
        self._epochs.truncate_from_start(offset)
        return True

    def delete_records(self, offset: int, high_watermark: int) -> int:
        """DeleteRecords: drop what lies below ``offset`` (-1: the high watermark); the new log start offset."""
        self.commit()
        offset = high_watermark if offset == -1 else offset
        if not 0 <= offset <= high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"records of {self.topic_partition} can be deleted up to {high_watermark}, not {offset}",
            )
        self.maybe_increment_log_start_offset(offset)
        return self.log_start_offset

    def delete_old_segments(self, high_watermark: int, wall_ms: int) -> int:
        """Apply retention; how many segments went. See :mod:`minikafka.storage.retention`."""
        self.commit()
        count = retention.deletable(
            self._segments,
            self._config,
            log_start_offset=self.log_start_offset,
            high_watermark=high_watermark,
            wall_ms=wall_ms,
        )
        if count == 0:
            return 0
        with self._guard("delete segments of"):
            self.maybe_increment_log_start_offset(self._segments[count].base_offset)
            for segment in self._segments.drop_first(count):
                self._discard(segment.detach())
            self._snapshots.remove(below=self._segments[0].base_offset)
            self._is_directory_dirty = True
        return count

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget idle producers (``producer.id.expiration.ms``); ``now_ms`` is monotonic. How many."""
        return self._producers.remove_expired(now_ms, expiration_ms)

    def _end_at(self, end_offset: int) -> None:
        self._epochs.truncate_from_end(end_offset)
        self.log_end_offset = self._next_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self._generation += 1

    def _lower_recovery_point(self, offset: int) -> None:
        """What will be overwritten must not be taken for durable after a crash: tell the disk first."""
        if offset < self.recovery_point:
            self.recovery_point = offset
            self._hooks.checkpoint_recovery_point()

    def _discard(self, paths: Sequence[str]) -> None:
        if self._hooks.discard is not None:
            self._hooks.discard(paths)
            return
        for path in paths:
            self._disk.unlink(path)

    def _new_segment(self, base_offset: int) -> Segment:
        segment = Segment(
            self._disk,
            self.directory,
            base_offset,
            cache=self._cache,
            index_interval_bytes=self._config.index_interval_bytes,
        )
        segment.create()
        return segment

    # -- making it durable ------------------------------------------------------------------------------------------

    def flush_due(self, wall_ms: int) -> bool:
        """True when a rolled segment, ``flush.messages`` or ``flush.ms`` asks for a flush."""
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        return (
            self.recovery_point < self._segments.active.base_offset
            or unflushed >= self._config.flush_messages
            or wall_ms - self._last_flush_ms >= self._config.flush_ms
        )

    def prepare_flush(self) -> FlushJob:
        """What to sync so that the log is durable up to its present end; run it, then :meth:`complete_flush`."""
        self.commit()
        segments = self._segments.since(self.recovery_point) if self.recovery_point < self.log_end_offset else []
        index_paths = [
            segment.path(kind)
            for segment in segments
            if not segment.is_active
            for kind in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        ]
        job = FlushJob(
            self._disk,
            up_to_offset=self.log_end_offset,
            generation=self._generation,
            files=[segment.file for segment in segments],
            paths=index_paths,
            directory=self.directory if self._is_directory_dirty else None,
        )
        self._is_directory_dirty = False
        return job

    def complete_flush(self, job: FlushJob, *, wall_ms: int = NO_TIMESTAMP) -> None:
        """A job has run: move the recovery point. StorageFailure, and offline, if it failed."""
        assert job.is_done
        if self.failure is not None:
            raise self.failure
        if job.error is not None:
            self._fail("flush", job.error)
        with self._guard("flush"):
            self._epochs.store(self._disk, self.directory)
        if job.generation == self._generation:
            self.recovery_point = max(self.recovery_point, job.up_to_offset)
            self._last_flush_ms = wall_ms

    def flush(self) -> None:
        """Make everything durable now, here."""
        job = self.prepare_flush()
        job.run()
        self.complete_flush(job)

    def close(self) -> None:
        """An orderly end: everything durable, indexes and producer state written. The log cannot be used again."""
        self.commit()
        with self._guard("close"):
            self._segments.active.seal()
            self._snapshots.take(self._producers, self.log_end_offset)
        self._is_directory_dirty = True
        self.recovery_point = min(self.recovery_point, self._segments.active.base_offset)
        self.flush()
        self._let_go(StorageFailure(f"{self.topic_partition} is closed"))

    def go_offline(self, failure: StorageFailure) -> None:
        """The directory failed, or the log was deleted: nothing staged becomes visible, nothing more is done."""
        if self.failure is None:
            self._let_go(failure)

    def _let_go(self, failure: StorageFailure) -> None:
        self.failure = failure
        self._staged.clear()
        self._buffers.clear()
        self._staged_bytes = 0
        for segment in self._segments:
            self._cache.forget(segment)
            segment.abandon()

    def _fail(self, what: str, error: OSError) -> NoReturn:
        failure = StorageFailure(f"could not {what} the log of {self.topic_partition} in {self.directory}: {error}")
        self.go_offline(failure)
        self._hooks.on_failure(failure)
        raise failure from error

    @contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except OSError as error:
            self._fail(what, error)
