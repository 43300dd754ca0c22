"""Summary of the log: its start and end, its flushed part, and the epoch of each offset.

The driver owns the log itself. The machine updates this summary with each effect on the log (append, truncate, install
a snapshot), and with ``on_flushed``. So it is ahead of the disk by exactly the effects that are not carried out yet.

Invariants:

- ``log_start.offset <= flushed_offset <= log_end_offset``;
- epochs and start offsets of ``epochs`` ascend strictly, and the last start is below the log end offset;
- a log that starts above 0 has a snapshot at or above its start (KIP-630).

The end of a log names it: two logs whose last records have the same (offset, epoch) are equal up to there (log
matching, Raft 5.3). So one pair is enough to find a divergence, and to name the log of a flush.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minikafka.model import NO_EPOCH, OffsetAndEpoch


class EpochEntry(NamedTuple):
    """The first offset written in a leader epoch (one row of the leader-epoch checkpoint)."""

    epoch: int
    start_offset: int


class Snapshot(NamedTuple):
    """A finished snapshot of everything below ``snapshot_id.offset``, and its size in bytes."""

    snapshot_id: OffsetAndEpoch
    size_bytes: int


class CommittedDataLostError(Exception):
    """A peer demands the removal of committed records: a majority lost its disks. The node must halt."""


class LogSummary:
    """See the module's docstring. Offsets are of records; all end offsets are exclusive."""

    __slots__ = ("epochs", "flushed_offset", "log_end_offset", "log_start", "snapshot")

    def __init__(self) -> None:
        self.log_start = OffsetAndEpoch(0, 0)  # with the epoch of the record before it; -1 when unknown
        self.log_end_offset = 0
        self.flushed_offset = 0
        self.epochs: list[EpochEntry] = []
        self.snapshot: Snapshot | None = None

    @classmethod
    def recovered(
        cls,
        log_end_offset: int,
        epochs: Iterable[EpochEntry] = (),
        log_start_offset: int = 0,
        snapshots: Sequence[Snapshot] = (),
    ) -> LogSummary:
        """The summary of a recovered, fsynced log, with its snapshots in ascending order.

        ValueError when they contradict each other: the driver takes the log for damaged.
        """
        log = cls()
        log.epochs = [EpochEntry(*entry) for entry in epochs if entry[1] < log_end_offset]
        log.snapshot = snapshots[-1] if snapshots else None
        ids = {snapshot.snapshot_id.offset: snapshot.snapshot_id for snapshot in snapshots}
        log.log_start = ids.get(log_start_offset, OffsetAndEpoch(log_start_offset, NO_EPOCH if log_start_offset else 0))
        log.log_end_offset = log.flushed_offset = log_end_offset
        log._check()
        return log

    def _check(self) -> None:
        start, end = self.log_start.offset, self.log_end_offset
        if not 0 <= start <= end:
            raise ValueError(f"log start offset {start} and end offset {end} are out of order")
        if start > 0 and (self.snapshot is None or self.snapshot.snapshot_id.offset < start):
            raise ValueError(f"the log starts at {start} but no snapshot covers what is before it")
        if self.snapshot is not None and self.snapshot.snapshot_id.offset > end:
            raise ValueError(f"snapshot {self.snapshot.snapshot_id} is beyond the log end offset {end}")
        for before, after in zip(self.epochs, self.epochs[1:], strict=False):
            if before.epoch >= after.epoch or before.start_offset >= after.start_offset:
                raise ValueError(f"leader epochs {before} and {after} are out of order")
        if end > start and (not self.epochs or self.epochs[0].start_offset > start):
            raise ValueError(f"the epoch of the record at {start} is not known")

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, in the log or in a snapshot; 0 in an empty log."""
        if self.epochs:
            return self.epochs[-1].epoch
        return 0 if self.snapshot is None else self.snapshot.snapshot_id.epoch

    @property
    def end(self) -> OffsetAndEpoch:
        """The log's name: its end offset and last epoch."""
        return OffsetAndEpoch(self.log_end_offset, self.last_epoch)

    @property
    def flushed_end(self) -> OffsetAndEpoch:
        """The name of the flushed part; its epoch is -1 when unknown."""
        return OffsetAndEpoch(self.flushed_offset, self.epoch_before(self.flushed_offset))

    @property
    def flushed(self) -> bool:
        """True when all of the log is on disk."""
        return self.flushed_offset == self.log_end_offset

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record just below ``offset``: 0 below the first record, -1 when unknown."""
        if offset <= self.log_start.offset:
            return self.log_start.epoch if offset == self.log_start.offset else NO_EPOCH
        return next((entry.epoch for entry in reversed(self.epochs) if entry.start_offset < offset), NO_EPOCH)

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch <= ``epoch`` in the log, and its end offset (row E2). ``epoch`` is at most the last one."""
        end_offset = self.log_end_offset
        for entry in reversed(self.epochs):
            if entry.epoch <= epoch:
                return OffsetAndEpoch(end_offset, entry.epoch)
            end_offset = entry.start_offset
        return OffsetAndEpoch(end_offset, epoch)

    # a leader's questions about a follower's log

    def needs_snapshot(self, end: OffsetAndEpoch) -> bool:
        """True when this log is too short to continue a log with that end, or to show its divergence."""
        start = self.log_start
        if start.offset == 0 or end == start:
            return False
        oldest_epoch = self.epochs[0].epoch if start.epoch == NO_EPOCH and self.epochs else start.epoch
        return end.offset <= start.offset or end.epoch < oldest_epoch

    def divergence(self, end: OffsetAndEpoch) -> OffsetAndEpoch | None:
        """The point of divergence of a log with that end. None for a prefix of ours; else the largest epoch not above
        its last one, with its end offset here: the follower cuts its log there.
        """
        if end == self.log_start:
            return None
        ours = self.end_offset_for(end.epoch)
        return None if ours.epoch == end.epoch and end.offset <= ours.offset else ours

    def truncation_point(self, diverging: OffsetAndEpoch) -> int:
        """The offset at which a follower cuts its log after a leader's :meth:`divergence` (row E5)."""
        ours = self.end_offset_for(diverging.epoch)
        return min(ours.offset, diverging.offset) if ours.epoch == diverging.epoch else ours.offset

    # Changes

    def append(self, end_offset: int, epoch: int) -> None:
        """The driver got records of one epoch, from the log end offset to ``end_offset``."""
        assert end_offset > self.log_end_offset, "an append holds a record"
        assert epoch >= self.last_epoch, "epochs never go back in a log"
        if not self.epochs or epoch > self.epochs[-1].epoch:
            self.epochs.append(EpochEntry(epoch, self.log_end_offset))
        self.log_end_offset = end_offset

    def mark_flushed(self, end: OffsetAndEpoch) -> bool:
        """A log with that end is on disk. False, without an effect, if it is no prefix of ours or was known.

        The epoch tells a flush of records that were truncated since from one of their replacement.
        """
        ours = self.flushed_offset < end.offset <= self.log_end_offset and self.epoch_before(end.offset) == end.epoch
        if ours:
            self.flushed_offset = end.offset
        return ours

    def truncate_to(self, offset: int) -> None:
        """Drop the records at and above ``offset``."""
        assert self.log_start.offset <= offset < self.log_end_offset, (
            "a truncation shortens the log, not below its start"
        )
        self.log_end_offset = offset
        self.flushed_offset = min(self.flushed_offset, offset)
        while self.epochs and self.epochs[-1].start_offset >= offset:
            self.epochs.pop()

    def advance_log_start(self, start: OffsetAndEpoch) -> None:
        """Drop the records below ``start.offset``; ``start.epoch`` is the epoch of the last one dropped."""
        assert self.log_start.offset <= start.offset <= self.log_end_offset
        kept = [entry for entry in self.epochs if entry.start_offset > start.offset]
        if len(kept) < len(self.epochs):
            straddling = self.epochs[-len(kept) - 1]
            if start.offset < self.log_end_offset:
                kept.insert(0, EpochEntry(straddling.epoch, start.offset))
        self.epochs = kept
        self.log_start = start

    def reset_to(self, snapshot: Snapshot) -> None:
        """Drop everything: the log is empty, flushed, and starts at the end of the snapshot."""
        self.snapshot = snapshot
        self.log_start = snapshot.snapshot_id
        self.log_end_offset = self.flushed_offset = snapshot.snapshot_id.offset
        self.epochs = []
