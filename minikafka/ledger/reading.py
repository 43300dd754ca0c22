"""Lines of a history -> events. Damaged or missing lines are refused: a history that lacks one proves nothing. Pure.

The events of a file are numbered from 0 without a gap, one a line. Only a last line without its end is left out, as its
writer may have been killed in the middle of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from minikafka.ledger.events import Event, EventType, HistoryError

_SHOWN: Final = 80  # characters of a damaged line


class Line(msgspec.Struct):
    """What a line must have, each of its type."""

    i: int
    t: int
    p: str
    type: EventType
    f: str
    v: Any


_decode: Final = msgspec.json.Decoder(Line).decode


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
        processes, functions = dict[str, str](), dict[str, str]()  # each name once
        first = self.count
        for line in lines:
            if not line.endswith(b"\n"):
                self.unfinished.append(name)
                return
            event = _line(line, self.count)
            if event.i != self.count - first:
                raise HistoryError(
                    f"it holds event {event.i:,} where event {self.count - first:,} belongs: lines are missing, there "
                    "twice or in another order, so it proves nothing",
                    self.count,
                )
            process = processes.get(event.p) or processes.setdefault(event.p, prefix + event.p)
            function = functions.setdefault(event.f, event.f)
            yield Event(self.count, event.t, process, event.type, function, event.v)
            self.count += 1


def _line(line: bytes, number: int) -> Line:
    """A line, of the event with that number. Raises HistoryError."""
    try:
        return _decode(line)
    except msgspec.ValidationError as error:  # JSON, but one of another writer: it says what is wrong
        raise HistoryError(f"no event of a history: {_shown(line)!r}: {error}", number) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HistoryError(f"no event of a history: {_shown(line)!r}", number) from None


def _shown(line: bytes) -> str:
    return line[:_SHOWN].decode(errors="replace").rstrip()
