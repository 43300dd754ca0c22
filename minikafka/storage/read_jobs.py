"""Reads that take long, fit for a thread: of bytes that were never verified, of indexes that are not in memory.

A job works on copies of segments: appends, retention and compaction go on meanwhile. What it found is kept where
the log still is as it was; where it was cut, or a segment went, whoever asked asks again.

The active segment is copied at once. Closed ones change no more, and are copied when the job comes to them: most jobs
look into one of thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from minikafka.errors import ErrorCode, KafkaError
from minikafka.storage.errors import BadBatchError
from minikafka.storage.segment import Segment
from minikafka.storage.segment_cache import SegmentCache

if TYPE_CHECKING:
    from minikafka.storage.log import Log

T = TypeVar("T")


class ReadJob(Generic[T]):
    """``ask`` goes through the segments and answers. ``run`` it in any thread, then ``Log.complete_read`` it."""

    def __init__(
        self, log: Log, segments: Iterable[Segment], ask: Callable[[Iterable[Segment]], T], *, keeps_indexes: bool
    ) -> None:
        self.is_done = False
        self._keeps_indexes = keeps_indexes
        self._log = log
        self._generation = log.generation
        self._cache = SegmentCache()  # one for all copies: a job may go through thousands, and opens few at once
        self._segments = list(segments)
        self._copies = {one: one.snapshot(self._cache) for one in self._segments if one.is_active}
        self._ask = ask
        self._reading: Segment | None = None
        self._answer: T
        self._error: BadBatchError | OSError | None = None

    def run(self) -> None:
        """Read, in any thread. Nothing is raised."""
        try:
            self._answer = self._ask(self)
        except (BadBatchError, OSError) as error:
            self._error = error
        self.is_done = True

    def answer(self) -> T:
        """On the loop, when it has run. OFFSET_NOT_AVAILABLE to ask again, KAFKA_STORAGE_ERROR for damage."""
        assert self.is_done
        log = self._log
        error, self._error = self._error, None  # its traceback refers back to the job, and so to open files
        if log.failure is not None:
            raise log.failure
        present = set(log.segments)
        if self._generation != log.generation or (error is not None and self._reading not in present):
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{log.topic_partition} changed meanwhile; try again")
        for segment, copy in self._copies.items():
            if segment in present:
                segment.learn(copy, keeps_index=self._keeps_indexes)
        if error is not None:
            assert self._reading is not None
            log.unreadable(self._reading, error)
        return self._answer

    def __iter__(self) -> Iterator[Segment]:
        for segment in self._segments:
            self._reading = segment
            copy = self._copies.get(segment)
            if copy is None:
                copy = self._copies[segment] = segment.copy(self._cache)
            yield copy
