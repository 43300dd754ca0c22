"""A disk that is full, slow to sync, or cannot be read, or that lies."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minikafka.broker.faults.platter import Platter
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
    is_lying: bool = False
    """It only says that it syncs: what is written from now on is lost when the node is killed, as if power went."""


class _TroubledFile(OsFile):
    __slots__ = ("_disk",)

    def __init__(self, fd: int, disk: TroubledDisk) -> None:
        super().__init__(fd)
        self._disk = disk

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._disk.on_write()
        return super().append(buffers)

    def pread(self, size: int, position: int) -> bytes:
        self._disk.on_read()
        return super().pread(size, position)

    def fsync(self) -> None:
        self._disk.on_sync()
        super().fsync()


class _TroubledSlots:
    __slots__ = ("_disk", "_file")

    def __init__(self, file: OsSlotFile, disk: TroubledDisk) -> None:
        self._file = file
        self._disk = disk

    def pwrite(self, data: bytes, position: int, /) -> int:
        self._disk.on_write()
        return self._file.pwrite(data, position)


class _TroubledNames:
    __slots__ = ("_disk", "_file")

    def __init__(self, file: OsNamesFile, disk: TroubledDisk) -> None:
        self._file = file
        self._disk = disk

    def fsync(self) -> None:
        self._disk.on_sync()
        self._file.fsync()


class TroubledDisk(OsDisk):
    """The system's file system, with ``trouble`` for all that is done through it."""

    def __init__(self, sleep: Callable[[float], None], platter: Platter) -> None:
        """``sleep``: for so many seconds, in the thread that syncs."""
        self.trouble = Trouble()
        self._sleep = sleep
        self._platter = platter

    def change(self, **changes: Any) -> None:
        """Change fields of its trouble. OSError: it cannot begin to lie."""
        trouble = replace(self.trouble, **changes)
        if trouble.is_lying and not self.trouble.is_lying:
            self._platter.begin()
        elif self.trouble.is_lying and not trouble.is_lying:
            self._platter.forget()
        self.trouble = trouble

    def on_write(self) -> None:
        """OSError when the disk is full."""
        if self.trouble.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def on_read(self) -> None:
        """OSError when it cannot be read."""
        if self.trouble.is_unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def on_sync(self) -> None:
        """Takes long when it is slow."""
        if self.trouble.sync_delay_ms:
            self._sleep(self.trouble.sync_delay_ms / 1000)

    def open_append(self, path: str) -> File:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return _TroubledFile(fd, self)

    def open_read(self, path: str) -> File:
        return _TroubledFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), self)

    def open_slots(self, path: str) -> SlotFile:
        return _TroubledSlots(OsSlotFile(os.open(path, os.O_WRONLY | os.O_CLOEXEC)), self)

    def open_names(self, path: str) -> NamesFile:
        return _TroubledNames(OsNamesFile(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)), self)

    def write_bytes(self, path: str, data: Buffer) -> None:
        self.on_write()
        super().write_bytes(path, data)

    def write_atomic(self, path: str, data: Buffer) -> None:
        self.on_write()
        self.on_sync()
        super().write_atomic(path, data)

    def fsync_path(self, path: str) -> None:
        self.on_sync()
        super().fsync_path(path)

    def mkdir(self, path: str) -> None:
        self.on_write()
        super().mkdir(path)

    def space(self, path: str) -> DiskSpace:
        space = super().space(path)
        return space._replace(usable=0) if self.trouble.is_full else space
