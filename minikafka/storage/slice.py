"""What a log is read as: a region of a segment file that holds whole batches, ready for sendfile."""

from __future__ import annotations

from typing import Final

from minikafka.storage.disk import File

_EMPTY = b""


class LogSlice:
    """``size`` bytes from ``position`` of an open file; readable as long as it is held, whatever becomes of the log."""

    __slots__ = ("_file", "position", "size")

    def __init__(self, file: File | None, position: int, size: int) -> None:
        self._file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int | None:
        """The descriptor for sendfile; None where there is no real file."""
        return None if self._file is None else self._file.fileno()

    def is_of(self, file: File | None) -> bool:
        """True when it is a region of that file."""
        return self._file is not None and self._file is file

    def read(self) -> bytes:
        """The bytes; fewer if the log was cut under the slice."""
        if self._file is None or self.size == 0:
            return _EMPTY
        return self._file.pread(self.size, self.position)

    def release(self) -> None:
        """Let go of the file; the last holder of a deleted segment frees its disk space."""
        self._file = None


class GapSlice(LogSlice):
    """A batch in memory, for the offsets up to ``end_offset`` of which compaction left none on the disk."""

    __slots__ = ("_batch", "end_offset")

    def __init__(self, batch: bytes, end_offset: int) -> None:
        super().__init__(None, 0, len(batch))
        self._batch: Final = batch
        self.end_offset: Final = end_offset

    def read(self) -> bytes:
        """The batch."""
        return self._batch
