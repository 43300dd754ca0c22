"""A machine's disk in memory, for simulations: it outlives processes, and forgets what was not synced.

:class:`SimulatedDisk` is the machine's; :meth:`SimulatedDisk.mount` gives each process that runs on it the
:class:`~minikafka.storage.disk.Disk` that it works with. ``kill`` ends a process: what it wrote stays, in the page
cache. ``lose_power`` ends the machine: what was not synced may be there, torn or gone, by the crash model of
:mod:`minikafka.testing.inodes`.

Every system call that changes or syncs something is announced to the mount's ``before`` hook as an
:class:`Operation`. What the hook raises happens instead: an ``OSError`` is the disk's failure (a failed sync also lies
from then on, as Linux does), :class:`~minikafka.testing.killed.Killed` the end of the process just before the
operation, :class:`KilledInside` the end in the middle of an append.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from posixpath import dirname, normpath
from typing import Final, Literal, NamedTuple

from minikafka.records.batch import Buffer
from minikafka.storage.disk import DiskSpace
from minikafka.testing.inodes import Choices, Directory, Inode
from minikafka.testing.killed import Killed

DEFAULT_CAPACITY: Final = 1 << 40

Kind = Literal["create", "append", "truncate", "fsync", "fsync_dir", "rename", "unlink", "mkdir", "rmdir", "read"]


class Operation(NamedTuple):
    """A system call that is about to happen. ``size``: bytes to append or read, or the size to truncate to."""

    kind: Kind
    path: str
    size: int = 0
    data: bytes = b""  # to append


Hook = Callable[[Operation], None]


class KilledInside(Killed):
    """The process dies in the middle of an append, when ``written`` bytes of it had been handed over."""

    def __init__(self, written: int) -> None:
        super().__init__(written)
        self.written = written


class SimulatedDisk:
    """The disk of one machine, ``capacity`` bytes large. See the module."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        self.used = 0
        self._root = Directory()
        self.has_failed_sync = False
        """Some of what processes see may be missing after a power cut, whatever is synced from now on."""
        self._mounts: list[MountedDisk] = []
        self._locks: dict[str, MountedLock] = {}

    def mount(self, before: Hook | None = None, before_read: Hook | None = None) -> MountedDisk:
        """The disk as a new process sees it. ``before_read`` is told of reads of a file's bytes only."""
        mounted = MountedDisk(self, before, before_read)
        self._mounts.append(mounted)
        return mounted

    # -- what happens to the machine --------------------------------------------------------------------------------

    def kill(self) -> None:
        """The processes died: whatever they still do here raises Killed, their locks are free, their writes stay."""
        for mounted in self._mounts:
            mounted.is_dead = True
        self._mounts.clear()
        self._locks.clear()

    def lose_power(self, choices: Choices) -> None:
        """The machine stops, and all that was not synced with it, as ``choices`` (a ``random.Random``, say) will."""
        self.kill()
        self.has_failed_sync = False
        self._root = self._root.after_power_loss(choices)
        self.used = sum(len(inode.content) for _path, inode in self._files())

    def after_power_loss(self, choices: Choices) -> SimulatedDisk:
        """Another disk that holds what a power cut at this moment may leave; this one goes on."""
        return self._another(self._root.after_power_loss(choices))

    def copy(self) -> SimulatedDisk:
        """Another disk in the same state: what a process finds that starts when those on this one are killed."""
        return self._another(self._root.copy({}))

    def flip(self, path: str, position: int) -> None:
        """Damage one durable bit of a file."""
        self.inode(path).flip(position)

    def digest(self) -> bytes:
        """The same for two disks with the same directories and files as processes see them."""
        state = blake2b(digest_size=16)
        for path, node in self._walk(self._root, ""):
            if isinstance(node, Inode):
                state.update(f"{path}\0{len(node.content)}\0".encode())
                state.update(node.content)
            else:
                state.update(f"{path}/\0".encode())
        return state.digest()

    def files(self) -> dict[str, bytes]:
        """Every file's bytes by its path, in the order of paths."""
        return {path: bytes(inode.content) for path, inode in self._files()}

    # -- what mounts use --------------------------------------------------------------------------------------------

    def directory(self, path: str) -> Directory:
        """The directory at ``path``."""
        node = self.find(path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOENT if node is None else errno.ENOTDIR, path)
        return node

    def inode(self, path: str) -> Inode:
        """The file at ``path``."""
        node = self.find(path)
        if not isinstance(node, Inode):
            raise _error(errno.ENOENT if node is None else errno.EISDIR, path)
        return node

    def find(self, path: str) -> Directory | Inode | None:
        """What is at ``path``. Relative paths begin where absolute ones do."""
        node: Directory | Inode | None = self._root
        for name in _names(path):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(name)
        return node

    def take_lock(self, path: str, mounted: MountedDisk) -> MountedLock:
        """The lock file at ``path`` is held by a process from now on."""
        path = normpath(path)
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        lock = self._locks[path] = MountedLock(mounted, path)
        return lock

    def free_lock(self, lock: MountedLock) -> None:
        """Only its holder can free it."""
        if self._locks.get(lock.path) is lock:
            del self._locks[lock.path]

    def forget(self, inode: Inode) -> None:
        """The last name of a file is gone."""
        inode.is_linked = False
        self.used -= len(inode.content)

    def _another(self, root: Directory) -> SimulatedDisk:
        disk = SimulatedDisk(self.capacity)
        disk._root = root
        disk.used = sum(len(inode.content) for _path, inode in disk._files())
        return disk

    def _files(self) -> Iterator[tuple[str, Inode]]:
        return ((path, node) for path, node in self._walk(self._root, "") if isinstance(node, Inode))

    def _walk(self, directory: Directory, path: str) -> Iterator[tuple[str, Directory | Inode]]:
        for name, node in sorted(directory.entries.items()):
            below = f"{path}/{name}"
            yield below, node
            if isinstance(node, Directory):
                yield from self._walk(node, below)


