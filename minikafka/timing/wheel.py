"""A hierarchical timing wheel (Varghese & Lauck; Kafka's ``TimingWheel``): insert and cancel are O(1), memory is flat.

Time is counted in ticks. Level 0 has buckets of one tick, level 1 of ``wheel_size`` ticks, level 2 of ``wheel_size``
squared, and so on; levels appear when a deadline is too far away for those there are. A task lies in the lowest level
whose window, the ``wheel_size`` buckets from the current one, reaches its deadline. When the time of a bucket comes,
its tasks are due or fall into a lower level, so each moves at most once per level.

Buckets exist only while they hold something, and what drives the clock is a heap of their times: one entry per
bucket, never one per task. A bucket is a ring of doubly linked tasks: a task is its own link, so that an insertion
allocates nothing. When cancellation empties a bucket, the heap drops it on reaching it.

Invariants: a bucket's time is not later than any deadline in it; a level has at most ``wheel_size`` buckets; a pending
task is in exactly one ring, and what it is in can change without its knowledge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

NEVER_MS: Final = 1 << 62
WHEEL_SIZE: Final = 256  # measured: fewer levels than Kafka's 20 and still a heap of at most some hundred entries


class _Link:
    """A place in a ring; a ring's head is a link of its own, and points to itself while the ring is empty."""

    __slots__ = ("_next", "_previous")

    _next: _Link | None
    _previous: _Link | None


class TimerTask(_Link, ABC):
    """Something with a deadline. Subclass it (with ``__slots__``): the task itself is what the wheel links."""

    __slots__ = ("_deadline_tick",)

    _deadline_tick: int
    weight = 1
    """How much of what may expire at once (``expire_due``)."""

    def __init__(self) -> None:
        self._next = None
        self._previous = None
        self._deadline_tick = 0

    @abstractmethod
    def expire(self) -> None:
        """The deadline has come; called by :meth:`TimingWheel.expire_due` when the task has left the wheel."""


class _Bucket(_Link):
    """The head of a ring of tasks."""

    __slots__ = ()

    def __init__(self) -> None:
        self._next = self
        self._previous = self

    @property
    def is_empty(self) -> bool:
        return self._next is self

    def append(self, task: TimerTask) -> None:
        last = self._previous
        task._previous = last
        task._next = self
        last._next = task  # type: ignore[union-attr]
        self._previous = task

    def pop_first(self) -> TimerTask | None:
        """Unlink the task that was appended first; None if the ring is empty."""
        task = self._next
        if not isinstance(task, TimerTask):
            return None
        _unlink(task)
        return task

    def drain(self) -> list[TimerTask]:
        """Unlink all tasks; in the order they were appended."""
        tasks = []
        while (task := self.pop_first()) is not None:
            tasks.append(task)
        return tasks

    def take_apart(self) -> None:
        """It is empty, and used no more: without a cycle it goes at once, and the garbage collector has no work."""
        self._next = self._previous = None


