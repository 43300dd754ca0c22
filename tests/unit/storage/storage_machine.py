"""A machine with a simulated disk, and the process on it, which can be made to die after so many operations."""

from __future__ import annotations

from random import Random

from simulator.disk import MountedDisk, Operation, SimulatedDisk
from simulator.killed import Killed


class Machine:
    """``disk`` is the present process's, which dies after ``budget`` operations that change something."""

    def __init__(self) -> None:
        self.platter = SimulatedDisk()
        self.budget: int | None = None
        self.disk = self._mount()

    def kill(self) -> None:
        """``kill -9``, and another process."""
        self.platter.kill()
        self.disk = self._mount()

    def lose_power(self, rng: Random) -> None:
        """The power goes and comes back; what was not synced may be gone or torn."""
        self.platter.lose_power(rng)
        self.disk = self._mount()

    def _mount(self) -> MountedDisk:
        self.budget = None
        return self.platter.mount(before=self._spend)

    def _spend(self, _operation: Operation) -> None:
        if self.budget is not None:
            if self.budget <= 0:
                raise Killed
            self.budget -= 1
