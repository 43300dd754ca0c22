"""Exponential back-off with jitter, for every retry in the node."""

from __future__ import annotations

import random


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
