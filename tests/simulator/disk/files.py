"""An open file of one process."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from minikafka.records.batch import Buffer
from minikafka.storage import disk as system_disk
from simulator.disk.inodes import Inode
from simulator.disk.operations import KilledInside, Operation
from simulator.disk.paths import os_error
from simulator.killed import Killed

if TYPE_CHECKING:
    from simulator.disk.mounts import MountedDisk
    from simulator.kernel import Kernel


class MountedFile:
    """An open file of one process."""

    __slots__ = ("__weakref__", "_descriptor", "_disk", "_inode", "_path")

    kernel: ClassVar[Kernel | None] = None
    """By which the file has a descriptor."""

    def __init__(self, disk: MountedDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode: Inode | None = inode
        self._descriptor: int | None = None

    def append(self, buffers: Sequence[Buffer]) -> int:
        """As :class:`~minikafka.storage.disk.OsFile` does it, in as many system calls."""
        inode = self._open_inode()
        written = self._writev(buffers)
        if written != sum(map(len, buffers)):
            system_disk.write_rest(self._writev, buffers, written)
        return len(inode.content)

    def _writev(self, buffers: Sequence[Buffer]) -> int:
        """One system call: as much as there is room for, or less. ENOSPC where there is none."""
        data = bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)
        inode, disk = self._open_inode(), self._disk
        if disk.is_dead:
            raise Killed
        if disk.before is not None:
            try:
                disk.before(Operation("append", self._path, len(data), data))
            except KilledInside as end:
                self._write(inode, data[: end.written])
                raise
        return self._write(inode, data[: disk.takes(len(data))])

    def _write(self, inode: Inode, data: bytes) -> int:
        platter, size = self._disk.platter, len(data)
        if inode.is_linked:
            size = min(size, platter.room_behind(self._path, inode))
            platter.used += size
        if data and not size:
            raise os_error(errno.ENOSPC, self._path)
        inode.append(data[:size])
        return size

    def pwrite(self, data: bytes, position: int, /) -> int:
        inode, disk = self._open_inode(), self._disk
        if disk.is_dead:
            raise Killed
        if disk.before is not None:
            disk.before(Operation("overwrite", self._path, len(data), data))
        data = data[: disk.takes(len(data))]
        if inode.is_linked:
            grown = max(0, position + len(data) - len(inode.content))
            if grown > disk.platter.room_behind(self._path, inode):
                raise os_error(errno.ENOSPC, self._path)
            disk.platter.used += grown
        inode.overwrite(position, data)
        return len(data)

    def pread(self, size: int, position: int) -> bytes:
        inode = self._open_inode()
        self._disk.announce_read("read", self._path, size)
        if inode.unreadable and position < inode.unreadable.stop and position + size > inode.unreadable.start:
            raise os_error(errno.EIO, self._path)
        return bytes(memoryview(inode.content)[position : position + size])

    def truncate(self, size: int) -> None:
        inode = self._open_inode()
        self._disk.announce("truncate", self._path, size)
        if inode.is_linked:
            self._disk.platter.used += size - len(inode.content)
        inode.truncate(size)

    def size(self) -> int:
        inode = self._open_inode()
        self._disk.check_alive()
        return len(inode.content)

    def fsync(self) -> None:
        inode = self._open_inode()
        covered = inode.changes
        try:
            self._disk.announce("fsync", self._path)
        except OSError:
            inode.sync(covered, fails=True)
            self._disk.platter.has_failed_sync = True
            raise
        inode.sync(covered)

    def fileno(self) -> int | None:
        if self._descriptor is None and self.kernel is not None:
            self._descriptor = self.kernel.describe(self)
        return self._descriptor

    def close(self) -> None:
        self._inode = None

    def _open_inode(self) -> Inode:
        if self._inode is None:
            raise os_error(errno.EBADF, self._path)
        return self._inode
