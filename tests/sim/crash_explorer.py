"""Lets a machine crash at every file operation of some work, in every way, and looks at what a restart makes of it.

A :class:`Life` is a process that works on a disk and knows what it has promised. While it works, the explorer stops it
before each operation that changes or syncs something, and for every state that a power cut (or ``kill -9``) at that
moment may leave, starts another life there, which checks that the promises of the former are kept. Recovery is work
too: it is interrupted at its operations, done again and compared, and now and then goes on to live, promise and die.
States that were seen with the same promises are not looked at again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from random import Random
from typing import Protocol

from crash_futures import futures
from simulator.disk import MountedDisk, Operation, SimulatedDisk


class Violation(BaseException):
    """A restart went wrong, after what it says. Not an Exception: the code whose disk this happens on handles those."""


class Life(Protocol):
    """A process and what it promised so far."""

    doing: str
    """For whoever looks for a bug."""

    def promises(self) -> Hashable:
        """What a restart is measured by, as a value."""
        ...

    def work(self) -> None:
        """Do something, and count as promised what is done."""
        ...

    def restarted(self, disk: MountedDisk, *, lost_power: bool) -> Life:
        """Recover in a new process; AssertionError, naming the invariant, if a promise was broken."""
        ...

    def view(self) -> Hashable:
        """What it shows to others."""
        ...


class Explorer:
    """``width`` states at most are looked at per operation, ``limit`` in all; random choices are those of ``seed``."""

    def __init__(self, seed: int, *, width: int = 24, limit: int = 2_000) -> None:
        self.rng = Random(seed)
        self.states = 0
        self.points: Counter[str] = Counter()  # operations that were crashed before, by kind
        self.limit = limit
        self.width = width
        self._seen: set[Hashable] = set()
        self.passed = self.rng.choice((0, self.rng.randrange(100)))  # operations at first that nothing happens before

    def explore(self, birth: Callable[[MountedDisk, Random], Life]) -> None:
        """Let a life begin on an empty disk, and crash at every operation of its work."""
        platter = SimulatedDisk()
        stage = _Stage(self, platter, depth=0, lost_power=False)
        life = birth(platter.mount(before=stage.before), self.rng)
        stage.life = life
        try:
            life.work()
        except Violation as violation:
            cause = violation.__cause__
            assert cause is not None
            cause.add_note(str(violation))
            raise cause from cause.__cause__

    def crash(self, stage: _Stage, operation: Operation, width: int) -> None:
        """The machine loses power, or the process is killed, just before the operation."""
        self.points[operation.kind] += 1
        for future in futures(stage.platter, self.rng, width):
            self._restart(stage, future, operation, lost_power=True)
        killed = stage.platter.copy()
        self._restart(stage, killed, operation, lost_power=stage.lost_power)
        is_there = stage.platter.find(operation.path) is not None  # its directory may have another name by now
        if operation.kind == "append" and operation.size > 1 and is_there:
            self._kill_inside(stage, operation)

    def _kill_inside(self, stage: _Stage, operation: Operation) -> None:
        """Half an append: the process died on the way."""
        killed = stage.platter.copy()
        file = killed.mount().open_append(operation.path)
        file.append([operation.data[: operation.size // 2]])
        self._restart(stage, killed, operation, lost_power=stage.lost_power)

    def _restart(self, former: _Stage, platter: SimulatedDisk, operation: Operation, *, lost_power: bool) -> None:
        life = former.life
        assert life is not None
        key = (platter.digest(), life.promises(), lost_power)
        if key in self._seen:
            return
        self._seen.add(key)
        self.states += 1
        stage = _Stage(self, platter, former.depth + 1, lost_power, life, former)
        try:
            reborn = life.restarted(platter.mount(before=stage.before), lost_power=lost_power)
            self._live_on(stage, reborn)
        except Exception as error:
            raise Violation("\n".join(stage.trace())) from error

    def _live_on(self, stage: _Stage, reborn: Life) -> None:
        fate = self.rng.random()
        if fate < 0.3:
            again = reborn.restarted(stage.platter.copy().mount(), lost_power=False)
            assert again.view() == reborn.view(), "recovery is idempotent: a second one finds what the first one made"
        elif fate < 0.4 and stage.depth < 3:
            stage.life, stage.lost_power = reborn, False
            reborn.work()


class _Stage:
    """A disk, and whoever lives on it. While a restart recovers, ``life`` is the former one."""

    def __init__(
        self,
        explorer: Explorer,
        platter: SimulatedDisk,
        depth: int,
        lost_power: bool,
        life: Life | None = None,
        former: _Stage | None = None,
    ) -> None:
        self.platter = platter
        self.depth = depth
        self.lost_power = lost_power
        self.life = life
        self._explorer = explorer
        self._former = former, 0 if former is None else len(former._operations)
        self._is_cut = lost_power
        self._operations: list[tuple[str, Operation]] = []

    def trace(self) -> list[str]:
        """What led here, one line per operation."""
        former, until = self._former
        lines = [] if former is None else former.trace()[: until - len(former._operations) or None]
        if former is not None:
            lines.append(f"--- {'power lost' if self._is_cut else 'killed'} before the last one; restarted")
        return lines + [f"{what:16} {kind:9} {path} {size or ''}" for what, (kind, path, size, _) in self._operations]

    def before(self, operation: Operation) -> None:
        if self.life is None or self._explorer.states >= self._explorer.limit:
            return
        self._operations.append((self.life.doing, operation))
        if self.depth == 0 and len(self._operations) > self._explorer.passed:
            self._explorer.crash(self, operation, self._explorer.width)
        elif 0 < self.depth < 3 and self._explorer.rng.random() < 0.1:
            self._explorer.crash(self, operation, 2)
