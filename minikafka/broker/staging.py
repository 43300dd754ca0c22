"""Staged requests of a read event: at its end their batches are written, once per partition, and they are answered."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from minikafka.broker.replicas import Replicas

LARGE_AT_ONCE: Final = 8
"""Requests of very many batches that are staged at the same time: one of 5,000 takes 4 MB meanwhile."""


class Staged(Protocol):
    """A request whose batches are written at the end of the read event."""

    def on_written(self) -> None:
        """Its batches are in the log, or failed."""


class Staging:
    """The staged requests of one node, in the order in which they came."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._staged: list[Staged] = []
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)

    def add(self, request: Staged) -> None:
        """Its batches are staged in the replicas."""
        self._staged.append(request)

    def on_read_event_end(self) -> None:
        """A connection's frames were handled: write what they staged, then answer."""
        self._replicas.commit_staged()
        if self._staged:
            written, self._staged = self._staged, []
            for request in written:
                request.on_written()
