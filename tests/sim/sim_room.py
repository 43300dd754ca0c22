"""Disks with a little room left, and writes that take only a part of what they are given.

With *little room* a large write is refused half-way, what was written of it stays, and small ones go on succeeding:
files take room by the block, so a file still has the rest of its last one. Then there is a bit more room, or less,
since others use the disk, too, and in the end there is enough. Either the whole disk is short, or one log directory;
either all files, or all but those whose room was reserved. Nothing is lost by that, as by a kill; so it may be any
number of machines.

*Short writes* take a part and say so: a system call may always do that. Whoever goes on with the rest loses nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from sim_cluster import Machine, SimulatedCluster
from simulator.disk.platter import DEFAULT_CAPACITY

from minikafka.storage.durable_end import DURABLE_END_FILE
from minikafka.storage.segment_names import LOG_SUFFIX

LEFT: Final = (0, 20, 200, 2_000, 20_000)
"""Bytes that a disk has left for a while."""
BLOCKS: Final = (1, 512, 4_096)
LASTS_S: Final = (0.02, 0.3, 2.0)
"""The longest until it has another number of them."""
TIMES_MAX: Final = 8
SPARED: Final[tuple[tuple[str, ...], ...]] = ((), (LOG_SUFFIX,), (LOG_SUFFIX, DURABLE_END_FILE))
"""Files that go on growing: all others are asked for room first then."""
ALL_CHANCE: Final = 0.2
SHARES: Final = (0.01, 0.1, 0.5)
"""Of the writes, those that are short."""

Later = Callable[[float, Callable[[], object]], None]


class Room:
    """Each shortage begins at once and ends by itself; :meth:`end` ends them all.

    ``on_room``: a machine has enough room again.
    """

    def __init__(
        self, cluster: SimulatedCluster, rng: random.Random, later: Later, on_room: Callable[[Machine], None]
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._later = later
        self._on_room = on_room

    def leave_little(self, may_be_short: Callable[[Machine], bool]) -> bool:
        """On one machine or on all, as far as they may. False: it is nobody."""
        rng, machines = self._rng, list(self._cluster.machines.values())
        chosen = machines if rng.random() < ALL_CHANCE else [rng.choice(machines)]
        chosen = [machine for machine in chosen if may_be_short(machine) and not machine.disk.is_short]
        for machine in chosen:
            disk = machine.disk
            disk.block, disk.spared = rng.choice(BLOCKS), rng.choice(SPARED)
            disk.short_below = rng.choice(("/", *self._cluster.log_dirs))
            self._change(machine, rng.randrange(1, TIMES_MAX + 1))
        return bool(chosen)

    def shorten_writes(self, duration_s: float) -> None:
        """Of one machine's processes, for a while."""
        machine = self._rng.choice(list(self._cluster.machines.values()))
        share = self._rng.choice(SHARES)

        def takes(size: int) -> int:
            if size < 2 or self._rng.random() >= share:
                return size
            taken = self._rng.randrange(1, size)
            self._cluster.say(machine.host, f"takes {taken} of {size} bytes")
            return taken

        machine.takes = takes
        self._later(duration_s, lambda: _take_all(machine))

    def end(self) -> None:
        for machine in self._cluster.machines.values():
            _take_all(machine)
            if machine.disk.is_short:
                self._give_back(machine)

    def _change(self, machine: Machine, times: int) -> None:
        """There are so many changes to come."""
        if not times:
            self._give_back(machine)
            return
        rng = self._rng
        left = rng.choice(LEFT)
        machine.disk.capacity = machine.disk.used + left
        self._cluster.say(machine.host, f"{left} bytes are left below {machine.disk.short_below}")
        self._later(rng.choice(LASTS_S) * rng.random(), lambda: self._change(machine, times - 1))

    def _give_back(self, machine: Machine) -> None:
        machine.disk.capacity = DEFAULT_CAPACITY
        self._on_room(machine)


def _take_all(machine: Machine) -> None:
    machine.takes = lambda size: size
