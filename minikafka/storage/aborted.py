"""Look-ups of aborted transactions over the segments of a log, for read_committed consumers (KIP-98).

Only segments with a ``.txnindex`` count, and of most logs none has one. A closed segment's index is read when it is
asked for, and stays in memory as its other indexes do; an active one's is always there. The search goes from the
segment of the first offset to the first marker that leaves no transaction open from before the end.

That may be more segments than stay in memory: of a transaction that was open while thousands were aborted. So a job
keeps what it found until that is asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from minikafka.storage.index import DamagedIndexError
from minikafka.storage.read_jobs import ReadJob
from minikafka.storage.segment import Segment
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segments import Segments
from minikafka.storage.snapshots import SnapshotFiles
from minikafka.storage.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from minikafka.storage.log import Log

MARKERS_AT_ONCE: Final = 1_000
"""Of aborted transactions in one answer: a read ends behind so many (row T24). A thousand take the loop 1 ms."""


FOUND_MAX: Final = 8
"""Answers of jobs that wait to be asked for, of one log."""


@dataclass(slots=True)
class _Found:
    """What a job finds from ``start_offset`` on, in segments before ``reached``, for reads up to ``end_offset``."""

    start_offset: int
    end_offset: int
    reached: int
    state: tuple[int, int]  # of the log, when the job began
    is_all: bool = False
    transactions: list[AbortedTransaction] = field(default_factory=list)


class AbortedTransactions:
    """Those of one log."""

    __slots__ = ("_bases", "_closed", "_found", "_log", "_version")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._version = -1  # of the log's segments, when it was looked at them
        self._closed: list[Segment] = []  # those with aborted transactions
        self._bases: list[int] = []
        self._found: dict[int, _Found] = {}  # by start offset

    def read_limit(self, start_offset: int, limit: int) -> int:
        """Where a read from ``start_offset`` should end, at ``limit`` or before: behind MARKERS_AT_ONCE (row T24)."""
        told = self._found.get(start_offset)
        if told is not None and len(told.transactions) >= MARKERS_AT_ONCE:
            return min(limit, told.transactions[MARKERS_AT_ONCE - 1].last_offset + 1)
        for segment in self._since(start_offset)[:1]:
            index = segment.known_aborted.index
            end = None if index is None else index.end_of_markers(start_offset, MARKERS_AT_ONCE)
            if end is not None:
                return min(limit, end)
        return limit

    def are_possible(self, start_offset: int) -> bool:
        """False when no transaction was aborted that has an offset from there on."""
        segments = self._log.segments
        if self._version == segments.version and not self._closed:  # as of most logs
            return segments.active.known_aborted.are_there
        return bool(self._since(start_offset))

    def between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction] | None:
        """The aborted transactions with an offset in the range, by marker. None: :meth:`prepare` a job first."""
        found: list[AbortedTransaction] = []
        told = self._found.pop(start_offset, None)
        if told is not None and told.state == self._state and end_offset <= told.end_offset:
            found = [one for one in told.transactions if one.first_offset < end_offset]
            if told.is_all:
                return found
            start_offset = told.reached
        for segment in self._since(start_offset):
            known = segment.known_aborted
            if known.may_begin_before(end_offset):
                if known.index is None:
                    return None
                segment.touch()
                found += known.index.between(start_offset, end_offset)
            if known.are_last_before(end_offset):
                break
        return found

    def prepare(self, start_offset: int, end_offset: int | None = None) -> ReadJob[None] | None:
        """A job after which :meth:`between` can answer. None if it can already.

        Without ``end_offset``, for whatever a read may find in the segment of ``start_offset``.
        """
        log = self._log
        log.refuse_while_cut()
        if end_offset is None:
            end_offset = log.segments[log.segments.index_of(start_offset)].next_offset
        closed = (one for one in self._since(start_offset) if not one.is_active)
        asked = [one for one in closed if one.known_aborted.may_begin_before(end_offset)]
        if log.is_offline or all(one.known_aborted.index is not None for one in asked):
            return None
        found = _Found(start_offset, end_offset, start_offset, self._state)
        look = partial(_look, found, log.segments.closed, log.snapshots, log.log_start_offset)
        return _LookUp(log, asked, look, found)

    def keep(self, found: _Found) -> None:
        """A job is done."""
        self._found.pop(found.start_offset, None)
        self._found[found.start_offset] = found
        if len(self._found) > FOUND_MAX:
            del self._found[next(iter(self._found))]

    @property
    def _state(self) -> tuple[int, int]:
        """Changes when the log is cut, and when the cleaner replaces segments: it takes markers away."""
        return self._log.generation, self._log.segments.swaps

    def _since(self, start_offset: int) -> list[Segment]:
        """The segments with aborted transactions that hold ``start_offset`` or later offsets."""
        segments = self._log.segments
        if self._version != segments.version:
            self._version = segments.version
            self._closed = [segment for segment in segments.closed if segment.known_aborted.are_there]
            self._bases = [segment.base_offset for segment in self._closed]
        active = segments.active
        if not self._closed:
            return [active] if active.known_aborted.are_there else []
        at = bisect_right(self._bases, start_offset) - 1
        if at < 0 or self._closed[at].next_offset <= start_offset:
            at += 1
        return self._closed[at:] + ([active] if active.known_aborted.are_there else [])


def load_aborted(
    segment: Segment, before: Iterable[Segment], snapshots: SnapshotFiles, log_start_offset: int
) -> TransactionIndex:
    """The index of ``segment``; a damaged one is made again from the batches. ``before``: the segments before it.

    For a thread, which owns the segments. BadBatchError when one of them is unreadable.
    """
    try:
        return segment.aborted
    except DamagedIndexError:
        segment.known_aborted.forget()
        snapshots.load(Segments([*before, segment]), log_start_offset, segment.next_offset, indexing=(segment,))
        segment.store_aborted()
        return segment.aborted


class _LookUp(ReadJob[None]):
    """See :meth:`AbortedTransactions.prepare`."""

    def __init__(
        self, log: Log, segments: Sequence[Segment], look: Callable[[Iterable[Segment]], None], found: _Found
    ) -> None:
        super().__init__(log, segments, look, keeps_indexes=False)
        self._keep = log.aborted.keep
        self._found = found

    def answer(self) -> None:
        """As of any job; the log keeps what was found."""
        super().answer()
        self._keep(self._found)


def _look(
    found: _Found,
    closed: Sequence[Segment],
    snapshots: SnapshotFiles,
    log_start_offset: int,
    segments: Iterable[Segment],
) -> None:
    """Into each of ``segments``, up to the one behind which nothing counts. ``closed``: all of the log."""
    for segment in segments:
        before = _before(segment.base_offset, closed)
        index = load_aborted(segment, before, snapshots, log_start_offset)
        found.transactions += index.between(found.start_offset, found.end_offset)
        found.reached = segment.next_offset
        found.is_all = index.last_stable_offset >= found.end_offset
        if found.is_all:
            return


def _before(base_offset: int, closed: Sequence[Segment]) -> Iterator[Segment]:
    """Copies, made only if they are asked for."""
    cache = SegmentCache()
    return (segment.copy(cache) for segment in closed if segment.base_offset < base_offset)
