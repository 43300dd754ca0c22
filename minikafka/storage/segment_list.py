"""The file ``segments`` of a log: the base offsets of its segments.

A directory in which all files of a segment are missing looks like one in which retention or the cleaner was at work. So
a log lists what it has. The list is used one way: a segment that is listed and not there is damage. What is there and
not listed is judged as if there were no list, and so is everything when the list itself cannot be read.

Hence the order of things. A segment is listed once its name is durable, by a flush. It is taken off the list, durably,
before its files go: by retention, a cut, the cleaner, a recovery. Until they went, no flush puts it on again.

A log with its first segment alone has no list: were that missing, nothing would be there.

The first line is the CRC-32C of the rest, which has the form of Kafka's checkpoint files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from typing import Final, NamedTuple

import structlog
from crc32c import crc32c

from minikafka.storage.checkpoints import DamagedCheckpointError, format_checkpoint, parse_checkpoint
from minikafka.storage.disk import Disk
from minikafka.storage.small_file import SmallFile

SEGMENTS_FILE: Final = "segments"

log = structlog.get_logger(__name__)


class Removal(NamedTuple):
    """Segments on their way out. Call ``store``, in any thread, before their files go."""

    bases: frozenset[int]
    store: Callable[[], None]


class SegmentList:
    """What the list should say. All of it belongs to the event loop, but the functions that store."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Read the list; OSError when the disk refuses."""
        found = _read(disk, f"{directory}/{SEGMENTS_FILE}")
        self._disk = disk
        self._file = SmallFile(disk, f"{directory}/{SEGMENTS_FILE}")
        self._noted: Sequence[int] | None = found  # the newest version; None: there is no file
        self._version = 0 if found is None else 1
        self._durable = set(found or ())  # names of files that no power cut takes away
        self._leaving: list[Removal] = []
        self._file.found(self._version)

    @property
    def bases(self) -> Set[int]:
        """Of the segments that are known to be there, with everything before them: a flush saw to that."""
        return self._durable

    def prepare_store(self, bases: Sequence[int]) -> Callable[[], None]:
        """List these, once their names are durable: in any thread, by a flush."""
        if self.is_stale(bases):
            self._note(self._without_leaving(bases))
        return self._storing()

    def stored(self, bases: Iterable[int]) -> None:
        """A flush has listed them, and nothing was cut since it began."""
        self._durable.update(self._without_leaving(bases))

    def is_stale(self, bases: Sequence[int]) -> bool:
        """True when these segments are there, and the list does not say so."""
        if self._noted is None and len(bases) < 2:
            return False
        return self._noted != (self._without_leaving(bases) if self._leaving else bases)

    def take_off(self, bases: Iterable[int]) -> Removal:
        """The files of these are to go; :meth:`gone` must follow."""
        removed = frozenset(bases)
        self._durable -= removed
        if removed and self._noted is not None:
            self._note([base for base in self._noted if base in self._durable])
        removal = Removal(removed, self._storing() if removed else _nothing)
        self._leaving.append(removal)
        return removal

    def remove(self, bases: Iterable[int]) -> None:
        """Take these off durably, here and now: their files are about to go, or went already."""
        removal = self.take_off(bases)
        removal.store()
        self.gone(removal)

    def gone(self, removal: Removal) -> None:
        """The files went, or stay: a flush lists them again."""
        self._leaving = [other for other in self._leaving if other is not removal]

    def relocated(self, directory: str) -> None:
        """The log is now found in another directory, with its list."""
        version = self._file.durable_version
        self._file = SmallFile(self._disk, f"{directory}/{SEGMENTS_FILE}")
        self._file.found(version)

    def _note(self, bases: Sequence[int]) -> None:
        if bases != self._noted:
            self._noted = list(bases)
            self._version += 1

    def _storing(self) -> Callable[[], None]:
        if self._noted is None:
            return _nothing
        return partial(_store, self._file, self._version, self._noted)

    def _without_leaving(self, bases: Iterable[int]) -> list[int]:
        return [base for base in bases if not any(base in removal.bases for removal in self._leaving)]


def _nothing() -> None:
    """There is no list."""


def _store(file: SmallFile, version: int, bases: Sequence[int]) -> None:
    if version > file.durable_version:
        content = format_checkpoint([str(base)] for base in bases)
        file.store(version, f"{crc32c(content):08x}\n".encode() + content)


def _read(disk: Disk, path: str) -> list[int] | None:
    """None when there is no list; one that cannot be read tells nothing, and is made anew."""
    try:
        crc, _, content = disk.read_bytes(path).partition(b"\n")
        if int(crc, 16) != crc32c(content):
            raise DamagedCheckpointError("the checksum is wrong")
        return [int(base) for (base,) in parse_checkpoint(content)]
    except FileNotFoundError:
        return None
    except (DamagedCheckpointError, ValueError) as error:
        log.warning("list of segments unreadable", path=path, why=str(error), effect="it is made anew")
        return []
