"""The file ``durable-end`` of a log: up to where it was synced, exactly.

A recovery point that is checkpointed every minute says from where to recover, but not whether a damaged batch behind it
was ever durable: a power cut leaves holes in what was not synced, with whole batches behind them, and so does a disk
that goes bad. A log whose syncs others rely on record by record (the quorum's) therefore notes its end here after each
sync, durably, before anybody hears of that sync. Below the note, damage is corruption. At or above it lies only what
was promised to nobody: it may be cut, whatever lies behind.

Rows of 16 bytes, an offset and its complement, both int64; the largest counts, and before the log is cut the file is
made anew. Each row is synced before the next is written, and the first before the file has its name. So a crash damages
no row but the last of several. Other damage, or the loss of the file, is damage of the log: nobody can tell what was
synced.
"""

from __future__ import annotations

import struct
from typing import Final

import structlog

from minikafka.storage.aside import replace_file
from minikafka.storage.disk import Disk, File
from minikafka.storage.small_file import UnreadableFileError, read_small_file

log = structlog.get_logger(__name__)

DURABLE_END_FILE: Final = "durable-end"
ROWS_MAX: Final = 4096

_ROW: Final = struct.Struct(">qq")


def read_durable_end(disk: Disk, directory: str) -> int | None:
    """The offset below which the log in ``directory`` was synced; None where that is not noted, or not readable."""
    path = f"{directory}/{DURABLE_END_FILE}"
    try:
        data = read_small_file(disk, path)
    except FileNotFoundError:
        return None
    except UnreadableFileError as error:
        log.error("the durable end cannot be read", path=path, why=str(error))
        return None
    rows: list[tuple[int, int]] = list(_ROW.iter_unpack(data[: len(data) // _ROW.size * _ROW.size]))
    if len(rows) > 1 and not _is_sound(rows[-1]):
        rows.pop()
    if not rows or not all(map(_is_sound, rows)):
        log.error("the durable end cannot be read", path=path, why=f"a row of {len(data)} bytes is damaged")
        return None
    return max(offset for offset, _check in rows)


def _is_sound(row: tuple[int, int]) -> bool:
    offset, check = row
    return check == ~offset and offset >= 0


class DurableEnd:
    """Notes the durable end of one log, in any thread; of syncs that overlap, the one that covers most counts."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{DURABLE_END_FILE}"
        self._offset = read_durable_end(disk, directory)
        self._file: File | None = None
        self._rows = 0

    @property
    def is_known(self) -> bool:
        """False before :meth:`begin`, and where the file was lost."""
        return self._offset is not None

    def begin(self) -> None:
        """From now on it is noted: the log is new, or its owner has marked that nobody knows what was synced.

        What is noted becomes durable: a process that was killed may have left a row that is seen, but not synced.
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
        """What is at ``offset`` and above is about to be cut, or is lost and marked so."""
        if self._offset is not None and offset < self._offset:
            self._begin(offset)

    def _begin(self, offset: int) -> None:
        replace_file(self._disk, self._path, _row(offset))
        self._file, self._rows, self._offset = self._disk.open_append(self._path), 1, offset


def _row(offset: int) -> bytes:
    return _ROW.pack(offset, ~offset)
