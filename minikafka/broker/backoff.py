"""Pauses before retries: with jitter where many nodes retry together, without where a node waits for itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

FIRST_PAUSE_S: Final = 0.1
LAST_PAUSE_S: Final = 5.0


def growing_pauses(last_s: float = LAST_PAUSE_S) -> Iterator[float]:
    """Seconds to wait, without an end: they double up to the last. For a shortage of this node, or an error in it."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, last_s)


class Backoff:
    """Delays that double from ``first_ms`` to ``last_ms``, each shortened at random by up to half."""

    __slots__ = ("_attempt", "_first_ms", "_last_ms", "_rng")

    def __init__(self, rng: random.Random, *, first_ms: int = 20, last_ms: int = 1000) -> None:
        self._rng = rng
        self._first_ms = first_ms
        self._last_ms = last_ms
        self._attempt = 0

    def next_s(self) -> float:
        """Seconds to wait before the next attempt."""
        ceiling_ms = min(self._last_ms, self._first_ms << min(self._attempt, 16))
        self._attempt += 1
        return ceiling_ms * (0.5 + self._rng.random() / 2) / 1000

    def reset(self) -> None:
        """The last attempt succeeded."""
        self._attempt = 0
