"""What clients did and saw: an append-only list of events, written as JSON lines and judged by ``checker``.

One event is ``{"i": index, "t": ms since the start, "p": process, "type": ..., "f": ..., "v": ...}``.
``type`` is ``invoke`` (about to try), ``ok`` (happened), ``fail`` (certainly did not happen) or ``info`` (unknown, or
a remark). The functions and their values, with partitions named ``topic-partition``:

=============  ==========================================================================================
``send``       ``invoke``, ``fail``, ``info``: ``[[partition, id], ...]``; ``ok``: ``[[partition, id, offset], ...]``.
               The order within and among a process's invokes is the order in which it sent. Every id is sent
               once; its outcome is the later event that names it, and unknown when there is none.
``poll``       ``ok``: ``[[partition, id, offset], ...]`` in the order in which a consumer was handed them
``assign``     ``ok``: ``[partition, ...]``: that consumer's positions start anew; it must not skip from here on
``drained``    ``ok``: ``[partition, ...]``: that consumer read to the end after the last write
``end_offset`` ``ok``: ``[[partition, offset], ...]`` as a process saw it
``fault``      ``info``: what was broken or mended, in words
=============  ==========================================================================================
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import IO, Any, Literal, NamedTuple

EventType = Literal["invoke", "ok", "fail", "info"]


class Event(NamedTuple):
    """One line of a history (`i`, `t`, `p`, `type`, `f`, `v`)."""

    number: int
    time_ms: int
    process: str
    type: EventType
    function: str
    value: Any

    def to_json(self) -> str:
        """The event as one line of JSON, without the line's end."""
        i, t, p, kind, f, v = self
        return json.dumps({"i": i, "t": t, "p": p, "type": kind, "f": f, "v": v}, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Event:
        """The event of one line; raises ValueError naming what is wrong with it."""
        try:
            fields = json.loads(line)
            return cls(fields["i"], fields["t"], fields["p"], fields["type"], fields["f"], fields["v"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an event of a history: {line[:80]!r} ({error!r})") from error


class History:
    """Collects events from any thread, in one order; with a file, each is also written there as it comes."""

    def __init__(self, file: IO[str] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.events: list[Event] = []
        self._file = file
        self._clock = clock
        self._start = clock()
        self._lock = Lock()

    def append(self, process: str, type: EventType, function: str, value: Any) -> Event:
        """Add what `process` did or saw just now."""
        with self._lock:
            time_ms = int((self._clock() - self._start) * 1000)
            event = Event(len(self.events), time_ms, process, type, function, value)
            self.events.append(event)
            if self._file is not None:
                self._file.write(event.to_json() + "\n")
        return event


def read_history(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a JSONL history; an unfinished last line (its writer was killed) is left out."""
    for line in lines:
        if line.endswith("\n"):
            yield Event.from_json(line)
