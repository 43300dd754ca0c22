"""Which of the oldest segments may go (``retention.ms``, ``retention.bytes``, the log start offset).

Only whole segments, oldest first, without a gap, and only below the high watermark. Age is that of the newest record
in the segment. The active segment goes, too, when all of it is that old: it is closed then, so that a topic that nobody
writes to does not keep its last records for ever. A segment without a timestamp is as old as the next one that has one;
one that compaction emptied goes at once.

The wall clock is not believed when it jumps ahead: see :class:`RetentionClock` (docs/decisions/0009).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minikafka.model import NO_TIMESTAMP
from minikafka.storage.config import UNLIMITED, LogConfig
from minikafka.storage.segment import Segment
from minikafka.storage.segment_list import Removal
from minikafka.storage.segments import Segments


class RetentionClock:
    """Wall time (ms) that runs at most twice as fast as the monotonic clock.

    A wall clock that jumps a year ahead would expire everything at once, and nobody could bring the records back. Here
    a jump is made up for as slowly as time passes: by each hour that records go early, somebody had an hour to set the
    clock right. A jump back is followed at once. The first reading is believed: a node that starts after a long time is
    to expire what became old meanwhile.
    """

    def __init__(self) -> None:
        self._read: tuple[int, int] | None = None  # (what was told, monotonic) last time

    def read(self, wall_ms: int, monotonic_ms: int) -> int:
        """The time to compare records with."""
        if self._read is not None:
            told_ms, before_ms = self._read
            wall_ms = min(wall_ms, told_ms + 2 * (monotonic_ms - before_ms))
        self._read = wall_ms, monotonic_ms
        return wall_ms


class DeletionJob:
    """Takes segments off the list of their log, in a thread; then their files may go. ``error``: the disk refused.

    ``make_snapshot``: of the producers where the log will begin, unless there is one; then it is in ``snapshot``.
    ``raise_start``: notes where the log will begin.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        removal: Removal,
        make_snapshot: Callable[[], bytes | None],
        raise_start: Callable[[], None],
    ) -> None:
        self.segments = segments
        self.removal = removal
        self.snapshot: bytes | None = None
        self.error: OSError | None = None
        self._make_snapshot = make_snapshot
        self._raise_start = raise_start

    def run(self) -> None:
        """In any thread; nothing is raised."""
        try:
            self.snapshot = self._make_snapshot()
            self.removal.store()
            self._raise_start()
        except OSError as error:
            self.error = error


def deletable(
    segments: Segments,
    config: LogConfig,
    newest_timestamp: Callable[[Segment], int],
    *,
    log_start_offset: int,
    high_watermark: int,
    wall_ms: int,
) -> int:
    """How many of the oldest segments may be deleted now; as many as there are: the active one has to be closed."""
    excess = _excess_bytes(segments, config)
    count = 0
    for at, segment in enumerate(segments, 1):
        is_active = segment is segments.active
        if segment.next_offset > high_watermark or (is_active and not segment.size):
            break
        is_told = segment.next_offset <= log_start_offset and not is_active
        if is_told or (config.deletes_old_segments and segment.size <= excess):
            count = at
        elif not config.deletes_old_segments or config.retention_ms == UNLIMITED:
            break
        elif segment.size:
            newest = newest_timestamp(segment)
            if newest != NO_TIMESTAMP:
                if wall_ms - newest <= config.retention_ms:
                    break
                count = at
        elif count == at - 1:
            count = at
        excess -= segment.size
    return count


def _excess_bytes(segments: Segments, config: LogConfig) -> int:
    """Bytes above ``retention.bytes``; a segment goes only if the log stays at least that large. -1 without limit."""
    if config.retention_bytes == UNLIMITED:
        return -1
    return segments.size_in_bytes - config.retention_bytes
