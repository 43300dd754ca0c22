"""The checkpoint files of one log directory, rewritten as a whole.

Rows change on the event loop, log by log; a :class:`CheckpointJob` makes them durable in any thread. Rows of a log that
is being cut are never above the cut: until the files are cut, a crash may leave them as they are.

A partition that was deleted and created again never inherits offsets from an older file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from minikafka.model import TopicPartition
from minikafka.storage.aside import TEMPORARY_SUFFIX
from minikafka.storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    OffsetCheckpoint,
)
from minikafka.storage.disk import Disk
from minikafka.storage.log import Log

Logs = Mapping[TopicPartition, Log]


class CheckpointJob:
    """Writes the checkpoint files durably. ``run`` never raises: see ``error``."""

    def __init__(self, store: Callable[[], None]) -> None:
        self.error: OSError | None = None
        self._store = store

    def run(self) -> None:
        """Sync what changed, in any thread."""
        self.error = None
        try:
            self._store()
        except OSError as error:
            self.error = error


class DirectoryCheckpoints:
    """Checkpoints that a load starts from, by partition (row R22)."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._recovery_points = OffsetCheckpoint(disk, path, RECOVERY_POINT_FILE)
        self._log_starts = OffsetCheckpoint(disk, path, LOG_START_FILE)
        self._first_dirty = OffsetCheckpoint(disk, path, CLEANER_FILE)
        self._high_watermarks = OffsetCheckpoint(disk, path, HIGH_WATERMARK_FILE)
        self._files = (self._first_dirty, self._recovery_points, self._log_starts, self._high_watermarks)
        self._left: dict[TopicPartition, None] = {}  # they may have rows and no log any more
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.first_dirty: dict[TopicPartition, int] = {}

    @property
    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """Those of the next checkpoint."""
        return self._high_watermarks.offsets

    def read(self) -> None:
        """Read the files; OSError when the disk refuses, as in the other methods."""
        for name in self._disk.listdir(self._path):
            if name.endswith(TEMPORARY_SUFFIX):
                self._disk.unlink(f"{self._path}/{name}")
        self.recovery_points, self.log_starts = self._recovery_points.read(), self._log_starts.read()
        self.first_dirty = self._first_dirty.read()
        self._high_watermarks.read()
        self._left = {tp: None for file in self._files for tp in file.offsets}

    def log_start(self, tp: TopicPartition) -> int | None:
        """Start offset of a log; None when the file is unreadable."""
        return None if self._log_starts.is_unreadable else self.log_starts.get(tp, 0)

    def prepare_bounds(self, tp: TopicPartition, log: Log, high_watermark: int) -> Callable[[], None]:
        """Note all rows of a log, its high watermark unless it is lower than the last; what is returned makes them
        durable."""
        self._note_bounds(tp, log)
        self._high_watermarks.note(tp, max(_uncut(log, high_watermark), self.high_watermarks.get(tp, 0)))
        return self._store

    def note(self, tp: TopicPartition, log: Log, high_watermark: int | None) -> None:
        """Note all rows of a log; without a high watermark it keeps its last one."""
        self._note_bounds(tp, log)
        if high_watermark is not None:
            self._high_watermarks.note(tp, _uncut(log, high_watermark))

    def prepare(self, logs: Logs) -> CheckpointJob:
        """Make the rows durable that were noted of these logs, and forget those of others."""
        for tp in self._left:
            if tp not in logs:
                for file in self._files:
                    file.forget(tp)
        self._left.clear()
        return CheckpointJob(self._store)

    def leave(self, tp: TopicPartition) -> None:
        """A log is gone: the next :meth:`prepare` forgets its rows. Until then a copy of it may need them."""
        self._left[tp] = None

    def mentions(self, tp: TopicPartition) -> bool:
        """Some file has a row of the partition."""
        return any(file.mentions(tp) for file in self._files)

    def prepare_forget(self, tp: TopicPartition) -> Callable[[], None]:
        """A log is about to be created: the returned function durably removes its old rows."""
        if not self.mentions(tp):
            return _nothing
        for file in self._files:
            file.forget(tp)
        return self._store

    def prepare_cut(self, tp: TopicPartition, floor: int) -> Callable[[], None]:
        """A log is about to be cut at ``floor`` or above: the returned function durably lowers its rows to that."""
        for file in self._files:
            file.lower(tp, floor)
        return self._store

    def lower_to_ends(self, logs: Logs) -> None:
        """Lower all rows to the log ends: new records in place of lost ones are neither committed nor durable yet."""
        ends = {tp: log.log_end_offset for tp, log in logs.items()}
        for tp, end in ends.items():
            if end < self.recovery_points.get(tp, end):
                self._recovery_points.lower(tp, end)
                self._recovery_points.store()
        self._high_watermarks.write({tp: min(at, ends.get(tp, at)) for tp, at in self.high_watermarks.items()})

    def partitions(self) -> set[TopicPartition]:
        """Partitions with a recovery point or a high watermark in the files."""
        return {*self.recovery_points, *self.high_watermarks}

    def _store(self) -> None:
        """A recovery point is never newer than what is said of the cleaner: nobody looks for gaps below it."""
        newest_last = [file.prepare_store() for file in reversed(self._files)]
        for store in reversed(newest_last):
            store()

    def _note_bounds(self, tp: TopicPartition, log: Log) -> None:
        self._recovery_points.note(tp, _uncut(log, log.recovery_point))
        _note_above_zero(self._log_starts, tp, _uncut(log, log.log_start_offset))
        _note_above_zero(self._first_dirty, tp, _uncut(log, log.first_dirty_offset))


def _note_above_zero(file: OffsetCheckpoint, tp: TopicPartition, offset: int) -> None:
    """An offset that counts as 0 without a row."""
    if offset > 0:
        file.note(tp, offset)
    else:
        file.forget(tp)


def _nothing() -> None:
    """No row to change."""


def _uncut(log: Log, offset: int) -> int:
    """The offset for a row, below the cut of a log that is being cut."""
    return offset if log.cut_floor is None else min(offset, log.cut_floor)
