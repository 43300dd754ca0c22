"""What a start knows of a log apart from its batches, and whether the batches agree with it.

No checksum covers the offset and the leader epoch of a batch: the broker fills them in. Other records tell them: the
next segment, the noted end, the durable end, the file of leader epochs.
"""

from __future__ import annotations

from minikafka.model import NO_EPOCH
from minikafka.records.batch import BatchHeader
from minikafka.storage.epochs import LeaderEpochCache
from minikafka.storage.errors import BadBatchError
from minikafka.storage.last_stop import LastStop


class EpochsContradictedError(Exception):
    """The epoch file is not this log's, or not its newest."""


class Evidence:
    """See the module. ``recorded_epochs``: as the file has them; ``scanned_epoch``: of the last batch checked."""

    def __init__(self, last_stop: LastStop, recovery_point: int, durable_end: int | None) -> None:
        self.recorded_epochs = LeaderEpochCache()
        self.scanned_epoch = NO_EPOCH
        self._last_stop = last_stop
        self._recovery_point = recovery_point
        self._durable_end = durable_end

    def must_reach(self) -> int:
        """What is known to have been there."""
        last_stop = self._last_stop
        written = max(last_stop.high_watermark, last_stop.noted_end or 0) if last_stop.keeps_writes else 0
        return max(self._recovery_point, written, self._durable_end or 0)

    def known_end(self, next_base_offset: int | None) -> int | None:
        """Where a batch of a segment ends, or the segment begins: the next one begins there, or the log ended."""
        if next_base_offset is not None:
            return next_base_offset
        last_stop = self._last_stop
        if not last_stop.keeps_writes or self._durable_end is not None:
            return None
        return self._recovery_point if last_stop.is_clean and self._recovery_point else last_stop.noted_end

    def check(self, header: BatchHeader, position: int, next_offset: int, known_end: int) -> None:
        """BadBatchError, EpochsContradictedError unless the next batch, at ``position``, is where it belongs.

        ``next_offset``: after the batch before it. ``known_end``: below it the file of leader epochs is believed. An
        older copy of that looks as good as the newest.
        """
        if header.leader_epoch < self.scanned_epoch:
            raise BadBatchError(position, f"leader epoch {header.leader_epoch} comes again after {self.scanned_epoch}")
        self._check_noted_epoch(header, position)
        if self._durable_end is not None:
            self._check_place(header, position, next_offset)
        self.scanned_epoch = header.leader_epoch
        if header.last_offset < known_end:
            self._check_known_epoch(header)

    def _check_noted_epoch(self, header: BatchHeader, position: int) -> None:
        """No batch up to the noted end is of a later epoch than the last one there, and that is of the noted one."""
        noted = self._last_stop.noted
        if noted is None or noted.epoch == NO_EPOCH or header.next_offset > noted.end_offset:
            return
        is_last = header.next_offset == noted.end_offset
        if header.leader_epoch > noted.epoch or (is_last and header.leader_epoch < noted.epoch):
            raise BadBatchError(position, f"leader epoch {header.leader_epoch} comes where {noted.epoch} was noted")

    def _check_place(self, header: BatchHeader, position: int, next_offset: int) -> None:
        """Where the durable end is noted, offsets have no gaps, and the epoch file is synced."""
        if header.base_offset != next_offset:
            raise BadBatchError(position, f"offset {header.base_offset} comes where {next_offset} should")
        recorded = self.recorded_epochs.epoch_for(header.base_offset)
        is_durable = header.next_offset <= (self._durable_end or 0)
        if is_durable and recorded not in (header.leader_epoch, NO_EPOCH):
            raise BadBatchError(position, f"leader epoch {header.leader_epoch} comes where {recorded} should")

    def _check_known_epoch(self, header: BatchHeader) -> None:
        """By the file alone: batches below the log start, whose epochs it does not keep, say nothing of each other."""
        known = self.recorded_epochs.epoch_for(header.last_offset)
        if known not in (header.leader_epoch, NO_EPOCH):
            raise EpochsContradictedError(
                f"the batch at {header.base_offset} is of epoch {header.leader_epoch}, and the file says {known}"
            )
