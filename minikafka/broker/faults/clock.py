"""A wall clock that is wrong."""

from __future__ import annotations

from collections.abc import Callable


class WrongClock:
    """Seconds since the epoch, off by some, and more every second if it drifts. Monotonic time stays right."""

    def __init__(self, wall_s: Callable[[], float]) -> None:
        """``wall_s``: the right one."""
        self._wall_s = wall_s
        self._off_s = 0.0
        self._rate = 0.0
        self._since_s = wall_s()

    def __call__(self) -> float:
        now_s = self._wall_s()
        return now_s + self._off_s + (now_s - self._since_s) * self._rate

    def set(self, off_ms: int, drift: float = 0.0) -> None:
        """Wrong by ``off_ms`` from now on, and by ``drift`` seconds more (or less) every second."""
        self._since_s = self._wall_s()
        self._off_s = off_ms / 1000
        self._rate = drift

    @property
    def off_ms(self) -> int:
        """How wrong it is now."""
        return round(self._off_s * 1000 + (self._wall_s() - self._since_s) * self._rate * 1000)

    @property
    def is_wrong(self) -> bool:
        """False: it shows what the system's does."""
        return bool(self._off_s or self._rate)
