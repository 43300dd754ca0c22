"""Threads of simulated processes: a job runs up to where it waits, and goes on when the simulator says so.

A job is real code on a real thread, but only one thread runs at any time: whoever lets a job go on waits until it
waits again or ends. So a run stays the same with the same seed, while other code runs between any two of a job's
system calls. A job that waits when its process is killed ends there, with :class:`~simulator.killed.Killed`.

Threads are kept for the next job, whichever process asks: starting one takes longer than most jobs.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from simulator.killed import Killed

_idle: Final[list[_Thread]] = []
os.register_at_fork(after_in_child=_idle.clear)  # a fork has one thread only


class _Thread:
    """Runs one job at a time, while whoever let it wait."""

    def __init__(self) -> None:
        self._go_on, self._has_stopped = threading.Lock(), threading.Lock()  # each released by one, acquired by another
        self._go_on.acquire()
        self._has_stopped.acquire()
        self._act: Callable[[], None] = lambda: None
        threading.Thread(target=self._run, name="simulated", daemon=True).start()

    def begin(self, act: Callable[[], None]) -> None:
        """Run ``act`` until it waits or ends."""
        self._act = act
        self.go_on()

    def go_on(self) -> None:
        self._go_on.release()
        self._has_stopped.acquire()

    def wait(self) -> None:
        """Called in the thread: let the others run until :meth:`go_on`."""
        self._has_stopped.release()
        self._go_on.acquire()

    def _run(self) -> None:
        while True:
            self._go_on.acquire()
            self._act()
            self._act = lambda: None
            _idle.append(self)
            self._has_stopped.release()


class Job:
    """Work on a thread of its own. ``act`` catches whatever it may raise."""

    current: Job | None = None
    """The one whose code runs now."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._thread: _Thread | None = None
        self._is_killed = False

    def go_on(self) -> None:
        """Let it run, from its beginning or from where it waits, until it waits or ends."""
        before, Job.current = Job.current, self
        try:
            if self._thread is None:
                self._thread = _idle.pop() if _idle else _Thread()
                self._thread.begin(self._act)
            else:
                self._thread.go_on()
        finally:
            Job.current = before

    def wait(self) -> None:
        """Called in the job: let everything else happen. Killed where its process is."""
        assert self._thread is not None
        self._thread.wait()
        if self._is_killed:
            raise Killed

    def kill(self) -> None:
        """It waits, and gets no further."""
        self._is_killed = True
        self.go_on()


class Pool:
    """At most ``size`` jobs of one process run at a time; the others wait for their turn."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.running = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def submit(self, start: Callable[[], None]) -> None:
        """Call ``start`` as soon as a thread is free; it calls :meth:`leave` when that is free again."""
        if self.running < self.size:
            self.running += 1
            start()
        else:
            self._waiting.append(start)

    def leave(self) -> None:
        """A thread is free."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self.running -= 1
