"""What a power cut may leave of a disk, one possibility after the other."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from simulator.disk import SimulatedDisk


class Branches:
    """Answers every question in every way: go through with it, then :meth:`turn`, until there is no other way."""

    def __init__(self) -> None:
        self._answers: list[tuple[int, int]] = []  # (answer, of how many)
        self._asked = 0

    def randrange(self, stop: int, /) -> int:
        """The answer that this way gives to the next question."""
        if self._asked == len(self._answers):
            self._answers.append((0, stop))
        answer, _stop = self._answers[self._asked]
        self._asked += 1
        return answer

    def turn(self) -> bool:
        """Go another way from now on; False when all have been gone."""
        self._asked = 0
        while self._answers:
            answer, stop = self._answers.pop()
            if answer + 1 < stop:
                self._answers.append((answer + 1, stop))
                return True
        return False


def futures(disk: SimulatedDisk, rng: Random, limit: int) -> Iterator[SimulatedDisk]:
    """All futures of a disk that loses power now if there are few; else the first of them and random others."""
    branches = Branches()
    for _ in range(limit // 2):
        yield disk.after_power_loss(branches)
        if not branches.turn():
            return
    for _ in range(limit - limit // 2):
        yield disk.after_power_loss(rng)
