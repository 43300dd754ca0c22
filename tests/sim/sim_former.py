"""A log directory goes, and comes back as it was when it went: what it lacks its node has acknowledged meanwhile.

At most one is away in the whole cluster. It goes and comes back while its node is down:

* *left out*: ``log.dirs`` does not name it, and later names it again, perhaps in another order;
* *unmounted*: its path is an empty directory for some seconds. The node waits for it, or goes on with the other one;
* *replaced*: the path holds a new disk, and a file that says so. Later the former disk is there again;
* *copied*: it does not go at all. Somebody keeps a copy, and puts it back when the node has registered since.

The other directory of the node tells: it names a newer registration. So no other damage strikes this machine until all
is whole again, with the directory or without it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from sim_cluster import Machine
from simulator.disk.damage import keep, put_back, restore
from simulator.disk.inodes import Directory

from minikafka.storage.meta import REPLACED_FILE

WAYS: Final = ("left out", "left out", "unmounted", "replaced", "copied")


class Former(NamedTuple):
    """A directory that is away."""

    machine: Machine
    path: str
    way: str
    kept: Directory | None
    """What it held; None: it is still there, and not used."""


class FormerDirectories:
    """Takes a log directory away, and brings it back. ``away`` is the one."""

    def __init__(self, log_dirs: Sequence[str], rng: random.Random) -> None:
        self._log_dirs = log_dirs
        self._rng = rng
        self.away: Former | None = None

    @property
    def must_come_back(self) -> bool:
        """Its node cannot be whole without it."""
        return self.away is not None and self.away.way == "unmounted"

    def take(self, machine: Machine) -> str:
        """One of its directories goes. What was done."""
        path, way = self._rng.choice(self._log_dirs), self._rng.choice(WAYS)
        kept = None if way == "left out" else keep(machine.disk, path)
        self.away = Former(machine, path, way, kept)
        if way == "left out":
            machine.log_dirs = [one for one in self._log_dirs if one != path]
        elif way in ("unmounted", "replaced"):
            restore(machine.disk, path, {REPLACED_FILE: b""} if way == "replaced" else {})
        return f"{path} is {way}"

    def bring_back(self) -> str:
        """What it held is there again, whatever is there now."""
        assert self.away is not None
        machine, path, way, kept = self.away
        self.away = None
        if kept is not None:
            put_back(machine.disk, path, kept)
        machine.log_dirs = self._rng.sample(self._log_dirs, len(self._log_dirs))
        return f"{path} is back, which was {way}"
