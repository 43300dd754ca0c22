"""Appending to a log, as its leader and as a follower.

A leader's append has two steps, so that the batches of one read event cost one system call per partition. ``stage``
checks a batch against the producer's state, writes offsets and leader epoch into it, and remembers the slice.
``commit`` writes all staged slices with one ``writev`` and then moves ``log_end_offset``. A staged slice belongs to the
caller's receive buffer; ``commit`` is its last use. Staged batches are not visible to readers.

A write must end at the expected file size. If not, another program has cut the file: all positions after the cut are
wrong, and after a restart the log would have a gap that looks like one of compaction.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final, NamedTuple

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_TIMESTAMP
from minikafka.records.batch import (
    CONTROL_FLAG,
    LOG_OVERHEAD,
    BatchHeader,
    WritableBuffer,
    assign_offsets,
    set_log_append_time,
)
from minikafka.records.control import EndTxnMarker
from minikafka.storage.errors import EndsMayBeGone, IllegalLogState, is_full
from minikafka.storage.follower import checked_batches
from minikafka.storage.index import MAX_RELATIVE_OFFSET
from minikafka.storage.segment import StagedBatch
from minikafka.storage.segment_names import LOG_SUFFIX
from minikafka.storage.snapshots import marker_in, replay

if TYPE_CHECKING:
    from minikafka.storage.log import Log
    from minikafka.storage.segment import Segment


_new_tuple: Final = tuple.__new__  # a NamedTuple without its Python-level constructor: a third of the time


def _cut_under_us(segment: Segment, end: int) -> FileNotFoundError:
    """The error for a file that lost bytes that this process wrote."""
    return FileNotFoundError(
        errno.ENOENT, f"it ends at byte {end} and not at {segment.size}: the file was changed", segment.path(LOG_SUFFIX)
    )


def _stamp_ms(header: BatchHeader, wall_ms: int) -> int:
    """The time of a batch, for ``segment.ms``; ``wall_ms`` for one without a timestamp: it has any negative one."""
    return header.max_timestamp if header.max_timestamp >= 0 else wall_ms


class AppendInfo(NamedTuple):
    """Result of an append. ``log_append_time``: -1 unless the broker sets it. ``duplicate``: nothing was written."""

    base_offset: int
    last_offset: int
    log_append_time: int = NO_TIMESTAMP
    duplicate: bool = False


class Appender:
    """See the module."""

    __slots__ = (
        "_buffers",
        "_followed_from",
        "_log",
        "_next_offset",
        "_snapshot_bytes",
        "_staged",
        "_staged_bytes",
        "_unsnapped_bytes",
    )

    def __init__(self, log: Log) -> None:
        self._log = log
        self._staged: list[StagedBatch] = []
        self._buffers: list[WritableBuffer] = []
        self._staged_bytes = 0
        self._next_offset = log.log_end_offset  # after the staged batches
        self._followed_from = 0  # the log end when it began to follow its leader
        self._unsnapped_bytes = 0  # in the segments closed since the last snapshot of the producers
        self._snapshot_bytes = 0  # of that snapshot

    def stage(
        self,
        batch: WritableBuffer,
        header: BatchHeader,
        *,
        leader_epoch: int,
        wall_ms: int,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Assign offsets to a checked batch and stage it (row R1). ``batch`` is changed and must live until ``commit``.

        KafkaError for a producer out of order (45) or fenced (47), a batch larger than a segment (18), or an offline
        log (56); then nothing is staged. A duplicate of one of the producer's last five batches is not staged.
        ``transaction_version`` tells how the epoch of an end of a transaction is checked; its coordinator may be
        fenced (52).
        """
        log = self._log
        if log.failure is not None:
            raise log.failure
        assert log.cut_floor is None, "the log is being cut"
        config, marker = log._config, None
        if header.producer_id < 0:
            pass
        elif header.attributes & CONTROL_FLAG:
            marker = marker_in(batch, header)
            if marker is not None:
                log.producers.check_marker(header, marker, transaction_version)
        else:
            duplicate = log.producers.check(header)
            if duplicate is not None:
                append_time = duplicate.timestamp if config.log_append_time else NO_TIMESTAMP
                return AppendInfo(duplicate.first_offset, duplicate.last_offset, append_time, True)
        size = header.batch_length + LOG_OVERHEAD
        assert size == len(batch)
        if size > config.segment_bytes:
            raise self._too_large(size)
        append_time = NO_TIMESTAMP
        if config.log_append_time:
            header = set_log_append_time(batch, 0, wall_ms)
            append_time = wall_ms
        base_offset = self._next_offset
        last_offset = base_offset + header.last_offset_delta
        stamp_ms = _stamp_ms(header, wall_ms)
        if not self._has_room(last_offset, size, stamp_ms) or (marker is not None and self._is_full_of_aborted()):
            self.roll()
            self._begin_active(stamp_ms)
        if leader_epoch != log.epochs.latest_epoch:
            self.begin_epoch(leader_epoch)
        assign_offsets(batch, 0, base_offset, leader_epoch)
        if header.producer_id >= 0:
            self._note_producer(header, base_offset, marker)
        self._staged.append((last_offset, size, header.max_timestamp))
        self._buffers.append(batch)
        self._staged_bytes += size
        self._next_offset = last_offset + 1
        return _new_tuple(AppendInfo, (base_offset, last_offset, append_time, False))

    def commit(self) -> None:
        """Write staged batches and move ``log_end_offset``. StorageFailure when the log is, or now goes, offline."""
        log = self._log
        if log.failure is not None:
            raise log.failure
        if not self._staged:
            return
        active = log.segments.active
        try:
            end = active.append(self._buffers, self._staged)
            if end != active.size and log.can_be_remade:
                raise _cut_under_us(active, end)
            log.end_slot.note(self._next_offset, log.epochs.epoch_before(self._next_offset))
        except OSError as error:
            if is_full(error):
                active.drop_unnoted()  # else a start finds an interrupted write, and does not vouch for the log
            log.fail("append to", error)
        log.log_end_offset = self._next_offset
        self._staged.clear()
        self._buffers.clear()
        self._staged_bytes = 0

    def append_as_follower(
        self,
        records: memoryview,
        *,
        leader_epoch: int | None = None,
        end_offset: int | None = None,
        wall_ms: int = NO_TIMESTAMP,
    ) -> AppendInfo:
        """Append the leader's batches with its offsets and epochs (row R11); leave out an incomplete last batch.

        Raises IllegalLogState when they begin before ``log_end_offset`` (after it is fine: compaction leaves gaps), or
        when epochs fall. Raises CORRUPT_MESSAGE for a damaged batch, for one of a later epoch than ``leader_epoch``
        (that of the fetch), and for batches that end after the leader's ``end_offset``. Then nothing is appended.
        Raises EndsMayBeGone, and appends nothing from there on, where the leader has cleaned behind a transaction that
        was open when :meth:`begin_following` was called. ``wall_ms``, if it is known, is for ``segment.ms``
        where a batch has no timestamp.
        """
        log = self._log
        self.commit()
        assert log.cut_floor is None, "the log is being cut"
        batches = checked_batches(log, records, leader_epoch, end_offset)
        run_start = run_end = 0
        for position, header in batches:
            size = header.batch_length + LOG_OVERHEAD
            stamp_ms = _stamp_ms(header, wall_ms)
            if header.has_gap_from(self._next_offset):
                log.note_cleaned()
                if header.base_offset > self._next_offset or not header.record_count:
                    self._check_open(records[run_start:position])
            is_full = header.attributes & CONTROL_FLAG and self._is_full_of_aborted()
            # The leader sends records of one of its segments: these were not too far apart, or the cleaner merged them.
            if is_full or not self._has_room(header.last_offset, size, stamp_ms, may_be_old=not position):
                self._commit_run(records[run_start:position])
                self._roll_for(header)
                self._begin_active(stamp_ms)
                run_start = position
            if header.leader_epoch != log.epochs.latest_epoch:
                log.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                aborted = replay(log.producers, header, records[position : position + size])
                if aborted is not None:
                    log.segments.active.known_aborted.note(aborted)
            self._staged.append((header.last_offset, size, header.max_timestamp))
            self._staged_bytes += size
            self._next_offset = header.next_offset
            run_end = position + size
        self._commit_run(records[run_start:run_end])
        base_offset = batches[0][1].base_offset if batches else log.log_end_offset
        return AppendInfo(base_offset, log.log_end_offset - 1)

    def begin_following(self) -> None:
        """From now on records come from a leader, or come again after it was out of reach.

        It may have cleaned its log for so long that it has neither the records nor the end of a transaction that is
        open here. Of what it sends from now on, the ends come within ``delete.retention.ms``.
        """
        self._followed_from = self._log.log_end_offset

    def follow_as(self, former: Appender) -> None:
        """The log takes the place of another, with the same records, and follows the same leader."""
        self._followed_from = former._followed_from

    def _check_open(self, run: memoryview) -> None:
        """The leader has cleaned what comes behind ``run``; so every transaction that is open here has ended there."""
        first = self._log.producers.first_open_offset
        if first is not None and first < self._followed_from:
            self._commit_run(run)
            raise EndsMayBeGone(first)

    def drop_staged(self) -> None:
        """The log is offline, or its end has changed: continue at its end."""
        self._staged.clear()
        self._buffers.clear()
        self._staged_bytes = 0
        self._next_offset = self._log.log_end_offset
        self._followed_from = min(self._followed_from, self._next_offset)

    def begin_epoch(self, epoch: int) -> None:
        """This replica leads in ``epoch`` from the log end on (KIP-101). IllegalLogState when epochs would fall."""
        log = self._log
        assert log.cut_floor is None, "the log is being cut"
        if epoch < log.epochs.latest_epoch:
            raise IllegalLogState(
                f"{log.topic_partition} is in leader epoch {log.epochs.latest_epoch}; it cannot begin epoch {epoch}"
            )
        log.epochs.assign(epoch, self._next_offset)

    def roll(self, base_offset: int | None = None) -> None:
        """Close the active segment and begin another at ``base_offset`` (default: the log end), unless it is empty.

        A KafkaError other than StorageFailure changes nothing: the process is short of descriptors.
        """
        log = self._log
        self.commit()
        assert log.cut_floor is None, "the log is being cut"
        active = log.segments.active
        base_offset = log.log_end_offset if base_offset is None else base_offset
        if active.size == 0 and active.base_offset == base_offset:
            return
        unsnapped_bytes, snapshot_bytes = self._unsnapped_bytes + active.size, self._snapshot_bytes
        with log.guard("roll", is_repeatable=True):
            if unsnapped_bytes >= snapshot_bytes:  # thousands of producers, small segments: else most writing is this
                unsnapped_bytes, snapshot_bytes = 0, log.snapshots.take(log.producers, base_offset)
            segment = log.new_segment(base_offset)
        self._unsnapped_bytes, self._snapshot_bytes = unsnapped_bytes, snapshot_bytes
        log.flusher.close_segment(active)  # the next flush writes its indexes; after a crash they are made anew
        active.next_offset = base_offset
        log.segments.add(segment)

    def _roll_for(self, header: BatchHeader) -> None:
        """Begin a segment for the batch, with the log end as its name, so that a gap does not look like a loss."""
        log = self._log
        is_far = header.last_offset - log.log_end_offset > MAX_RELATIVE_OFFSET
        self.roll(header.base_offset if is_far else log.log_end_offset)

    def _has_room(self, last_offset: int, size: int, stamp_ms: int, *, may_be_old: bool = True) -> bool:
        """A batch fits the active segment, after the staged ones.

        Its age counts by the timestamps of records: old records that are written now, or fetched by a new replica, get
        the segments that they had, and retention takes them as soon. ``may_be_old``: ask for the age at all.
        """
        log = self._log
        active = log.segments.active
        used = active.size + self._staged_bytes
        if used == 0:
            self._begin_active(stamp_ms)
            return last_offset - active.base_offset <= MAX_RELATIVE_OFFSET
        if active.first_stamp_ms is None:
            self._begin_active(stamp_ms)  # it was loaded, and its first batch has no timestamp
        first_stamp_ms = active.first_stamp_ms
        config = log._config
        return (
            used + size <= config.segment_bytes
            and last_offset - active.base_offset <= MAX_RELATIVE_OFFSET
            and (not may_be_old or first_stamp_ms is None or stamp_ms - first_stamp_ms <= config.roll_ms)
            and active.index.bytes_with_next <= config.segment_index_bytes
        )

    def _begin_active(self, stamp_ms: int) -> None:
        """The active segment's first batch is of that time."""
        active = self._log.segments.active
        active.first_stamp_ms = self._log._config.jittered(stamp_ms, active.path(LOG_SUFFIX))

    def _is_full_of_aborted(self) -> bool:
        """The index of aborted transactions is in memory: it has the limit of the offset index."""
        index = self._log.segments.active.known_aborted.index
        return index is not None and index.size_in_bytes >= self._log._config.segment_index_bytes

    def _commit_run(self, run: memoryview) -> None:
        if self._staged:
            self._buffers.append(run)
            self.commit()

    def _too_large(self, size: int) -> KafkaError:
        log = self._log
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes is larger than a segment of {log.topic_partition} may be, "
            f"segment.bytes={log.config.segment_bytes}",
        )

    def _note_producer(self, header: BatchHeader, base_offset: int, marker: EndTxnMarker | None) -> None:
        log = self._log
        if marker is not None:
            aborted = log.producers.end_transaction(header, marker, base_offset)
            if aborted is not None:
                log.segments.active.known_aborted.note(aborted)
        elif not header.attributes & CONTROL_FLAG:
            log.producers.append(header, base_offset)
