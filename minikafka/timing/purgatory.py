"""Where operations wait that cannot be answered yet: a produce for its followers, a fetch for data, a join for members.

A :class:`DelayedOperation` is completed by the first of two things: an event on one of the keys it is watched under
makes its ``try_complete`` succeed, or its time-out comes. States and transitions::

    created --try_complete_else_watch--> completed                        (could be answered at once)
            --try_complete_else_watch--> waiting --check_and_complete---> completed
                                                 --force_complete-------> completed
                                                 --time-out-------------> completed, then on_expiration
                                                 --cancel---------------> created again, and forgotten

Invariants:

- ``on_complete`` runs exactly once, whoever comes first, and after the operation has left wheel and watch lists.
- A completed operation is in no watch list: it is taken out of all of them at once (a dict per key makes that O(1)
  each), so memory is bounded by what is waiting, and there is nothing to purge later.
- At most ``at_once`` operations are tried before the next turn (:meth:`Purgatory.go_on`): thousands may wait for one
  key, and an answer takes longer than a try. One that is completed counts by its weight. What a turn leaves is tried
  in order in the next ones, and then what happened meanwhile: no event is lost, and each finds every operation that
  waited before it.
- A callback may do anything, including to its own purgatory. A check for a key that is called for during a check is
  noted and done by the outermost one when it gets there, so that a chain of completions, each causing the next, takes
  no stack. An operation that is watched during a check has been tried by then, with everything that came before.

Everything is single-threaded. Between ``try_complete`` and the watching nothing can happen, so unlike Kafka's, an
operation is tried once on entry, not twice.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

from minikafka.timing.wheel import TimerTask, TimingWheel, raise_all

K = TypeVar("K", bound=Hashable)

ALL: Final = 1 << 62


class DelayedOperation(TimerTask):
    """One waiting request: tried often, completed exactly once (row D1).

    Subclass with ``__slots__``. ``timeout_ms`` counts from the start of the wait.
    """

    __slots__ = ("_keys", "_purgatory", "is_completed", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        super().__init__()
        self.timeout_ms = timeout_ms
        self.is_completed = False
        self._purgatory: Purgatory[Any] | None = None
        self._keys: tuple[Any, ...] = ()

    @abstractmethod
    def try_complete(self) -> bool:
        """Look whether the operation can be completed now, and if so return :meth:`force_complete`. Called often."""

    def try_complete_for(self, _key: Any) -> bool:
        """:meth:`try_complete` when only ``_key`` changed since the last attempt.

        One request has thousands of keys, and one event changes thousands: override it if looking at all is dear.
        """
        return self.try_complete()

    @abstractmethod
    def on_complete(self) -> None:
        """Answer. Runs once, on completion and on expiry alike."""

    def on_expiration(self) -> None:
        """Runs after :meth:`on_complete` if it was the time-out that completed the operation."""

    def force_complete(self) -> bool:
        """Complete the operation whatever it waits for; False if it was completed before."""
        if self.is_completed:
            return False
        self.is_completed = True
        if self._purgatory is not None:
            self._purgatory._release(self)
        self.on_complete()
        return True

    def cancel(self) -> None:
        """Nobody waits for it any more: it leaves the purgatory uncompleted. Nothing if it does not wait."""
        if self._purgatory is not None:
            self._purgatory._release(self)

    def expire(self) -> None:
        """The time-out has come."""
        if self.force_complete():
            self.on_expiration()


class Purgatory(Generic[K]):
    """Waiting operations by key (topic partition, group, member); an event of a key tries its operations (row D2)."""

    __slots__ = (
        "_at_once",
        "_delayed",
        "_is_checking",
        "_key",
        "_left",
        "_on_behind",
        "_room",
        "_to_check",
        "_watchers",
        "_wheel",
    )

    def __init__(self, wheel: TimingWheel, at_once: int = ALL, on_behind: Callable[[], None] | None = None) -> None:
        """``at_once``: operations that are tried in one turn; ``on_behind`` is called when some are left, and asks for
        a call of :meth:`go_on` in the next one."""
        self._wheel = wheel
        self._at_once = self._room = at_once
        self._on_behind = on_behind
        self._watchers: dict[K, dict[DelayedOperation, None]] = {}  # the inner dict is an ordered set
        self._delayed = 0
        self._to_check: dict[K, None] = {}
        self._key: K | None = None
        self._left: list[DelayedOperation] = []  # what is to be tried for the key, the first one last
        self._is_checking = False

    @property
    def delayed(self) -> int:
        """Operations that wait."""
        return self._delayed

    @property
    def watched(self) -> int:
        """Entries in all watch lists: an operation counts once for each of its keys."""
        return sum(map(len, self._watchers.values()))

    def __contains__(self, key: K) -> bool:
        """Something waits for ``key``."""
        return key in self._watchers

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[K], now_ms: int) -> bool:
        """Complete ``operation`` now if it can be (True), else let it wait for ``keys`` until its time-out (False)."""
        if operation.is_completed or operation.try_complete():
            return True
        self.watch(operation, keys, now_ms)
        return False

    def watch(self, operation: DelayedOperation, keys: Iterable[K], now_ms: int) -> None:
        """Let ``operation`` wait for ``keys`` until its time-out, untried: the caller tries it after this."""
        assert operation._purgatory is None, "the operation waits already"
        operation._purgatory = self
        operation._keys = watched = tuple(keys)
        for key in watched:
            watchers = self._watchers.get(key)
            if watchers is None:
                watchers = self._watchers[key] = {}
            watchers[operation] = None
        self._wheel.insert(operation, now_ms + operation.timeout_ms)
        self._delayed += 1

    def check_and_complete(self, key: K) -> int:
        """Something happened to ``key``: try what waits for it, oldest first; how many operations that completed.

        Called from within a check (by a callback), or while some of the last turn are left, it notes the key and
        returns 0. If operations raise, the others are tried nonetheless, and then the errors are raised, several as an
        ExceptionGroup.
        """
        if key not in self._watchers and not self._is_checking:
            return 0
        is_first = not (self._is_checking or self._left or self._to_check)
        self._to_check[key] = None
        return self._check() if is_first else 0

    def go_on(self) -> int:
        """A new turn begins: try what the last one left. How many operations that completed."""
        self._room = self._at_once
        return self._check() if self._left or self._to_check else 0

    def advance(self, now_ms: int) -> int:
        """:meth:`TimingWheel.expire_due`, which expires what is due in every purgatory that shares the wheel."""
        return self._wheel.expire_due(now_ms)

    def _check(self) -> int:
        completed = 0
        errors: list[Exception] = []
        to_check, left, key, room = self._to_check, self._left, self._key, self._room
        self._is_checking = True
        try:
            while (left or to_check) and room > 0:
                if not left:
                    key = next(iter(to_check))
                    del to_check[key]
                    left += self._watchers.get(key, ())
                    left.reverse()
                while left and room > 0:
                    operation = left.pop()
                    if operation._purgatory is not self:
                        continue  # a callback has completed or cancelled it since the list was made
                    is_completed = False
                    try:
                        is_completed = operation.try_complete_for(key)
                    except Exception as error:
                        errors.append(error)
                    completed += is_completed
                    room -= operation.weight if is_completed else 1
        finally:
            self._is_checking = False
            self._key, self._room = key, room
        if (self._left or self._to_check) and self._on_behind is not None:
            self._on_behind()
        if errors:
            raise_all(errors)
        return completed

    def _release(self, operation: DelayedOperation) -> None:
        """Take ``operation`` out of the wheel and of every watch list."""
        self._wheel.cancel(operation)
        for key in operation._keys:
            watchers = self._watchers.get(key)
            if watchers is not None:
                watchers.pop(operation, None)
                if not watchers:
                    del self._watchers[key]
        operation._keys = ()
        operation._purgatory = None
        self._delayed -= 1
