"""A member of a consumer group that counts what it is given and what is taken from it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from threading import Event, Thread
from typing import Any, Final, Self

from minikafka.chaos.lab.clients import IMPATIENT
from minikafka.chaos.rounds.reading import silent

_POLL_S: Final = 0.05


class GroupMember(Thread):
    """It is in the group from ``with`` to the end of the block. ``busy_s``: its work between two polls."""

    def __init__(self, servers: str, topic: str, busy_s: float, settings: Mapping[str, object]) -> None:
        super().__init__(daemon=True)
        from confluent_kafka import Consumer

        known = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", **IMPATIENT}
        self._consumer = Consumer({**known, **settings}, logger=silent())
        self._topic = topic
        self._busy_s = busy_s
        self._is_over = Event()
        self._idle_since: float | None = None
        self.held = 0
        """Partitions that it has now."""
        self.is_counting = False
        """What is taken from it now counts."""
        self.revoked = 0
        """Partitions that were taken from it."""
        self.idle_s = 0.0
        """How long it had none, in all."""
        self.longest_idle_s = 0.0

    def run(self) -> None:
        """The thread."""
        self._consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        while not self._is_over.wait(self._busy_s):
            self._consumer.consume(100, _POLL_S)
        self.is_counting = False
        self._consumer.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self.join()

    def _on_assign(self, _consumer: Any, partitions: list[Any]) -> None:
        self.held += len(partitions)
        if self._idle_since is not None and self.held:
            idle_s, self._idle_since = time.monotonic() - self._idle_since, None
            self.idle_s += idle_s
            self.longest_idle_s = max(self.longest_idle_s, idle_s)

    def _on_revoke(self, _consumer: Any, partitions: list[Any]) -> None:
        self.held -= len(partitions)
        if self.is_counting:
            self.revoked += len(partitions)
            if not self.held:
                self._idle_since = time.monotonic()
