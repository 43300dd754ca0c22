"""What the parts of a log share: its segments, epochs, producers and offsets, and how it goes offline.

:class:`~minikafka.storage.log.Log` is a :class:`LogCore` that appends; reading, cutting and flushing are modules of
functions over the core.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_TIMESTAMP, TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.damage import write_refetch_mark
from minikafka.storage.disk import Disk
from minikafka.storage.durable_end import DurableEnd
from minikafka.storage.errors import BadBatchError, Corruption, StorageFailure
from minikafka.storage.recovery import LoadedLog
from minikafka.storage.segment import LOG_SUFFIX, Segment, SegmentCache
from minikafka.storage.snapshots import SnapshotFiles

_PASSING_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # say nothing about the file


class LogHooks(NamedTuple):
    """What a log tells its directory."""

    on_failure: Callable[[StorageFailure], None] = lambda _failure: None
    record_bounds: Callable[[], None] = lambda: None  # recovery point and log start, durably, before they are cut
    discard: Callable[[Sequence[str]], None] | None = None  # files to unlink some time; None: at once


class LogCore:
    """The state of one log. ``failure`` is set once it is offline, ``corruption`` once damage was found."""

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
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments = loaded.segments
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.snapshots = SnapshotFiles(disk, directory)
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.segments.active.next_offset
        self.recovery_point = loaded.recovery_point
        self.corruption: Corruption | None = loaded.corruption
        self.durable_end = DurableEnd(disk, directory) if config.notes_durable_end else None
        if self.durable_end is not None:
            self.durable_end.lower(self.log_end_offset)  # what is gone is marked as damage
        self.failure: StorageFailure | None = None
        self.first_dirty_offset = 0  # compaction looked at what lies below
        self.generation = 0  # of truncations: a flush that began in an older one moves no recovery point
        self.is_directory_dirty = not loaded.is_believed  # a file was made or renamed since the directory was synced
        self.unsynced_paths: list[str] = []  # small files that the next flush takes along
        self.last_flush_ms = NO_TIMESTAMP
        self.is_replaced = False  # by a copy in another directory, which is durable; this log is of the past
        self.is_cleaning = False  # a pass of the cleaner is under way
        self.is_uncleanable = False  # the cleaner found a batch that it cannot read; until the next start
        self.disk = disk
        self._is_believed = loaded.is_believed
        self._loaded_end_offset = self.log_end_offset
        self._config = config
        self._cache = cache
        self._hooks = hooks

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
    def has_changed(self) -> bool:
        """False while the files are exactly as an orderly stop left them."""
        is_rebuilt = self.is_directory_dirty or not self._is_believed
        return is_rebuilt or self.log_end_offset != self._loaded_end_offset or self.generation > 0

    # -- segments ---------------------------------------------------------------------------------------------------

    def new_segment(self, base_offset: int, suffix: str = "") -> Segment:
        """A segment of this log with an empty file."""
        segment = Segment(
            self.disk,
            self.directory,
            base_offset,
            cache=self._cache,
            index_interval_bytes=self._config.index_interval_bytes,
            suffix=suffix,
        )
        segment.create()
        self.is_directory_dirty = True
        return segment

    def loaded_segment(self, base_offset: int, size: int, next_offset: int) -> Segment:
        """A closed segment of this log whose files are in place."""
        return Segment(
            self.disk,
            self.directory,
            base_offset,
            cache=self._cache,
            index_interval_bytes=self._config.index_interval_bytes,
            size=size,
            next_offset=next_offset,
        )

    def discard(self, segment: Segment) -> None:
        """Take a segment's files away; slices of it in flight stay readable."""
        paths = segment.detach()
        self.is_directory_dirty = True
        if self._hooks.discard is not None:
            self._hooks.discard(paths)
            return
        for path in paths:
            self.disk.unlink(path)

    def lower_bounds(self, offset: int) -> None:
        """After a crash, what is to be cut must not pass for durable, nor the log start behind it: tell the disk."""
        if self.durable_end is not None:
            self.durable_end.lower(offset)
        if offset < self.recovery_point or offset < self.log_start_offset:
            self.recovery_point = min(self.recovery_point, offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self.record_bounds()

    def record_bounds(self) -> None:
        """Record the recovery point and the log start durably, now."""
        self._hooks.record_bounds()

    def relocate(self, directory: str) -> None:
        """The log, durable as it is, is now found in another directory."""
        self.directory = directory
        self.snapshots = SnapshotFiles(self.disk, directory)
        self.unsynced_paths = []
        for segment in self.segments:
            segment.directory = directory

    # -- failing ----------------------------------------------------------------------------------------------------

    @property
    def is_offline(self) -> bool:
        """True once storage failed under the log, or it was closed or deleted."""
        return self.failure is not None

    def go_offline(self, failure: StorageFailure) -> None:
        """The directory failed, or the log was closed or deleted: every later call raises ``failure``."""
        if self.failure is None:
            self.failure = failure
            for segment in self.segments:
                segment.abandon()

    def fail(self, what: str, error: OSError) -> NoReturn:
        """The disk refused to do something to the log: it goes offline, and its directory is told."""
        failure = StorageFailure(f"could not {what} the log of {self.topic_partition} in {self.directory}: {error}")
        self.go_offline(failure)
        self._hooks.on_failure(failure)
        raise failure from error

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Around everything that changes files: an OSError inside takes the log offline."""
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except OSError as error:
            self.fail(what, error)

    def unreadable(self, segment: Segment, error: BadBatchError | OSError) -> NoReturn:
        """Damaged bytes are not served and the replica is marked; the rest of the log, and other logs, go on."""
        if isinstance(error, BadBatchError) or error.errno not in _PASSING_ERRORS:
            self.mark_damaged(segment, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} cannot be read: {error}") from error

    def mark_damaged(self, segment: Segment, error: BadBatchError | OSError) -> None:
        """The replica must be fetched again from the segment on; a restart does not forget it."""
        position = error.position if isinstance(error, BadBatchError) else 0
        self.corruption = Corruption(segment.path(LOG_SUFFIX), position, segment.base_offset, str(error), None)
        with self.guard("mark"):
            write_refetch_mark(self.disk, self.directory, self.corruption)
