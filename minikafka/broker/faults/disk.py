"""A disk that is full, slow to sync, or cannot be read."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from minikafka.records.batch import Buffer
from minikafka.storage.disk import DiskSpace, File, NamesFile, OsDisk, OsFile, OsNamesFile, OsSlotFile, SlotFile


@dataclass(slots=True)
class Trouble:
    """Of one disk; at its defaults it has none."""

    is_full: bool = False
    """Nothing more can be written: ENOSPC."""
    sync_delay_ms: int = 0
    """So much longer each sync takes."""
    is_unreadable: bool = False
    """Reads of logs fail with EIO. What is sent to consumers without being read here still arrives."""

    def on_write(self) -> None:
        """OSError when the disk is full."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def on_read(self) -> None:
        """OSError when it cannot be read."""
        if self.is_unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def on_sync(self) -> None:
        """Takes long when it is slow."""
        if self.sync_delay_ms:
            time.sleep(self.sync_delay_ms / 1000)


class _TroubledFile(OsFile):
    __slots__ = ("_trouble",)

    def __init__(self, fd: int, trouble: Trouble) -> None:
        super().__init__(fd)
        self._trouble = trouble

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._trouble.on_write()
        return super().append(buffers)

    def pread(self, size: int, position: int) -> bytes:
        self._trouble.on_read()
        return super().pread(size, position)

    def fsync(self) -> None:
        self._trouble.on_sync()
        super().fsync()


class _TroubledSlots:
    __slots__ = ("_file", "_trouble")

    def __init__(self, file: OsSlotFile, trouble: Trouble) -> None:
        self._file = file
        self._trouble = trouble

    def pwrite(self, data: bytes, position: int, /) -> int:
        self._trouble.on_write()
        return self._file.pwrite(data, position)


class _TroubledNames:
    __slots__ = ("_file", "_trouble")

    def __init__(self, file: OsNamesFile, trouble: Trouble) -> None:
        self._file = file
        self._trouble = trouble

    def fsync(self) -> None:
        self._trouble.on_sync()
        self._file.fsync()


class TroubledDisk(OsDisk):
    """The system's file system, with ``trouble`` for all that is done through it."""

    def __init__(self) -> None:
        self.trouble = Trouble()

    def open_append(self, path: str) -> File:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return _TroubledFile(fd, self.trouble)

    def open_read(self, path: str) -> File:
        return _TroubledFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), self.trouble)

    def open_slots(self, path: str) -> SlotFile:
        return _TroubledSlots(OsSlotFile(os.open(path, os.O_WRONLY | os.O_CLOEXEC)), self.trouble)

    def open_names(self, path: str) -> NamesFile:
        return _TroubledNames(OsNamesFile(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)), self.trouble)

    def write_bytes(self, path: str, data: Buffer) -> None:
        self.trouble.on_write()
        super().write_bytes(path, data)

    def write_atomic(self, path: str, data: Buffer) -> None:
        self.trouble.on_write()
        self.trouble.on_sync()
        super().write_atomic(path, data)

    def fsync_path(self, path: str) -> None:
        self.trouble.on_sync()
        super().fsync_path(path)

    def mkdir(self, path: str) -> None:
        self.trouble.on_write()
        super().mkdir(path)

    def space(self, path: str) -> DiskSpace:
        space = super().space(path)
        return space._replace(usable=0) if self.trouble.is_full else space
