"""Lines of a history -> events. Damaged or missing lines are refused: a history that lacks one proves nothing. Pure.

The events of a file are numbered from 0 without a gap, one a line. Only a last line without its end is left out, as its
writer may have been killed in the middle of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from minikafka.ledger.events import Event, HistoryError

TYPES: Final = {kind: kind for kind in ("invoke", "ok", "fail", "info")}
_SHOWN: Final = 80  # characters of a damaged line
_decode: Final = json.JSONDecoder().raw_decode  # half the time of json.loads


class HistoryReader:
    """Iterates over the events of the files of a history, whose numbers go on from file to file.

    With several files the name of a file stands before the names of its processes. Iterating raises HistoryError.
    """

    def __init__(self, files: Iterable[tuple[str, Iterable[bytes]]]) -> None:
        """``files``: name and lines of each."""
        self._files = list(files)
        self._firsts: list[int] = []  # number of the first event of each file that was begun
        self.count = 0
        self.unfinished: list[str] = []  # files whose last line has no end

    def __iter__(self) -> Iterator[Event]:
        for name, lines in self._files:
            self._firsts.append(self.count)
            yield from self._events(f"{name}:" if len(self._files) > 1 else "", name, lines)

    def place(self, number: int) -> str:
        """``history.jsonl, line 8``, of an event by its number."""
        at = max(index for index, first in enumerate(self._firsts) if first <= number)
        return f"{self._files[at][0]}, line {number - self._firsts[at] + 1:,}"

    def _events(self, prefix: str, name: str, lines: Iterable[bytes]) -> Iterator[Event]:
        names: dict[str, str] = {}  # of processes and functions, each once
        first = self.count
        for line in lines:
            if not line.endswith(b"\n"):
                self.unfinished.append(name)
                return
            number, time_ms, process, kind, function, value = _fields(line, self.count)
            if number != self.count - first:
                raise HistoryError(
                    f"it holds event {number:,} where event {self.count - first:,} belongs: lines are missing, there "
                    "twice or in another order, so it proves nothing",
                    self.count,
                )
            process = names.get(process) or names.setdefault(process, prefix + process)
            yield Event(self.count, time_ms, process, kind, names.setdefault(function, function), value)
            self.count += 1


def _fields(line: bytes, number: int) -> tuple[int, int, str, Any, str, Any]:
    """Those of an event. Raises HistoryError."""
    try:
        event, end = _decode(text := str(line, "utf-8"))
        i, t, p, f = event["i"], event["t"], event["p"], event["f"]
        kind = TYPES[event["type"]]
        if type(i) is type(t) is int and type(p) is type(f) is str and text[end:].isspace():
            return i, t, p, kind, f, event["v"]
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    raise HistoryError(f"no event of a history: {line[:_SHOWN].decode(errors='replace').rstrip()!r}", number)
