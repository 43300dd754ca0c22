"""One partition's log: append, read, cut, make durable.

A :class:`Log` has the shared state of its parts (segments, offsets, epochs, producers) and handles failures. The parts
do the work, each with state of its own; their methods are also methods of the log:

=============  ========================================================================================================
``appender``   ``stage``, ``commit``, ``append_as_follower``, ``begin_following``, ``begin_epoch``, ``roll``
``reader``     ``read``, ``end_of``, ``bytes_between``; ``is_cold``;
               ``prepare_read``, ``prepare_verification``, ``prepare_retention``, ``prepare_compaction``,
               ``prepare_timestamp_lookup``, ``prepare_max_timestamp_lookup``, ``complete_read``
``cutter``     ``prepare_truncation``, ``prepare_restart``, ``complete_cut``; ``truncate_to``,
               ``truncate_fully_and_start_at``; ``maybe_increment_log_start_offset``, ``delete_records``;
               ``prepare_deletion``, ``complete_deletion``
``aborted``    look-ups of aborted transactions (``AbortedTransactions``)
``flusher``    ``flush_due``, ``prepare_flush``, ``complete_flush``, ``flush``; ``prepare_close``, ``complete_close``,
               ``close``
=============  ========================================================================================================

Invariants: ``log_start_offset <= log_end_offset`` and ``recovery_point <= log_end_offset``; everything below the
recovery point is durable; leader epochs never fall along the log. A failed write, truncation or fsync leaves the log
*offline*: every later call raises the same :class:`StorageFailure` until the log is opened again, which cuts off what
the failed write may have left behind the last good batch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from os.path import dirname
from types import MethodType
from typing import NamedTuple, NoReturn
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ZERO_TOPIC_ID, OffsetAndEpoch, TopicPartition
from minikafka.storage import compaction
from minikafka.storage.aborted import AbortedTransactions
from minikafka.storage.appending import Appender, AppendInfo
from minikafka.storage.compaction import CompactionJob
from minikafka.storage.config import LogConfig
from minikafka.storage.cut_job import CutJob
from minikafka.storage.cutting import Cutter
from minikafka.storage.damage import remove_refetch_mark, write_refetch_mark
from minikafka.storage.disk import Disk
from minikafka.storage.durable_end import DurableEnd
from minikafka.storage.epochs import EpochEntry
from minikafka.storage.errors import (
    BadBatchError,
    Corruption,
    IllegalLogState,
    PassingFailure,
    StorageFailure,
    failure_of,
    is_full,
    is_missing,
    is_passing,
)
from minikafka.storage.flush import Flusher, FlushJob
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log_ends import NOT_NOTED, UnknownEnd
from minikafka.storage.read_jobs import ReadJob
from minikafka.storage.reading import Reader
from minikafka.storage.recovery import LoadedLog, load_log
from minikafka.storage.segment import Segment
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segment_names import LOG_SUFFIX
from minikafka.storage.slice import LogSlice
from minikafka.storage.snapshots import SnapshotFiles
from minikafka.storage.timestamps import TimestampedOffset
from minikafka.storage.transaction_index import NO_ABORTED

__all__ = [
    "AppendInfo",
    "Corruption",
    "CutJob",
    "FlushJob",
    "IllegalLogState",
    "Log",
    "LogHooks",
    "LogSlice",
    "ReadJob",
    "StorageFailure",
    "TimestampedOffset",
]


def _nothing() -> None:
    """No checkpoints without a log directory."""


class LogHooks(NamedTuple):
    """Calls of a log to its directory."""

    on_failure: Callable[[StorageFailure], None] = lambda _failure: None
    prepare_bounds: Callable[[int], Callable[[], None]] = lambda _high_watermark: _nothing  # see Log.prepare_bounds
    discard: Callable[[Sequence[str], int], None] | None = None  # files to unlink after so many ms; None: at once
    lower_recorded: Callable[[int], Callable[[], None]] = lambda _floor: _nothing  # what checkpoints say, before a cut
    can_be_remade: bool = False  # missing files cost this log alone; else they are a failure of its directory


class _Left:
    """A part of a log that was left, and each of its methods: every use raises the log's failure."""

    __slots__ = ("_failure",)

    def __init__(self, failure: StorageFailure) -> None:
        self._failure = failure

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(name) if name.startswith("__") else self._failure

    def __call__(self, *_args: object, **_options: object) -> NoReturn:
        raise self._failure


