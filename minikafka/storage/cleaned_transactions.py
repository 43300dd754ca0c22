"""Transactions as the cleaner walks over them: which batches were aborted, and which markers still have batches.

All transactions below the last stable offset are decided, so whatever is not in an index of aborted transactions is
committed. The end of a transaction may be behind the cleaned segments. A marker is needed as long as there is a batch
of its transaction, even one that this walk drops: a consumer may have read it already, and the marker not yet.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from minikafka.records.batch import BatchHeader
from minikafka.storage.aborted import load_aborted
from minikafka.storage.segment import Segment
from minikafka.storage.snapshots import SnapshotFiles
from minikafka.storage.transaction_index import AbortedTransaction

_last_offset_of = attrgetter("last_offset")


class CleanedTransactions:
    """One walk in the order of the log, in a thread: :meth:`enter` a segment, then ask about its batches."""

    def __init__(self, segments: Sequence[Segment], snapshots: SnapshotFiles, log_start_offset: int) -> None:
        """``segments``: all of the log, for this thread; of an active one, as it was when the walk began."""
        self._segments = segments
        self._snapshots = snapshots
        self._log_start_offset = log_start_offset
        self._aborted: dict[int, list[AbortedTransaction]] = {}  # of the segment, by producer
        self._with_batches: set[int] = set()  # producers whose transaction had batches since its last marker

    def enter(self, start_offset: int, end_offset: int) -> None:
        """Find the aborted transactions of a segment. BadBatchError when they must be read from a damaged segment."""
        self._aborted = {}
        for at, segment in enumerate(self._segments):
            known = segment.known_aborted
            if segment.next_offset <= start_offset or not known.are_there:
                continue
            if known.may_begin_before(end_offset):  # else a transaction was open that began before all of these
                index = load_aborted(segment, self._segments[:at], self._snapshots, self._log_start_offset)
                for aborted in index.between(start_offset, end_offset):
                    self._aborted.setdefault(aborted.producer_id, []).append(aborted)
                segment.cool()
            if known.are_last_before(end_offset):
                return

    def is_aborted(self, header: BatchHeader) -> bool:
        """True for records of an aborted transaction."""
        if not header.is_transactional:
            return False
        aborted = self._ended_from(header.producer_id, header.base_offset + 1)
        return aborted is not None and aborted.first_offset <= header.base_offset

    def on_batch(self, header: BatchHeader) -> None:
        """A batch of records is there."""
        if header.is_transactional:
            self._with_batches.add(header.producer_id)

    def on_marker(self, header: BatchHeader) -> tuple[bool, AbortedTransaction | None]:
        """Has the transaction that ends here any batch left; and its entry in the index, if it was aborted."""
        if header.producer_id not in self._with_batches:
            return False, None
        self._with_batches.remove(header.producer_id)
        aborted = self._ended_from(header.producer_id, header.last_offset)
        return True, aborted if aborted is not None and aborted.last_offset == header.last_offset else None

    def _ended_from(self, producer_id: int, offset: int) -> AbortedTransaction | None:
        """The producer's first aborted transaction whose marker is at that offset or later; it has one at a time."""
        ended = self._aborted.get(producer_id, [])
        at = bisect_left(ended, offset, key=_last_offset_of)
        return ended[at] if at < len(ended) else None
