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
- A callback may do anything, including to its own purgatory. A check for a key that is called for during a check is
  noted and done by the outermost one when it gets there, so that a chain of completions, each causing the next, takes
  no stack. An operation that is watched during a check has been tried by then, with everything that came before.

Everything is single-threaded. Between ``try_complete`` and the watching nothing can happen, so unlike Kafka's, an
operation is tried once on entry, not twice.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from minikafka.timing.wheel import TimerTask, TimingWheel, raise_all

K = TypeVar("K", bound=Hashable)


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

    __slots__ = ("_delayed", "_is_checking", "_to_check", "_watchers", "_wheel")

    def __init__(self, wheel: TimingWheel) -> None:
        self._wheel = wheel
        self._watchers: dict[K, dict[DelayedOperation, None]] = {}  # the inner dict is an ordered set
        self._delayed = 0
        self._to_check: dict[K, None] = {}
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

        Called from within a check (by a callback), it leaves the key to the outermost call and returns 0. If operations
        raise, the others are tried nonetheless, and then the errors are raised, several as an ExceptionGroup.
        """
        if self._is_checking:
            self._to_check[key] = None
            return 0
        if key not in self._watchers:
            return 0
        self._is_checking = True
        completed = 0
        errors: list[Exception] = []
        self._to_check[key] = None
        try:
            while self._to_check:
                keys = list(self._to_check)
                self._to_check.clear()
                for key in keys:
                    completed += self._try_all(key, errors)
        finally:
            self._is_checking = False
        if errors:
            raise_all(errors)
        return completed

    def advance(self, now_ms: int) -> int:
        """:meth:`TimingWheel.expire_due`, which expires what is due in every purgatory that shares the wheel."""
        return self._wheel.expire_due(now_ms)

    def _try_all(self, key: K, errors: list[Exception]) -> int:
        completed = 0
        for operation in list(self._watchers.get(key, ())):
            if operation._purgatory is not self:
                continue  # a callback has completed or cancelled it since the list was made
            try:
                completed += operation.try_complete_for(key)
            except Exception as error:
                errors.append(error)
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