class Log:
    """See the module. ``failure`` is set once it is offline, ``corruption`` once damage was found.

    Single-threaded, but the ``run`` of a flush and the ``step`` of a compaction may be elsewhere.
    """

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
        self.disk = disk
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments = loaded.segments
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.snapshots = SnapshotFiles(disk, directory)
        self.segment_list = loaded.segment_list
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.segments.active.next_offset
        self.recovery_point = loaded.recovery_point
        self.corruption: Corruption | None = loaded.corruption
        self._is_mark_due = False  # after a shortage the mark on the disk is outdated
        self.was_torn = loaded.was_torn  # after a kill its last write is incomplete: not claimed as whole once
        self.durable_end = DurableEnd(disk, directory) if config.notes_durable_end else None
        if self.durable_end is not None:
            self.durable_end.lower(self.log_end_offset)  # what is gone is marked as damage
        self.end_slot: UnknownEnd = NOT_NOTED  # its directory gives it one
        self.failure: StorageFailure | None = None
        self.cut_floor: int | None = None  # during a cut: lowest possible log end
        self.first_dirty_offset = min(int(loaded.is_cleaned), self.log_end_offset)  # end of the cleaned part
        self.generation = 0  # number of truncations, and of new names: a flush of an older one moves no recovery point
        self.lowest_cut: int | None = None  # of all truncations since a copy of it was cut, too
        self.is_arriving = False  # from another directory: no thread has to do with its files
        self.is_cleaning = False  # a pass of the cleaner is under way
        self.is_swapping = False  # its segments are taking the place of the old ones, which retention leaves alone
        self.writers = 0  # jobs in threads that change files by their names
        self.has_lost_files = False  # files were removed under the node: it must be created again
        self._config = config
        self._cache = cache
        self._hooks = hooks
        self._take_parts(is_believed=loaded.is_believed)

    def _take_parts(self, *, is_believed: bool) -> None:
        appender = self.appender = Appender(self)
        self.stage = appender.stage
        self.commit = appender.commit
        self.append_as_follower = appender.append_as_follower
        self.begin_following = appender.begin_following
        self.begin_epoch = appender.begin_epoch
        self.roll = appender.roll
        reader = self.reader = Reader(self)
        self.read = reader.read
        self.end_of = reader.end_of
        self.bytes_between = reader.bytes_between
        self.is_cold = reader.is_cold
        self.prepare_read = reader.prepare_read
        self.prepare_verification = reader.prepare_verification
        self.prepare_retention = reader.prepare_retention
        self.prepare_compaction = reader.prepare_compaction
        self.prepare_timestamp_lookup = reader.prepare_timestamp_lookup
        self.prepare_max_timestamp_lookup = reader.prepare_max_timestamp_lookup
        self.complete_read = reader.complete_read
        self.aborted = AbortedTransactions(self)
        cutter = self.cutter = Cutter(self)
        self.prepare_truncation = cutter.prepare_truncation
        self.prepare_restart = cutter.prepare_restart
        self.complete_cut = cutter.complete_cut
        self.truncate_to = cutter.truncate_to
        self.truncate_fully_and_start_at = cutter.truncate_fully_and_start_at
        self.maybe_increment_log_start_offset = cutter.maybe_increment_log_start_offset
        self.delete_records = cutter.delete_records
        self.prepare_deletion = cutter.prepare_deletion
        self.complete_deletion = cutter.complete_deletion
        flusher = self.flusher = Flusher(self, is_believed=is_believed)
        self.flush_due = flusher.flush_due
        self.prepare_flush = flusher.prepare_flush
        self.complete_flush = flusher.complete_flush
        self.flush = flusher.flush
        self.prepare_close = flusher.prepare_close
        self.complete_close = flusher.complete_close
        self.close = flusher.close

    def let_go_of_parts(self) -> None:
        """A part has its log, too: such a circle is freed by a full garbage collection alone, and a node has none for
        days. These were 82 objects of each deleted replica."""
        assert self.failure is not None
        left = _Left(self.failure)
        parts = (Appender, Reader, AbortedTransactions, Cutter, Flusher)
        for name, value in tuple(vars(self).items()):
            if isinstance(value, (*parts, MethodType)) and isinstance(getattr(value, "__self__", value), parts):
                setattr(self, name, left)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig | None = None,
        *,
        topic_id: UUID = ZERO_TOPIC_ID,
        last_stop: LastStop | None = None,
        cache: SegmentCache | None = None,
        hooks: LogHooks | None = None,
    ) -> Log:
        """Load the partition directory; create it if absent. ``last_stop``: see :mod:`.recovery`."""
        config = config or LogConfig()
        cache = cache or SegmentCache()
        disk.mkdir(directory)
        loaded = load_log(disk, directory, config, cache, last_stop or LastStop())
        return cls(disk, directory, topic_partition, topic_id, config, loaded, cache, hooks or LogHooks())

    # -- state ------------------------------------------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        """The settings; assign to change them."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all segment files."""
        return self.segments.size_in_bytes

    @property
    def active_base_offset(self) -> int:
        """Base offset of the active segment."""
        return self.segments.active.base_offset

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batch, or a later one without a batch; -1 without any epoch."""
        return self.epochs.latest_epoch

    @property
    def epoch_entries(self) -> list[EpochEntry]:
        """Start offset of each leader epoch, oldest first."""
        return self.epochs.entries

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Row E2: the largest epoch <= ``epoch`` and its end offset; (-1, -1) when undefined."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def is_cleaned(self) -> bool:
        """Records may be gone for the sake of later ones with the same key, here or at a leader that was followed."""
        return self._config.is_compacted or self.first_dirty_offset > 0

    def note_cleaned(self) -> None:
        """Records are, or may be, gone for the sake of later ones. That stays known when the topic is not compacted any
        more. It does not say how far the log is clean: the next pass maps all of it."""
        self.first_dirty_offset = max(self.first_dirty_offset, 1)

    def epoch_for_offset(self, offset: int) -> int:
        """The leader epoch of ``offset``; -1 when unknown."""
        return self.epochs.epoch_for(offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """First offset a read_committed consumer may not read, given the high watermark (row T21)."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(max(unstable, self.log_start_offset), high_watermark)

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget idle producers (``producer.id.expiration.ms``); ``now_ms`` is monotonic. Returns their number."""
        return self.producers.remove_expired(now_ms, expiration_ms)

    # -- compaction -------------------------------------------------------------------------------------------------

    def plan_compaction(self, high_watermark: int, wall_ms: int) -> CompactionJob | None:
        """A pass of the cleaner, if one is due. Call ``step`` in a thread until True, then ``prepare_swap``."""
        self.commit()
        return compaction.plan(self, high_watermark, wall_ms) if self._config.is_compacted else None

    def prepare_swap(self, job: CompactionJob) -> bool:
        """The job's steps are done. True: call its ``publish`` in a thread, then :meth:`completing_compaction`."""
        return compaction.prepare_swap(self, job)

    def completing_compaction(self, job: CompactionJob) -> Generator[None, None, bool]:
        """Replaces the old segments by the compacted ones, in portions. False when that is no longer possible."""
        return compaction.completing(self, job)

    # -- segments ---------------------------------------------------------------------------------------------------

    def new_segment(self, base_offset: int) -> Segment:
        """A segment of this log with an empty file."""
        segment = self.loaded_segment(base_offset, 0, base_offset)
        segment.create()
        self.flusher.names_changed()
        return segment

    def loaded_segment(self, base_offset: int, size: int, next_offset: int, aborted: int = NO_ABORTED) -> Segment:
        """A closed segment of this log whose files are in place. ``aborted``: see :attr:`KnownAborted.checksum`."""
        segment = Segment(
            self.disk,
            self.directory,
            base_offset,
            cache=self._cache,
            index_interval_bytes=self._config.index_interval_bytes,
            size=size,
            next_offset=next_offset,
        )
        segment.known_aborted.expect(aborted)
        return segment

    def discard(self, segment: Segment) -> None:
        """Remove a segment's files; slices of it in flight stay readable."""
        paths = segment.detach()
        self.flusher.names_changed()
        self.throw_away(paths)

    def throw_away(self, paths: Sequence[str]) -> None:
        """Unlink renamed files, later (``file.delete.delay.ms``)."""
        if self._hooks.discard is not None:
            self._hooks.discard(paths, self._config.file_delete_delay_ms)
            return
        for path in paths:
            self.disk.unlink(path)

    def owned(self, segment: Segment) -> Segment:
        """A segment that comes back from a thread."""
        segment = segment.copy(self._cache)
        segment.index_interval_bytes = self._config.index_interval_bytes
        return segment

    def share(self, cache: SegmentCache) -> None:
        """Use a shared cache: the log was created in a thread, with a cache of its own."""
        self._cache = cache
        for segment in self.segments:
            segment.share(cache)

    def relocate(self, directory: str) -> None:
        """Its directory has another name now. Reads under way in threads, which have the former, are asked again."""
        self.directory = directory
        self.generation += 1
        self.snapshots = SnapshotFiles(self.disk, directory)
        self.segment_list.relocated(directory)
        self.flusher.relocated(directory)
        for segment in self.segments:
            segment.directory = directory

    # -- bounds -----------------------------------------------------------------------------------------------------

    @property
    def can_be_remade(self) -> bool:
        """False for a log that is not fetched again when its files are gone."""
        return self._hooks.can_be_remade

    @property
    def is_cutting(self) -> bool:
        """True from ``prepare_truncation`` or ``prepare_restart`` to ``complete_cut``."""
        return self.cut_floor is not None

    def refuse_while_cut(self) -> None:
        """OFFSET_NOT_AVAILABLE, which is retriable, during a cut."""
        if self.cut_floor is not None:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{self.topic_partition} is being truncated; try again")

    def lower_recorded(self, floor: int, end_floor: int, start: int) -> Callable[[], None]:
        """Before a cut: lower the checkpoints. After a crash the cut records must count neither as durable nor as lost.

        ``end_floor``: lowest possible log end. ``start``: start of the first segment after the cut. The returned
        function writes to the disk, in any thread.
        """
        lower_checkpoints, slot = self._hooks.lower_recorded(floor), self.end_slot
        first, epoch = self.segments[0].base_offset, self.epochs.epoch_before(end_floor)

        def lower() -> None:
            lower_checkpoints()
            slot.note(end_floor, epoch)
            if start > first:
                slot.note_start(start)

        return lower

    def prepare_bounds(self, high_watermark: int) -> Callable[[], None]:
        """Note the high watermark, and recovery point and log start of now.

        The returned function makes them durable, in any thread.
        """
        return self._hooks.prepare_bounds(high_watermark)

    # -- failing ----------------------------------------------------------------------------------------------------

    @property
    def is_offline(self) -> bool:
        """True once storage failed under the log, or it was closed or deleted."""
        return self.failure is not None

    def go_offline(self, failure: StorageFailure) -> None:
        """The directory failed, or the log was closed or deleted: every later call raises ``failure``.

        Staged batches never become visible.
        """
        if self.failure is None:
            self.failure = failure
            self.appender.drop_staged()
            for segment in self.segments:
                segment.abandon()

    def leave(self, failure: StorageFailure, *, has_copy: bool = False) -> None:
        """The log is removed or replaced: offline, without its parts, and its end is no longer noted.

        ``has_copy``: a copy takes its place, and these over; :meth:`let_go_of_parts` must follow.
        """
        self.go_offline(failure)
        if not has_copy:
            self.let_go_of_parts()
        self.end_slot.free(is_in_use=self.writers > 0)
        self.end_slot = NOT_NOTED

    def fail(self, what: str, error: OSError) -> NoReturn:
        """An operation ``what`` on the log failed: the log goes offline, and so does its directory.

        A missing file damages this log only.
        """
        message = f"could not {what} the log of {self.topic_partition} in {self.directory}: {error}"
        failure = StorageFailure(message, is_full=is_full(error))
        is_ours = self._hooks.can_be_remade and is_missing(error)
        if is_ours and self.disk.is_dir(dirname(self.directory)):
            self.lose_files(str(error))
            self.go_offline(failure)
        else:
            self.go_offline(failure)
            self._hooks.on_failure(failure)
        raise failure from error

    def lose_files(self, why: str) -> None:
        """Some of the log's files are gone: all of it is damaged. Open files are served while possible."""
        if not self.has_lost_files:
            self.has_lost_files = True
            self.corruption = Corruption(self.directory, 0, 0, f"files of the log are gone: {why}", None)

    @contextmanager
    def guard(self, what: str, *, is_repeatable: bool = False) -> Iterator[None]:
        """For code that changes files: an OSError inside takes the log offline.

        Except for a shortage of the process, if the code can be repeated: PassingFailure.
        """
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except OSError as error:
            failure = failure_of(f"{what} the log of {self.topic_partition}", error)
            if is_repeatable and isinstance(failure, PassingFailure):
                raise failure from error
            self.fail(what, error)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around a job in a thread that changes files of the log by their names.

        Until it ends, no other log is made under the same path, or gets its slot in the file of log ends: the job would
        change that log's files, or its noted end.
        """
        self.writers += 1
        try:
            yield
        finally:
            self.writers -= 1

    # -- damage -----------------------------------------------------------------------------------------------------

    def newest_timestamp(self, segment: Segment) -> int:
        """The largest timestamp (ms) in a segment, -1 without one. KAFKA_STORAGE_ERROR when it cannot be read."""
        try:
            return segment.max_timestamp.timestamp
        except (BadBatchError, OSError) as error:
            self.unreadable(segment, error)

    def first_timestamp(self, segment: Segment) -> int:
        """That of its first batch, as :meth:`newest_timestamp`."""
        try:
            return segment.first_timestamp()
        except (BadBatchError, OSError) as error:
            self.unreadable(segment, error)

    def unreadable(self, segment: Segment, error: BadBatchError | OSError) -> NoReturn:
        """Damaged bytes are not served and the replica is marked; the rest of the log, and other logs, go on."""
        if isinstance(error, BadBatchError) or not is_passing(error):
            self.mark_damaged(segment, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} cannot be read: {error}") from error

    def mark_damaged(self, segment: Segment, error: BadBatchError | OSError) -> None:
        """Mark durably: the replica must be fetched again from the segment on."""
        if self.corruption is None or segment.base_offset < self.corruption.offset:
            position = error.position if isinstance(error, BadBatchError) else 0
            self.corruption = Corruption(segment.path(LOG_SUFFIX), position, segment.base_offset, str(error), None)
            self._is_mark_due = True
        self.write_due_mark()

    def write_due_mark(self) -> None:
        """Write or remove the mark of damage, if that failed before; tried again at the latest when the log is closed.

        PassingFailure, StorageFailure.
        """
        if not self._is_mark_due:
            return
        with self.guard("mark" if self.corruption else "unmark", is_repeatable=True):
            if self.corruption is not None:
                write_refetch_mark(self.disk, self.directory, self.corruption)
            else:
                remove_refetch_mark(self.disk, self.directory)
        self._is_mark_due = False

    def refetched(self) -> None:
        """The damaged part was cut off and fetched again from the leader: the replica is whole.

        PassingFailure: it is, but the mark is not removed yet.
        """
        if self.corruption is not None:  # else it was missing as a whole: there is no mark
            self.corruption, self._is_mark_due = None, True
        self.write_due_mark()
