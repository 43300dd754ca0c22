"""Move of a log to another directory of its node: the next bytes to copy, and the end of the copy (row A5, KIP-113).

The *current* log goes on being led or followed; the *future* log follows it as a follower follows a leader, with
offsets and epochs as they are, through memory instead of a network. Where the current log was cut meanwhile (its
``generation`` tells), or lost its end in a crash, the future log is cut where leader epochs show that they part (row
E5). Nothing here waits: whoever drives it reads the slices, in a thread if they are cold, and appends what was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.model import UNDEFINED_OFFSET_AND_EPOCH
from minikafka.storage.slice import LogSlice

if TYPE_CHECKING:
    from minikafka.storage.log import Log

_NEVER = -1


class ReplicaMove:
    """One move. Call :meth:`reconcile` before anything else whenever others may have had their turn."""

    def __init__(self, current: Log, future: Log) -> None:
        self.current = current
        self.future = future
        self._generation = _NEVER
        self._slice_end = _NEVER  # where the log knows that the last slice ends

    @property
    def is_over(self) -> bool:
        """True when one of the logs went offline, was deleted, or was replaced."""
        return self.current.is_offline or self.future.is_offline

    @property
    def bytes_left(self) -> int:
        """About how many bytes are to be copied; only after :meth:`reconcile`."""
        return self.current.bytes_between(self.future.log_end_offset, self.current.log_end_offset)

    @property
    def is_caught_up(self) -> bool:
        """True when the copy ends where the log ends; only after :meth:`reconcile`."""
        return self.future.log_end_offset == self.current.log_end_offset

    def reconcile(self) -> None:
        """Cut the copy at both ends to what the log still has. StorageFailure when that cannot be done."""
        if self._generation != self.current.generation:
            self._cut_end()
            self._generation = self.current.generation
        start = self.current.log_start_offset
        if self.future.log_end_offset < start:
            self.future.truncate_fully_and_start_at(start)
        else:
            self.future.maybe_increment_log_start_offset(start)

    def _cut_end(self) -> None:
        current, future = self.current, self.future
        while future.latest_epoch >= 0:
            epoch = future.latest_epoch
            end = current.end_offset_for_epoch(epoch)
            if end == UNDEFINED_OFFSET_AND_EPOCH:
                end = end._replace(offset=current.log_start_offset)
            ours = future.end_offset_for_epoch(end.epoch).offset if 0 <= end.epoch < epoch else future.log_end_offset
            future.truncate_to(max(0, min(end.offset, ours)))
            if future.latest_epoch == epoch or end == UNDEFINED_OFFSET_AND_EPOCH:
                return

    def next_slice(self, max_bytes: int) -> LogSlice:
        """What to copy next, empty when there is nothing. KAFKA_STORAGE_ERROR where the log is damaged."""
        start = self.future.log_end_offset
        found = self.current.read(start, max_bytes)
        self._slice_end = self.current.end_of(start, found)
        return found

    def append(self, records: bytes) -> None:
        """Take over what :meth:`next_slice` held, unless the log was cut since: then it is dropped.

        CORRUPT_MESSAGE or IllegalLogState when it is not what the log should hold.
        """
        if not records or self._generation != self.current.generation:
            return
        future = self.future
        base_offset = int.from_bytes(records[:8], "big")
        if base_offset < future.log_end_offset:  # the log starts inside a batch
            assert future.log_start_offset == future.log_end_offset
            future.truncate_fully_and_start_at(base_offset)
        future.append_as_follower(memoryview(records), end_offset=self._slice_end)
        future.maybe_increment_log_start_offset(self.current.log_start_offset)

    def seal(self) -> None:
        """The copy is complete: take over what is not in the records, and make all of it durable. Repeatable.

        StorageFailure where the disk refuses, PassingFailure for want of something.
        """
        current, future = self.current, self.future
        assert self.is_caught_up
        assert self._generation == current.generation
        future.epochs.clear()
        for entry in current.epoch_entries:
            future.epochs.assign(entry.epoch, entry.start_offset)
        future.producers = current.producers
        with future.guard("seal", is_repeatable=True):
            future.snapshots.take(future.producers, future.log_end_offset)
        future.flush()
