"""Requests by API: how many, how long they took, and the errors in their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from minikafka.metrics.histogram import Histogram

BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
"""A fetch may wait for 0.5 s and more until there is something to fetch: its time is no sign of a slow broker."""


class ApiRequests(Histogram):
    """Answered requests of one API by their time in whole milliseconds, and the errors in the answers by code.

    The time of a request runs from the read event that completed it to its place in the connection's output, in the
    event loop's clock: the wait for replicas and for earlier answers is part of it.
    """

    __slots__ = ("errors", "name")

    def __init__(self, name: str) -> None:
        """``name``: as Kafka's ``request`` label has it."""
        super().__init__(BOUNDS_MS)
        self.name = name
        self.errors: Counter[int] = Counter()

    def note_errors(self, codes: Iterable[int]) -> None:
        """Error codes of an answer, without those that say that there is none."""
        self.errors.update(codes)


class Requests:
    """The requests of one node. An API that several listeners serve is counted once."""

    def __init__(self) -> None:
        self._by_name: dict[str, ApiRequests] = {}

    def of(self, name: str) -> ApiRequests:
        """The counters of that API."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = ApiRequests(name)
        return found

    def __iter__(self) -> Iterator[ApiRequests]:
        return iter(list(self._by_name.values()))
