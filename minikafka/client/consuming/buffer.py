"""Fetch answers that wait to be taken, in the order of their arrival (pure)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from minikafka.client.consuming.fetched import Fetched
from minikafka.client.records import ConsumerRecord, FetchedBatches
from minikafka.errors import KafkaError

Taken = TypeVar("Taken")


class FetchBuffer:
    """Fetch answers, at most a few per partition (the fetcher bounds them).

    Answers of a paused partition, or of one whose new leader is being asked, stay. Stale answers are dropped.
    """

    def __init__(self) -> None:
        self._queue: list[Fetched] = []

    def __len__(self) -> int:
        """Number of waiting answers, including stale ones."""
        return len(self._queue)

    def add(self, fetched: Fetched) -> None:
        """Add it at the end; its position moves to the end of the answer."""
        assert not fetched.is_stale
        fetched.position.on_fetched(fetched.end)
        self._queue.append(fetched)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to ``limit`` records of one partition, in order; empty when no answer can be taken now.

        A damaged batch raises KafkaError, and its partition is fetched again from the user's position.
        """
        return self._first(lambda fetched: fetched.take(limit)) or []

    def take_batches(self) -> FetchedBatches | None:
        """The rest of the oldest available answer, as batches. Raises like :meth:`take`."""
        return self._first(Fetched.take_batches)

    def drop_stale(self) -> None:
        """Free the memory of stale answers."""
        self._queue = [fetched for fetched in self._queue if not fetched.is_stale]

    def _first(self, take: Callable[[Fetched], Taken | None]) -> Taken | None:
        index = 0
        while index < len(self._queue):
            fetched = self._queue[index]
            if fetched.is_stale:
                del self._queue[index]
            elif not fetched.position.may_be_read:
                index += 1
            elif taken := _take_from(fetched, take):
                if fetched.is_exhausted:
                    self._remove(index)
                return taken
            else:
                self._remove(index)
        return None

    def _remove(self, index: int) -> None:
        fetched = self._queue.pop(index)
        fetched.position.waiting -= 1


def _take_from(fetched: Fetched, take: Callable[[Fetched], Taken | None]) -> Taken | None:
    try:
        return take(fetched)
    except KafkaError:
        fetched.position.rewind()
        raise
