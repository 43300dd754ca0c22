"""The file ``durable-end`` of a log: its exact synced end.

The recovery point is checkpointed every minute. It does not tell whether a damaged batch after it was ever durable: a
power cut leaves holes in unsynced records, with whole batches after them, and so does a bad disk. In the quorum's log
every sync is a promise. So its end is noted here after each sync, durably, before the sync is acknowledged. Damage
below the noted end is corruption. Records at or above it were never acknowledged, and may be cut.

A row has 16 bytes: an offset and its complement, both int64. The largest row counts. Before a cut of the log the file
is written again. Each row is synced before the next one, and the first row before the file gets its name. So a crash
can damage only the last of several rows. Any other damage, or a missing file, is damage of the log: its synced end is
unknown.
"""

from __future__ import annotations

import struct
from typing import Final

from minikafka.event_log import get_logger
from minikafka.storage.aside import replace_file
from minikafka.storage.disk import Disk, File
from minikafka.storage.small_file import UnreadableFileError, read_small_file

log = get_logger()

DURABLE_END_FILE: Final = "durable-end"
ROWS_MAX: Final = 4096

_ROW: Final = struct.Struct(">qq")


def read_durable_end(disk: Disk, directory: str) -> int | None:
    """The synced end of the log in ``directory``; None when it is not noted, or unreadable."""
    path = f"{directory}/{DURABLE_END_FILE}"
    try:
        data = read_small_file(disk, path)
    except FileNotFoundError:
        return None
    except UnreadableFileError as error:
        log.error("the durable end cannot be read", path=path, why=str(error))
        return None
    try:
        return parse_durable_end(data)
    except ValueError as error:
        log.error("the durable end cannot be read", path=path, why=str(error))
        return None


def parse_durable_end(data: bytes) -> int:
    """The synced end in the file; ValueError when it is damaged."""
    rows: list[tuple[int, int]] = list(_ROW.iter_unpack(data[: len(data) // _ROW.size * _ROW.size]))
    if len(rows) > 1 and not _is_sound(rows[-1]):
        rows.pop()
    if not rows or not all(map(_is_sound, rows)):
        raise ValueError(f"a row of {len(data)} bytes is damaged")
    return max(offset for offset, _check in rows)


def _is_sound(row: tuple[int, int]) -> bool:
    offset, check = row
    return check == ~offset and offset >= 0


class DurableEnd:
    """Notes the durable end of one log, in any thread; of overlapping syncs the furthest counts."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{DURABLE_END_FILE}"
        self._offset = read_durable_end(disk, directory)
        self._file: File | None = None
        self._rows = 0

    @property
    def is_known(self) -> bool:
        """False before :meth:`begin`, and after a loss of the file."""
        return self._offset is not None

    def begin(self) -> None:
        """Begin to note the end: the log is new, or its owner has marked its synced end as unknown.

        Syncs the present rows: a killed process may have left one unsynced.
        """
        self._begin(self._offset or 0)

    def note(self, offset: int) -> None:
        """Everything below ``offset`` is synced; no effect before :meth:`begin`. OSError when the disk refuses."""
        if self._offset is None or offset <= self._offset:
            return
        if self._file is None or self._rows == ROWS_MAX:
            self._begin(offset)
            return
        self._file.append([_row(offset)])
        self._file.fsync()
        self._rows += 1
        self._offset = offset

    def lower(self, offset: int) -> None:
        """Records from ``offset`` on are about to be cut, or are lost and marked so."""
        if self._offset is not None and offset < self._offset:
            self._begin(offset)

    def _begin(self, offset: int) -> None:
        replace_file(self._disk, self._path, _row(offset))
        self._file, self._rows, self._offset = self._disk.open_append(self._path), 1, offset


def _row(offset: int) -> bytes:
    return _ROW.pack(offset, ~offset)
