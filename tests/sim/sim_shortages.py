"""What a machine may be short of for a while: a quick disk, running threads, descriptors, name look-ups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sim_cluster import Machine, SimulatedCluster

SYNC_S: Final = (0.05, 0.3, 1.0, 3.0)
"""What a sync takes on a disk that is slow."""

STALL_S: Final = (0.5, 3.0, 10.0)
"""What one operation of a thread takes at most while threads stall."""

Later = Callable[[float, Callable[[], object]], None]


class Shortages:
    """Each begins at once and ends by itself; :meth:`end` ends them all."""

    def __init__(self, cluster: SimulatedCluster, later: Later, duration_s: Callable[[], float]) -> None:
        self._cluster = cluster
        self._later = later
        self._duration_s = duration_s

    def slow_disk(self) -> None:
        rng = self._cluster.rng
        self.slow(rng.choice(list(self._cluster.machines.values())), rng.choice(SYNC_S), 2 * self._duration_s())

    def slow_disks(self) -> None:
        """Every one, as where all are on one overloaded array."""
        for machine in self._cluster.machines.values():
            self.slow(machine, self._cluster.rng.choice(SYNC_S), 2 * self._duration_s())

    def stall_threads(self) -> None:
        """Single jobs of threads take long, each at any of its operations, while the others and the loop go on."""
        rng = self._cluster.rng
        machine = rng.choice(list(self._cluster.machines.values()))
        machine.stall_s = rng.choice(STALL_S)
        self._later(1.0 + 2 * self._duration_s(), lambda: setattr(machine, "stall_s", 0.0))

    def no_descriptors(self) -> None:
        machine = self._cluster.rng.choice(list(self._cluster.machines.values()))
        process = machine.process
        if process is not None:
            process.is_out_of_descriptors = True
            self._later(self._duration_s(), lambda: setattr(process, "is_out_of_descriptors", False))

    def no_names(self) -> None:
        host = self._cluster.rng.choice(list(self._cluster.machines.values())).host
        lost = self._cluster.network.lost_resolvers
        lost.add(host)
        self._later(self._duration_s(), lambda: lost.discard(host))

    def end(self) -> None:
        self._cluster.network.lost_resolvers.clear()
        for machine in self._cluster.machines.values():
            machine.sync_s = machine.stall_s = 0.0
            if machine.process is not None:
                machine.process.is_out_of_descriptors = False

    def slow(self, machine: Machine, sync_s: float, duration_s: float) -> None:
        """Let its syncs take about so long, for a while."""
        machine.sync_s = sync_s
        self._later(duration_s, lambda: setattr(machine, "sync_s", 0.0))
