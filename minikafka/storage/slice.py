"""What a log is read as: whole batches, as a region of a segment file that is ready for sendfile, or in memory."""

from __future__ import annotations

from typing import Final

from minikafka.storage.disk import File

_EMPTY = b""


class LogSlice:
    """``size`` bytes from ``position`` of an open file; readable as long as it is held, whatever becomes of the log."""

    __slots__ = ("_file", "content", "position", "size")

    def __init__(self, file: File | None, position: int, size: int) -> None:
        self.content: bytes | None = None
        """The bytes, where they are in memory."""
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


class MemorySlice(LogSlice):
    """Batches in memory: all that the log has from ``start_offset`` to ``end_offset``.

    They were written last, or stand for offsets of which compaction left nothing on the disk.
    """

    __slots__ = ("end_offset", "start_offset")

    def __init__(self, start_offset: int, end_offset: int, content: bytes) -> None:
        self.content = content
        self.position, self.size, self._file = 0, len(content), None
        self.start_offset: Final = start_offset
        self.end_offset: Final = end_offset

    def serves(self, start_offset: int, max_bytes: int, limit: int) -> bool:
        """Is it what may be read from there, up to ``limit``?"""
        return self.start_offset == start_offset and self.end_offset <= limit and self.size <= max_bytes

    def read(self) -> bytes:
        """The batches."""
        assert self.content is not None
        return self.content
