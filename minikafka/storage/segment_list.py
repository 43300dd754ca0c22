"""The file ``segments`` of a log: where its segments begin, how large the closed ones are, and what was aborted there.

A directory in which all files of a segment are missing looks like one in which retention or the cleaner was at work; a
file that was cut between two batches looks whole. So a log lists what it has. The list is used one way: a segment that
is listed and not there, or smaller, is damage. What is there and not listed is judged as if there were no list, and so
is everything when the list itself cannot be read.

A ``.txnindex`` that is missing, or was cut between two entries, looks right, too, and readers of committed records
would get what it lacks. The list has its checksum; one that differs is made again from the batches.

Hence the order of things. A segment is listed once its name is durable, and its size once all of it is: by a flush. It
is taken off the list, durably, before its files go: by retention, a cut, the cleaner, a recovery; and so is what it
says of one that is to shrink. Until that is over, no flush puts it on again. The aborted transactions of the active
segment are listed by an orderly stop; after any other one its batches tell them.

A log with its first segment alone has no list: were that missing, nothing would be there. It gets one, though empty,
before any of its files goes, and one when it stops orderly with aborted transactions. So a log without a list begins
where it always did, and one with two segments below its recovery point has one (``closed.check_unlisted``).

The first line is the CRC-32C of the rest, which has the form of Kafka's checkpoint files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from functools import partial
from typing import Final, NamedTuple

from crc32c import crc32c

from minikafka.event_log import get_logger
from minikafka.storage.checkpoints import DamagedCheckpointError, format_rows, parse_rows
from minikafka.storage.disk import Disk
from minikafka.storage.segments import Segments
from minikafka.storage.small_file import SmallFile, read_small_file
from minikafka.storage.transaction_index import UNKNOWN_CHECKSUM

SEGMENTS_FILE: Final = "segments"
UNKNOWN_SIZE: Final = -1


class Listed(NamedTuple):
    """What is known of a segment."""

    size: int = UNKNOWN_SIZE
    """Bytes; :data:`UNKNOWN_SIZE` of one that grows or may shrink."""
    aborted: int = UNKNOWN_CHECKSUM
    """Checksum of its aborted transactions, see :attr:`TransactionIndex.checksum`."""


UNKNOWN: Final = Listed()

Rows = dict[int, Listed]
"""By base offset, oldest first."""

_UNREADABLE: Final[Rows] = {}

log = get_logger()


class Listing(NamedTuple):
    """What a flush lists: call ``store``, in any thread, once names and batches are durable."""

    version: int
    store: Callable[[], None]


class Removal(NamedTuple):
    """Segments on their way out, and others that may shrink. Call ``store``, in any thread, before files change."""

    gone: frozenset[int]
    shrinking: frozenset[int]
    store: Callable[[], None]


class SegmentList:
    """What the list should say. All of it belongs to the event loop, but the functions that store."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Read the list; OSError when the disk refuses."""
        found = _read(disk, f"{directory}/{SEGMENTS_FILE}")
        self.was_readable = found is not None and found is not _UNREADABLE
        self._disk = disk
        self._file = SmallFile(disk, f"{directory}/{SEGMENTS_FILE}")
        self._noted = found  # the newest version; None: there is no file
        self._version = 0 if found is None else 1
        self._durable = found or {}  # never changed in place; of that, what no power cut takes away
        self._removals: list[Removal] = []
        self._looked_at = -1  # the version of the segments that the list is known to agree with
        self._file.found(self._version)

    @property
    def durable(self) -> Set[int]:
        """Base offsets of segments that are known to be there, with everything before them: a flush saw to that."""
        return self._durable.keys()

    def size_of(self, base_offset: int) -> int:
        """Bytes that the file of a segment has at least, as far as that is known."""
        return self._durable.get(base_offset, UNKNOWN).size

    def aborted_of(self, base_offset: int) -> int:
        """The checksum of a segment's aborted transactions, as far as that is known."""
        return self._durable.get(base_offset, UNKNOWN).aborted

    def prepare_store(self, segments: Segments, *, is_last: bool = False) -> Listing:
        """For a flush, which calls ``store`` last. Then :meth:`stored`. ``is_last``: nothing comes after it."""
        rows = self._other_rows(segments, is_last=is_last)
        if rows is not None:
            self._note(rows)
            self._looked_at = segments.version
        return Listing(self._version, self._storing())

    def stored(self, listing: Listing) -> None:
        """A flush has listed them."""
        if listing.version == self._version:  # nothing was taken off since
            self._durable = self._noted or {}

    def is_stale(self, segments: Segments) -> bool:
        """True when these segments are there, and the list does not say so."""
        return self._other_rows(segments) is not None

    def take_off(self, bases: Iterable[int], shrinking: Iterable[int] = ()) -> Removal:
        """The files of ``bases`` are to go, those of ``shrinking`` may be smaller soon; :meth:`gone` must follow."""
        gone, less = frozenset(bases), frozenset(shrinking)
        store = _nothing
        if gone or self._is_known(less):
            noted = self._noted or {}
            known = {base: self._durable[base] for base in noted if base in self._durable and base not in gone}
            self._durable = {base: UNKNOWN if base in less else row for base, row in known.items()}
            self._note(self._durable)
            store = self._storing()
        removal = Removal(gone, less, store)
        self._removals.append(removal)
        self._looked_at = -1
        return removal

    def remove(self, bases: Iterable[int], shrinking: Iterable[int] = ()) -> None:
        """The same, durably, here and now: the files are about to change, or did already."""
        removal = self.take_off(bases, shrinking)
        removal.store()
        self.gone(removal)

    def gone(self, removal: Removal) -> None:
        """It is over, one way or the other: a flush lists what is there."""
        self._removals = [other for other in self._removals if other is not removal]
        self._looked_at = -1

    def relocated(self, directory: str) -> None:
        """The log is now found in another directory, with its list."""
        version = self._file.durable_version
        self._file = SmallFile(self._disk, f"{directory}/{SEGMENTS_FILE}")
        self._file.found(version)

    def _is_known(self, bases: Iterable[int]) -> bool:
        return any(rows.get(base, UNKNOWN) != UNKNOWN for base in bases for rows in (self._noted or {}, self._durable))

    def _other_rows(self, segments: Segments, *, is_last: bool = False) -> Rows | None:
        """What the list should say instead. None: it is right; or there need not be one.

        A stop looks in any case: an index may have been made again since, and not quite as it was.
        """
        if not is_last and self._looked_at == segments.version:
            return None
        if self._noted is None and len(segments) < 2 and not (is_last and segments.active.known_aborted.are_there):
            return None
        rows = self._rows(segments, is_last=is_last)
        if rows != self._noted:
            return rows
        self._looked_at = segments.version
        return None

    def _note(self, rows: Rows) -> None:
        self._noted = rows
        self._version += 1

    def _storing(self) -> Callable[[], None]:
        return _nothing if self._noted is None else partial(_store, self._file, self._version, self._noted)

    def _rows(self, segments: Segments, *, is_last: bool = False) -> Rows:
        noted, rows = self._noted or {}, {}
        for segment in segments.closed:  # there may be tens of thousands: rows that are right are not made again
            row, known = noted.get(segment.base_offset), (segment.size, segment.known_aborted.checksum)
            rows[segment.base_offset] = row if row is not None and row == known else Listed(*known)
        active = segments.active
        aborted = noted.get(active.base_offset, UNKNOWN).aborted  # it is no reason to store the list
        rows[active.base_offset] = Listed(aborted=active.known_aborted.checksum if is_last else aborted)
        for removal in self._removals:
            rows.update((base, UNKNOWN) for base in removal.shrinking if base in rows)
            for base in removal.gone:
                rows.pop(base, None)
        return rows


def _nothing() -> None:
    """There is no list, or nothing to change."""


def _store(file: SmallFile, version: int, rows: Rows) -> None:
    if version > file.durable_version:
        content = format_rows((str(base), str(row.size), str(row.aborted)) for base, row in rows.items())
        file.store(version, f"{crc32c(content):08x}\n".encode() + content)


def parse_segments(data: bytes) -> Rows:
    """The list in the file; ValueError when it is damaged. It may be of a version that listed sizes alone."""
    crc, _, content = data.partition(b"\n")
    if int(crc, 16) != crc32c(content):
        raise DamagedCheckpointError("the checksum is wrong")
    rows: Rows = {}
    for base, size, *rest in parse_rows(content):
        (aborted,) = rest or [str(UNKNOWN_CHECKSUM)]
        rows[int(base)] = Listed(int(size), int(aborted))
    return rows


def _read(disk: Disk, path: str) -> Rows | None:
    """None when there is no list; one that cannot be read tells nothing, and is made anew."""
    try:
        return parse_segments(read_small_file(disk, path))
    except FileNotFoundError:
        return None
    except (DamagedCheckpointError, ValueError) as error:
        log.warning("list of segments unreadable", path=path, why=str(error), effect="ignored, and written again")
        return _UNREADABLE
