"""Collects events of clients while they run. ``minikafka.ledger`` defines the events and judges them."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import IO, Any

from minikafka.ledger.events import Event, EventType


class History:
    """Collects events from any thread, in one order. With a file, it also writes each event.

    What is about to be done (``invoke``) is in the file before it is done, even if this process is killed then: what
    nobody had invoked would count as invented. Other events that a killed process had still to write are no loss.
    With ``keep=False`` it only writes them: a history may be larger than memory (``minikafka pipeline audit``).
    """

    def __init__(
        self, file: IO[str] | None = None, clock: Callable[[], float] = time.monotonic, *, keep: bool = True
    ) -> None:
        self.events: list[Event] = []
        self._number = 0
        self._keep = keep
        self._file = file
        self._clock = clock
        self._start = clock()
        self._lock = Lock()

    def now_ms(self) -> int:
        """Milliseconds since its start."""
        return int((self._clock() - self._start) * 1000)

    def append(self, process: str, type: EventType, function: str, value: Any) -> Event:
        """Add an event of `process`, at the present time."""
        with self._lock:
            time_ms = self.now_ms()
            event = Event(self._number, time_ms, process, type, function, value)
            self._number += 1
            if self._keep:
                self.events.append(event)
            if self._file is not None:
                self._file.write(event.to_json() + "\n")
                if type == "invoke":
                    self._file.flush()
        return event