class MountedFile:
    """An open file of one process."""

    __slots__ = ("_disk", "_inode", "_path")

    def __init__(self, disk: MountedDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode: Inode | None = inode

    def append(self, buffers: Sequence[Buffer]) -> None:
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
        self._write(inode, data)

    def _write(self, inode: Inode, data: bytes) -> None:
        """As much of it as there is room for; ENOSPC when that is not all."""
        platter, size = self._disk.platter, len(data)
        if inode.is_linked:
            size = min(size, platter.capacity - platter.used)
            platter.used += size
        if size == len(data):
            inode.append(data)
            return
        inode.append(data[:size])
        raise _error(errno.ENOSPC, self._path)

    def pread(self, size: int, position: int) -> bytes:
        inode, disk = self._open_inode(), self._disk
        if disk.is_dead:
            raise Killed
        if disk.before_read is not None:
            disk.before_read(Operation("read", self._path, size))
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
        try:
            self._disk.announce("fsync", self._path)
        except OSError:
            inode.sync(fails=True)
            self._disk.platter.has_failed_sync = True
            raise
        inode.sync()

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        self._inode = None

    def _open_inode(self) -> Inode:
        if self._inode is None:
            raise _error(errno.EBADF, self._path)
        return self._inode


class MountedLock:
    """A held lock; gone with its process."""

    def __init__(self, disk: MountedDisk, path: str) -> None:
        self.path = path
        self._disk = disk

    def release(self) -> None:
        self._disk.check_alive()
        self._disk.platter.free_lock(self)


class MountedDisk:
    """The disk of one process: a :class:`minikafka.storage.disk.Disk`."""

    def __init__(self, platter: SimulatedDisk, before: Hook | None, before_read: Hook | None) -> None:
        self.platter = platter
        self.is_dead = False
        self.before = before
        self.before_read = before_read

    def check_alive(self) -> None:
        """Killed when the process is dead."""
        if self.is_dead:
            raise Killed

    def announce(self, kind: Kind, path: str, size: int = 0) -> None:
        """The operation happens next, unless this raises."""
        if self.is_dead:
            raise Killed
        if self.before is not None:
            self.before(Operation(kind, path, size))

    # -- files ------------------------------------------------------------------------------------------------------

    def open_append(self, path: str) -> MountedFile:
        self.check_alive()
        directory, name = self._split(path)
        node = directory.entries.get(name)
        if node is None:
            self.announce("create", path)
            node = Inode()
            directory.change(name, node)
        if not isinstance(node, Inode):
            raise _error(errno.EISDIR, path)
        return MountedFile(self, path, node)

    def open_read(self, path: str) -> MountedFile:
        self.check_alive()
        return MountedFile(self, path, self.platter.inode(path))

    def read_bytes(self, path: str) -> bytes:
        file = self.open_read(path)
        return file.pread(file.size(), 0)

    def write_bytes(self, path: str, data: Buffer) -> None:
        file = self.open_append(path)
        if file.size():
            file.truncate(0)
        if data:
            file.append([data])

    def write_atomic(self, path: str, data: Buffer) -> None:
        temporary = path + ".tmp"
        self.write_bytes(temporary, data)
        self.fsync_path(temporary)
        self.rename(temporary, path)
        self.fsync_dir(dirname(path))

    def size(self, path: str) -> int:
        self.check_alive()
        return len(self.platter.inode(path).content)

    # -- durability -------------------------------------------------------------------------------------------------

    def fsync_path(self, path: str) -> None:
        if self.is_dir(path):
            self.fsync_dir(path)
        else:
            self.open_read(path).fsync()

    def fsync_dir(self, path: str) -> None:
        directory = self.platter.directory(path)
        try:
            self.announce("fsync_dir", path)
        except OSError:
            directory.sync(fails=True)
            self.platter.has_failed_sync = True
            raise
        directory.sync()

    # -- names ------------------------------------------------------------------------------------------------------

    def rename(self, source: str, target: str) -> None:
        self.announce("rename", source)
        directory, old = self._split(source)
        to, new = self._split(target)
        if to is not directory:
            raise _error(errno.EXDEV, target)
        node = directory.entries.get(old)
        if node is None:
            raise _error(errno.ENOENT, source)
        replaced = directory.entries.get(new)
        if isinstance(replaced, Directory) and (replaced.entries or isinstance(node, Inode)):
            raise _error(errno.ENOTEMPTY, target)
        if isinstance(replaced, Inode) and replaced is not node:
            self.platter.forget(replaced)
        directory.change(new, node, old)

    def unlink(self, path: str) -> None:
        self.check_alive()
        node = self.platter.find(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        if node is not None:
            self.announce("unlink", path)
            directory, name = self._split(path)
            directory.change(name, None)
            self.platter.forget(node)

    def mkdir(self, path: str) -> None:
        self.check_alive()
        if self.platter.find(path) is not None:
            self.platter.directory(path)
            return
        self.mkdir(dirname(path))
        self.announce("mkdir", path)
        directory, name = self._split(path)
        directory.change(name, Directory())

    def remove_tree(self, path: str) -> None:
        for name, node in list(self.platter.directory(path).entries.items()):
            below = f"{path}/{name}"
            if isinstance(node, Directory):
                self.remove_tree(below)
            else:
                self.unlink(below)
        self.announce("rmdir", path)
        directory, name = self._split(path)
        directory.change(name, None)

    def listdir(self, path: str) -> list[str]:
        self.check_alive()
        return sorted(self.platter.directory(path).entries)

    def exists(self, path: str) -> bool:
        self.check_alive()
        return self.platter.find(path) is not None

    def is_dir(self, path: str) -> bool:
        self.check_alive()
        return isinstance(self.platter.find(path), Directory)

    # -- the whole --------------------------------------------------------------------------------------------------

    def space(self, path: str) -> DiskSpace:
        self.platter.directory(path)
        return DiskSpace(total=self.platter.capacity, usable=self.platter.capacity - self.platter.used)

    def lock(self, path: str) -> MountedLock:
        self.open_append(path)
        return self.platter.take_lock(path, self)

    def run_all(self, jobs: Sequence[Callable[[], None]]) -> None:
        for job in jobs:
            job()

    def _split(self, path: str) -> tuple[Directory, str]:
        *parents, name = _names(path)
        directory = self.platter.find("/".join(parents))
        if not isinstance(directory, Directory):
            raise _error(errno.ENOENT if directory is None else errno.ENOTDIR, path)
        return directory, name


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
