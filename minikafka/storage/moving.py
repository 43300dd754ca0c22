"""Move of a log to another directory of its node: the next bytes to copy, and the end of the copy (row A5, KIP-113).

The *current* log is led or followed as before. The *future* log follows it as a follower follows a leader, with the
same offsets and epochs, through memory instead of a network. If the current log was cut meanwhile (see its
``generation``), or lost its end in a crash, the future log is cut at the end of their common part, found by leader
epochs (row E5), and where the current log was cut, of whatever epoch its records are now. Nothing here waits: the
driver reads the slices in a thread, and appends them; and cuts in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.model import UNDEFINED_OFFSET_AND_EPOCH
from minikafka.storage.errors import EndsMayBeGone
from minikafka.storage.slice import LogSlice

if TYPE_CHECKING:
    from minikafka.storage.cut_job import CutJob
    from minikafka.storage.flush import FlushJob
    from minikafka.storage.log import Log

_NEVER = -1


class ReplicaMove:
    """One move. Call :meth:`prepare_cut` first after every ``await``."""

    def __init__(self, current: Log, future: Log) -> None:
        self.current = current
        self.future = future
        self._generation = _NEVER
        self._slice_end = _NEVER  # end of the last slice, as the log knows it

    @property
    def is_over(self) -> bool:
        """True when one of the logs went offline, was deleted, or was replaced."""
        return self.current.is_offline or self.future.is_offline

    @property
    def bytes_left(self) -> int:
        """Approximate number of bytes left to copy; only when :meth:`prepare_cut` has nothing."""
        return self.current.bytes_between(self.future.log_end_offset, self.current.log_end_offset)

    @property
    def segments_left(self) -> int:
        """Number of segments with bytes left to copy, or one; only when :meth:`prepare_cut` has nothing."""
        segments = self.current.segments
        return len(segments) - segments.index_of(self.future.log_end_offset)

    @property
    def is_caught_up(self) -> bool:
        """True when the copy has the same end as the log; only when :meth:`prepare_cut` has nothing."""
        return self.future.log_end_offset == self.current.log_end_offset

    def prepare_cut(self) -> CutJob | None:
        """Cut the copy at both ends to the records that the log still has; None when it has no others.

        Run the job in a thread, ``complete_cut`` it at the copy, and ask again. StorageFailure.
        """
        if self._generation != self.current.generation:
            job = self._prepare_end_cut()
            if job is not None:
                return job
            self._generation = self.current.generation
            self.current.lowest_cut = None  # the driver finds its moves anew: else it would cut the copy there again
        start = self.current.log_start_offset
        if not start <= self.future.log_end_offset <= self.current.log_end_offset:
            return self.future.prepare_restart(start)  # an empty copy may begin behind what a power cut left of the log
        self.future.maybe_increment_log_start_offset(start)
        return None

    def _prepare_end_cut(self) -> CutJob | None:
        current, future = self.current, self.future
        while future.latest_epoch >= 0:
            epoch = future.latest_epoch
            end = current.end_offset_for_epoch(epoch)
            if end == UNDEFINED_OFFSET_AND_EPOCH:
                end = end._replace(offset=current.log_start_offset)
            ours = future.end_offset_for_epoch(end.epoch).offset if 0 <= end.epoch < epoch else future.log_end_offset
            lowest = ours if current.lowest_cut is None else current.lowest_cut  # row T28
            job = future.prepare_truncation(max(0, min(end.offset, ours, lowest)))
            if job is not None or future.latest_epoch == epoch:
                return job
        return None

    def next_slice(self, max_bytes: int) -> LogSlice:
        """The next slice to copy, empty at the end. KAFKA_STORAGE_ERROR when the log is damaged."""
        start = self.future.log_end_offset
        found = self.current.read(start, max_bytes)
        self._slice_end = self.current.end_of(start, found)
        return found

    def append(self, records: bytes) -> CutJob | None:
        """Append the records of :meth:`next_slice`; they are dropped if the log was cut since.

        A job as that of :meth:`prepare_cut` where a copy that was away must begin again (row T28). CORRUPT_MESSAGE or
        IllegalLogState when they do not fit the log.
        """
        if not records or self._generation != self.current.generation:
            return None
        future = self.future
        base_offset = int.from_bytes(records[:8], "big")
        if base_offset < future.log_end_offset:  # the log starts inside a batch
            assert future.log_start_offset == future.log_end_offset
            future.truncate_fully_and_start_at(base_offset)
        try:
            future.append_as_follower(memoryview(records), end_offset=self._slice_end)
        except EndsMayBeGone as gone:
            return future.prepare_truncation(gone.offset)
        future.maybe_increment_log_start_offset(self.current.log_start_offset)
        return None

    def prepare_seal(self) -> FlushJob:
        """The copy has caught up: take over state outside the records. The job makes all of it durable: run it in a
        thread, and complete it. Repeatable.

        Except the producers in memory: see :meth:`take_over`. StorageFailure when the disk refuses, PassingFailure
        after a shortage.
        """
        current, future = self.current, self.future
        assert self.is_caught_up
        assert self._generation == current.generation
        self._copy_epochs()
        with future.guard("seal", is_repeatable=True):
            future.snapshots.take(current.producers, future.log_end_offset)
        return future.prepare_flush()

    @property
    def is_sealed(self) -> bool:
        """The copy has all records, and what is durable of the log is so of the copy."""
        return self.is_caught_up and self.future.recovery_point >= self.current.recovery_point

    def take_over(self) -> None:
        """The copy takes the log's place, which appends no more: until now both replay batches into their producers.

        An epoch that began since :meth:`prepare_seal` becomes durable with the first batch of it. No more counts as
        durable than did before: until the move is decided on the disk, a start may find the former log.
        """
        self._copy_epochs()
        self.future.recovery_point = self.current.recovery_point
        self.future.producers = self.current.producers
        self.future.appender.follow_as(self.current.appender)
        self.current.let_go_of_parts()

    def _copy_epochs(self) -> None:
        epochs = self.future.epochs
        epochs.clear()
        for entry in self.current.epoch_entries:
            epochs.assign(entry.epoch, entry.start_offset)
