"""The checkpoint files of one log directory, rewritten as a whole.

A partition that was deleted and made again never inherits offsets from a file written before.
"""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.model import TopicPartition
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


class DirectoryCheckpoints:
    """What a load starts from, by partition; ``high_watermarks`` are those last written (row R22)."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._recovery_points = OffsetCheckpoint(disk, path, RECOVERY_POINT_FILE)
        self._log_starts = OffsetCheckpoint(disk, path, LOG_START_FILE)
        self._first_dirty = OffsetCheckpoint(disk, path, CLEANER_FILE)
        self._high_watermarks = OffsetCheckpoint(disk, path, HIGH_WATERMARK_FILE)
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.first_dirty: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}

    def read(self) -> None:
        """What was written last; OSError when the disk refuses, as below."""
        self.recovery_points, self.log_starts = self._recovery_points.read(), self._log_starts.read()
        self.first_dirty, self.high_watermarks = self._first_dirty.read(), self._high_watermarks.read()

    def record_bounds(self, logs: Logs) -> None:
        """Record durably below which offsets the logs need no recovery, and where they start."""
        self._recovery_points.write({where: log.recovery_point for where, log in logs.items()})
        self._log_starts.write({where: log.log_start_offset for where, log in logs.items() if log.log_start_offset > 0})

    def write(self, logs: Logs, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Record everything about the logs that are there. Those without a high watermark keep their last."""
        self.high_watermarks.update(high_watermarks)
        self.high_watermarks = {where: self.high_watermarks[where] for where in logs if where in self.high_watermarks}
        first_dirty = {where: log.first_dirty_offset for where, log in logs.items() if log.first_dirty_offset > 0}
        self.record_bounds(logs)
        self._first_dirty.write(first_dirty)
        self._high_watermarks.write(self.high_watermarks)

    def lower_high_watermarks(self, logs: Logs) -> None:
        """What will be written where records were lost is not committed because those were."""
        ends = {where: log.log_end_offset for where, log in logs.items()}
        lowered = {where: min(at, ends.get(where, at)) for where, at in self.high_watermarks.items()}
        if lowered != self.high_watermarks:
            self.high_watermarks = lowered
            self._high_watermarks.write(lowered)

    def mentions(self, where: TopicPartition) -> bool:
        """True when something is recorded of the partition."""
        files = (self._recovery_points, self._log_starts, self._first_dirty, self._high_watermarks)
        return any(checkpoint.mentions(where) for checkpoint in files)