class TimingWheel:
    """Pending tasks by deadline; insert and cancel are O(1) (row D3). Times are monotonic milliseconds.

    A task expires at the first tick at or after its deadline.
    """

    __slots__ = (
        "_due",
        "_heap",
        "_levels",
        "_on_earlier",
        "_overdue",
        "_pending",
        "_spans",
        "_tick",
        "_tick_ms",
        "_wheel_size",
        "sleeps_until_ms",
    )

    def __init__(
        self,
        start_ms: int = 0,
        *,
        tick_ms: int = 1,
        wheel_size: int = WHEEL_SIZE,
        on_earlier: Callable[[int], None] | None = None,
    ) -> None:
        """``on_earlier``: called with a new deadline that is before ``sleeps_until_ms``."""
        assert tick_ms >= 1
        assert wheel_size >= 2
        self._on_earlier = on_earlier
        self.sleeps_until_ms = NEVER_MS
        """When its driver advances it next."""
        self._tick_ms = tick_ms
        self._wheel_size = wheel_size
        self._tick = start_ms // tick_ms  # everything up to and including this tick has been returned
        self._spans: list[int] = [1]  # ticks per bucket, by level
        self._levels: list[dict[int, _Bucket]] = [{}]  # by level: buckets by number (tick // span)
        self._heap: list[tuple[int, int, int]] = []  # (first tick, level, number) of each bucket
        self._overdue = _Bucket()  # inserted too late; the next advance makes them due
        self._due = _Bucket()
        self._pending = 0

    def __len__(self) -> int:
        """Tasks that are pending."""
        return self._pending

    def insert(self, task: TimerTask, deadline_ms: int) -> None:
        """Make ``task``, which must not be pending, expire at ``deadline_ms``; if that is past, at the next advance."""
        assert task._next is None, "the task is pending already"
        task._deadline_tick = -(-deadline_ms // self._tick_ms)  # rounded up: early is wrong, late by a tick is not
        self._pending += 1
        self._place(task)
        if deadline_ms < self.sleeps_until_ms and self._on_earlier is not None:
            self._on_earlier(deadline_ms)

    def cancel(self, task: TimerTask) -> bool:
        """Forget ``task``; False if it was not pending."""
        if task._next is None:
            return False
        _unlink(task)
        self._pending -= 1
        return True

    def advance(self, now_ms: int) -> list[TimerTask]:
        """Move the clock to ``now_ms`` (never back); the tasks whose deadline has come, earliest first."""
        self._collect_due(now_ms)
        expired = self._due.drain()
        self._pending -= len(expired)
        return expired

    def expire_due(self, now_ms: int, at_most: int | None = None) -> int:
        """Move the clock to ``now_ms`` and expire what is due, earliest first; how many tasks that was.

        Tasks beyond a weight of ``at_most`` stay due. The next advance begins with them, and does not look at them
        before.

        What one task's ``expire`` cancels does not expire; what it inserts waits for the next advance, even if overdue.
        A task that raises does not keep the others from expiring: the error is raised when all have, or all errors as
        an ExceptionGroup.
        """
        self._collect_due(now_ms)
        due = self._due
        count = weight = 0
        errors: list[Exception] = []
        while (at_most is None or weight < at_most) and (task := due.pop_first()) is not None:
            self._pending -= 1
            count += 1
            weight += task.weight
            try:
                task.expire()
            except Exception as error:
                errors.append(error)
        raise_all(errors)
        return count

    def _collect_due(self, now_ms: int) -> None:
        """Move the clock; tasks whose deadline has come are due, the earliest first, behind those that were before."""
        now_tick = max(now_ms // self._tick_ms, self._tick)
        candidates = self._overdue.drain()
        heap = self._heap
        while heap and heap[0][0] <= now_tick:
            _, level, number = heappop(heap)
            bucket = self._levels[level].pop(number)
            candidates += bucket.drain()
            bucket.take_apart()
        self._tick = now_tick
        candidates.sort(key=_deadline_tick)
        for task in candidates:
            if task._deadline_tick <= now_tick:
                self._due.append(task)
            else:
                self._place(task)

    def next_deadline_ms(self) -> int | None:
        """When to advance next: not after the earliest deadline, and before it only to move tasks down. None if empty.

        An insertion may make it earlier: a driver that sleeps is told (``on_earlier``).
        """
        if not (self._due.is_empty and self._overdue.is_empty):
            return self._tick * self._tick_ms
        heap = self._heap
        while heap:
            first_tick, level, number = heap[0]
            if not self._levels[level][number].is_empty:
                return first_tick * self._tick_ms
            self._levels[level].pop(number).take_apart()
            heappop(heap)
        return None

    def _place(self, task: TimerTask) -> None:
        """Link ``task`` into the bucket of its deadline, in the lowest level that reaches it."""
        deadline = task._deadline_tick
        tick = self._tick
        if deadline <= tick:
            self._overdue.append(task)
            return
        level = 0
        for span in self._spans:
            number = deadline // span
            if number - tick // span < self._wheel_size:
                break
            level += 1
        else:
            level, number = self._add_levels(deadline)
        bucket = self._levels[level].get(number)
        if bucket is None:
            bucket = self._levels[level][number] = _Bucket()
            heappush(self._heap, (number * self._spans[level], level, number))
        bucket.append(task)

    def _add_levels(self, deadline_tick: int) -> tuple[int, int]:
        """Add levels until one reaches the deadline; that level and the deadline's bucket number in it."""
        while True:
            span = self._spans[-1] * self._wheel_size
            self._spans.append(span)
            self._levels.append({})
            number = deadline_tick // span
            if number - self._tick // span < self._wheel_size:
                return len(self._spans) - 1, number


def raise_all(errors: list[Exception]) -> None:
    """Raise what was caught: nothing, the one error, or all in a group."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup("several operations failed", errors)


def _unlink(task: TimerTask) -> None:
    previous, following = task._previous, task._next
    previous._next = following  # type: ignore[union-attr]
    following._previous = previous  # type: ignore[union-attr]
    task._next = task._previous = None


def _deadline_tick(task: TimerTask) -> int:
    return task._deadline_tick
