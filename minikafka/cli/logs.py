"""``minikafka cluster logs``: the logs of the nodes as one, by time."""

from __future__ import annotations

import heapq
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, BinaryIO, Final, NamedTuple

import typer

from minikafka.cli.cluster import open_cluster
from minikafka.cli.options import Directory
from minikafka.cli.output import print_json_line, print_note
from minikafka.cli.run import quiet_when_the_reader_leaves, raise_when_the_reader_has_left

FOLLOW_INTERVAL_S: Final = 0.2
_HEAD: Final = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:.]+Z?) \[(\w+)")
_COLOURS: Final = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}


class Level(StrEnum):
    """How grave a line is."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


LEVELS: Final = list(Level)


class Entry(NamedTuple):
    """A line of a log with what belongs to it, a traceback for instance."""

    timestamp: str
    node_id: int
    level: Level
    text: str


def logs(
    nodes: Annotated[
        list[int] | None, typer.Argument(metavar="[N]...", help="Node ids. Default: all.", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", help="Only the last lines.", min=0, show_default="all")
    ] = None,
    level: Annotated[Level, typer.Option(help="Only lines at least this grave.")] = Level.DEBUG,
    directory: Directory = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each entry as one line of JSON.")] = False,
) -> None:
    """Print the logs of the nodes, merged by time.

    Examples:

    [bold]minikafka cluster logs -f[/]

    [bold]minikafka cluster logs 2 --level warning[/]
    """
    cluster = open_cluster(directory)
    chosen = nodes or cluster.node_ids
    for node_id in chosen:
        cluster.check_node(node_id)
    files = {node_id: NodeLog(node_id, cluster.layout.log_file(node_id)) for node_id in chosen}
    print_entries = _print_json if as_json else _print
    with quiet_when_the_reader_leaves():
        entries = [entry for entry in _read(files.values()) if _is_wanted(entry, level)]
        print_entries(entries[-tail:] if tail else [] if tail == 0 else entries)
        while follow:
            sys.stdout.flush()
            time.sleep(FOLLOW_INTERVAL_S)
            raise_when_the_reader_has_left()
            print_entries(entry for entry in _read(files.values()) if _is_wanted(entry, level))


class NodeLog:
    """A node's log file, read on from where it was left; a file that took its place is read from its beginning."""

    def __init__(self, node_id: int, path: Path) -> None:
        self._node_id = node_id
        self._path = path
        self._file: BinaryIO | None = None
        self._is_left_out = False

    def read(self) -> list[Entry]:
        """The entries that have come since the last time. A file that cannot be read is left out, with a note."""
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return []
            except OSError as error:
                if not self._is_left_out:
                    print_note(f"the log of node {self._node_id} is left out: {error}")
                self._is_left_out = True
                return []
        entries = self._entries(self._file)
        if self._is_replaced():
            self._file.close()
            self._file = None
        return entries

    def _is_replaced(self) -> bool:
        assert self._file is not None
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return True

    def _entries(self, file: BinaryIO) -> list[Entry]:
        lines = file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):  # the node writes it just now
            file.seek(-len(lines.pop()), 1)
        heads = [(at, head) for at, line in enumerate(lines) if (head := _head(line)) is not None]
        found = []
        for (at, (timestamp, level)), (end, _) in pairwise([*heads, (len(lines), ("", Level.INFO))]):
            text = b"".join(lines[at:end]).decode(errors="replace").rstrip("\n")
            found.append(Entry(timestamp, self._node_id, level, text))
        return found


def _head(line: bytes) -> tuple[str, Level] | None:
    """Time and level of a line that begins an entry."""
    if match := _HEAD.match(line):
        return match[1].decode(), _level(match[2].decode())
    if line.startswith(b"{"):
        try:
            said = json.loads(line)
            return str(said["timestamp"]), _level(str(said["level"]))
        except (ValueError, KeyError, TypeError):
            return None
    return None


def _level(name: str) -> Level:
    try:
        return Level(name)
    except ValueError:
        return Level.INFO


def _read(files: Iterable[NodeLog]) -> Iterator[Entry]:
    return heapq.merge(*(file.read() for file in files), key=lambda entry: entry.timestamp)


def _is_wanted(entry: Entry, level: Level) -> bool:
    return LEVELS.index(entry.level) >= LEVELS.index(level)


def _print(entries: Iterable[Entry]) -> None:
    coloured = sys.stdout.isatty()
    for entry in entries:
        head = f"{entry.node_id} |"
        if coloured:
            head = f"\x1b[{_COLOURS[entry.level]}m{head}\x1b[0m"
        sys.stdout.write("".join(f"{head} {line}\n" for line in entry.text.split("\n")))


def _print_json(entries: Iterable[Entry]) -> None:
    for entry in entries:
        when = {"timestamp": _timestamp_ms(entry.timestamp)}
        print_json_line(when | {"node": entry.node_id, "level": entry.level.value, "text": entry.text})


def _timestamp_ms(text: str) -> int | None:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
