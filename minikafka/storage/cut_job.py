"""The slow part of cutting a log at its end, for a thread (see :mod:`minikafka.storage.cutting`).

Its cost is that of the removed records: the last segment is read from the index entry before the cut, and producers are
rewound (:mod:`minikafka.storage.rewinding`). An unreadable batch before the cut is damage: the log ends there, or the
replica is marked, to be fetched again from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from minikafka.storage import positions
from minikafka.storage.aborted import load_aborted
from minikafka.storage.damage import write_refetch_mark
from minikafka.storage.errors import BadBatchError, Corruption, is_passing
from minikafka.storage.producer_state import ProducerEntry, ProducerState
from minikafka.storage.rewinding import Rewound, rewound
from minikafka.storage.segment import Segment
from minikafka.storage.segment_list import Removal
from minikafka.storage.segment_names import DELETED_SUFFIX, LOG_SUFFIX, SUFFIXES
from minikafka.storage.segments import Segments
from minikafka.storage.snapshots import replay_segment

if TYPE_CHECKING:
    from minikafka.storage.log import Log

EVERYTHING: Final = -1
"""In place of an offset: the log is to be empty."""


class CutJob:
    """One cut. Its segments are copies for the thread; it changes nothing that belongs to the loop.

    After :meth:`run`: ``error`` when the disk refused, ``corruption`` for damage before the cut. ``must_repeat`` after
    a shortage of the process: run it again later.
    """

    def __init__(
        self,
        log: Log,
        *,
        offset: int,
        kept: Sequence[Segment],
        last: Segment,
        dropped: Sequence[Segment],
        touched: Sequence[ProducerEntry],
        lower_recorded: Callable[[], None],
        removal: Removal,
    ) -> None:
        self.error: OSError | None = None
        self.corruption: Corruption | None = None
        self.is_done = False
        self.removal = removal  # of what is dropped
        self.last = last  # the active segment when all is done
        self.end_offset = last.base_offset  # of the log then
        self.reached = last.base_offset  # by the last batch that is left
        self.producers: ProducerState | Rewound = {}  # all of them, or those that change
        self.trash = [f"{segment.path(kind)}{DELETED_SUFFIX}" for segment in dropped for kind in SUFFIXES]
        self._disk = log.disk
        self._directory = log.directory
        self._durable_end = log.durable_end
        self._snapshots = log.snapshots
        self._store_epochs = log.epochs.prepare_store(log.disk, log.directory)
        self._log_start_offset = log.log_start_offset
        self._needs_replay = log.producers.has_transactions
        self._offset = offset
        self._position: int | None = None  # of the cut in the last segment, once it is found
        self._kept = kept  # those before the last
        self._dropped = dropped  # oldest first
        self._touched = touched
        self._lower_recorded = lower_recorded

    def run(self) -> None:
        """Cut, in any thread. Never raises: ``complete_cut`` checks ``error``."""
        self.error = None
        try:
            if self._offset == EVERYTHING:
                self._restart()
            else:
                self._truncate()
        except OSError as error:
            self.error = error
        self.is_done = True

    @property
    def must_repeat(self) -> bool:
        """True after a shortage of the process or the machine: that is not a broken disk."""
        return self.error is not None and is_passing(self.error)

    def _restart(self) -> None:
        self._lower_recorded()  # a crash on the way may leave the directory empty
        if self._durable_end is not None:
            self._durable_end.lower(0)
        self._store_epochs()
        self._snapshots.remove(below=self.end_offset + 1, above=self.end_offset)
        self._drop()
        self.last.create()
        self._disk.fsync_dir(self._directory)

    def _truncate(self) -> None:
        position = self._find_end()
        if position:
            self._load_aborted()
        self._lower_recorded()
        if self._durable_end is not None:
            self._durable_end.lower(self.end_offset)
        if self.corruption is not None:
            write_refetch_mark(self._disk, self._directory, self.corruption)
        self._drop()
        if position == 0:
            self.last.clear()
            self.end_offset = self.reached  # a gap that the segment began with goes, too
        else:
            self.end_offset = self.reached = self.last.truncate(position, self.end_offset)
        self._snapshots.remove(above=self.end_offset)
        self._rewind_producers()
        self._disk.fsync_dir(self._directory)

    def _find_end(self) -> int:
        """Position of the cut in the last segment; an unreadable batch before it is cut off, too."""
        if self._offset == self.last.base_offset:
            return 0  # the file is not read: it may be what is damaged
        if self._position is not None:
            return self._position
        try:
            self.last.reopen()
            position, self.end_offset, bad = positions.cut_at(self.last, self._offset)
        except OSError as error:
            if is_passing(error):
                raise
            position, self.end_offset, bad = 0, self.last.base_offset, BadBatchError(0, str(error))
        if bad is not None:
            self.corruption = Corruption(self.last.path(LOG_SUFFIX), position, self.end_offset, str(bad), None)
        self._position = position
        return position

    def _load_aborted(self) -> None:
        """The aborted transactions of the last segment are to be cut, too."""
        try:
            load_aborted(self.last, self._kept, self._snapshots, self._log_start_offset)
        except BadBatchError as error:
            if self.corruption is None:
                self.corruption = Corruption(self.last.path(LOG_SUFFIX), 0, self.last.base_offset, str(error), None)
            self.last.known_aborted.forget()

    def _drop(self) -> None:
        self.removal.store()
        for segment in reversed(self._dropped):
            segment.rename(DELETED_SUFFIX)
            self._disk.fsync_dir(self._directory)

    def _rewind_producers(self) -> None:
        """Also of a damaged log: it is cut again, to be fetched from the damage on."""
        try:
            self.producers = self._rewound()
        except BadBatchError:
            self.producers, _offset = self._snapshots.newest(self._mark_unreadable().base_offset)

    def _rewound(self) -> ProducerState | Rewound:
        snapshot, offset = self._snapshots.newest(self.end_offset)
        is_told = offset >= self.last.base_offset or not self._kept
        found = rewound(self._touched, self.last, self.end_offset, snapshot) if is_told else None
        if self._needs_replay or found is None:
            segments = Segments([*self._kept, self.last])
            return self._snapshots.load(segments, self._log_start_offset, self.end_offset)
        return found

    def _mark_unreadable(self) -> Segment:
        """The first segment with a batch that cannot be read, or the last; the log is damaged from there on."""
        segment, position, why = self.last, 0, "it could not be read"
        for each in (*self._kept, self.last):
            try:
                replay_segment(ProducerState(), each, each.base_offset, self.end_offset)
            except BadBatchError as error:
                segment, position, why = each, error.position, str(error)
                break
        self.corruption = Corruption(segment.path(LOG_SUFFIX), position, segment.base_offset, why, None)
        write_refetch_mark(self._disk, self._directory, self.corruption)
        return segment
