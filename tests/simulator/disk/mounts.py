"""A machine's disk as one process sees it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from posixpath import dirname
from typing import TYPE_CHECKING

from minikafka.records.batch import Buffer
from minikafka.storage.disk import PARALLEL_JOBS, DiskSpace
from simulator.disk.files import MountedFile
from simulator.disk.inodes import Directory, Inode
from simulator.disk.operations import Hook, Kind, Operation
from simulator.disk.paths import names_of, os_error
from simulator.killed import Killed

if TYPE_CHECKING:
    from simulator.disk.platter import SimulatedDisk


class MountedLock:
    """A held lock; gone with its process."""

    def __init__(self, disk: MountedDisk, path: str) -> None:
        self.path = path
        self._disk = disk

    def release(self) -> None:
        self._disk.check_alive()
        self._disk.platter.free_lock(self)


class MountedNames:
    """An open directory."""

    def __init__(self, disk: MountedDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def fsync(self) -> None:
        self._disk.sync_names(self._path)


class MountedDisk:
    """The disk of one process: a :class:`minikafka.storage.disk.Disk`."""

    def __init__(self, platter: SimulatedDisk, before: Hook | None, before_read: Hook | None) -> None:
        self.platter = platter
        self.is_dead = False
        self.jobs_at_once = 1
        """How many of :meth:`run_all` share the disk's time."""
        self.takes: Callable[[int], int] = lambda size: size
        """How many bytes, of so many, one write takes: at least one."""
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

    def announce_read(self, kind: Kind, path: str, size: int = 0) -> None:
        """As :meth:`announce`, of what changes nothing."""
        if self.is_dead:
            raise Killed
        if self.before_read is not None:
            self.before_read(Operation(kind, path, size))

    # -- files ------------------------------------------------------------------------------------------------------

    def open_append(self, path: str) -> MountedFile:
        self.announce_read("open", path)
        directory, name = self._split(path)
        if name not in directory.entries:
            self.announce("create", path)
            directory, name = self._split(path)  # whoever announces may have waited
        node = directory.entries.get(name)
        if node is None:
            node = Inode()
            directory.change(name, node)
        if not isinstance(node, Inode):
            raise os_error(errno.EISDIR, path)
        return MountedFile(self, path, node)

    def open_read(self, path: str) -> MountedFile:
        self.announce_read("open", path)
        return MountedFile(self, path, self.platter.inode(path))

    def open_slots(self, path: str) -> MountedFile:
        return self.open_read(path)

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
        try:
            self.write_bytes(temporary, data)
            self.fsync_path(temporary)
        except OSError:
            self.unlink(temporary)
            raise
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
        self.open_names(path).fsync()

    def open_names(self, path: str) -> MountedNames:
        self.announce_read("open", path)
        self.platter.directory(path)
        return MountedNames(self, path)

    def sync_names(self, path: str) -> None:
        """What a sync of an open directory does."""
        directory = self.platter.directory(path)
        covered = directory.changes
        try:
            self.announce("fsync_dir", path)
        except OSError:
            directory.sync(covered, fails=True)
            self.platter.has_failed_sync = True
            raise
        directory.sync(covered)

    # -- names ------------------------------------------------------------------------------------------------------

    def rename(self, source: str, target: str) -> None:
        self.announce("rename", source)
        directory, old = self._split(source)
        to, new = self._split(target)
        if to is not directory:
            raise os_error(errno.EXDEV, target)
        node = directory.entries.get(old)
        if node is None:
            raise os_error(errno.ENOENT, source)
        replaced = directory.entries.get(new)
        if isinstance(replaced, Directory) and isinstance(node, Inode):
            raise os_error(errno.EISDIR, target)
        if isinstance(replaced, Directory) and replaced.entries:
            raise os_error(errno.ENOTEMPTY, target)
        if isinstance(replaced, Inode) and replaced is not node:
            self.platter.forget(replaced)
        directory.change(new, node, old)

    def unlink(self, path: str) -> None:
        self.check_alive()
        if self.platter.find(path) is None:
            return
        self.announce("unlink", path)
        node = self.platter.find(path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        if node is not None:
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
        if name not in directory.entries:
            directory.change(name, Directory())

    def remove_tree(self, path: str) -> None:
        for name, node in list(self.platter.directory(path).entries.items()):
            below = f"{path}/{name}"
            if isinstance(node, Directory):
                self.remove_tree(below)
            else:
                self.unlink(below)
        self.announce("rmdir", path)
        if self.platter.directory(path).entries:
            raise os_error(errno.ENOTEMPTY, path)
        directory, name = self._split(path)
        directory.change(name, None)

    def listdir(self, path: str) -> list[str]:
        self.announce_read("open", path)
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
        return DiskSpace(total=self.platter.capacity, usable=self.platter.room_below(path))

    def reserve(self, path: str, size: int) -> None:
        """Files take no room here but for what they have."""

    def give_back(self, path: str) -> None:
        """As :meth:`reserve`."""

    def lock(self, path: str) -> MountedLock:
        self.open_append(path)
        return self.platter.take_lock(path, self)

    def run_all(self, jobs: Sequence[Callable[[], None]]) -> None:
        self.jobs_at_once = max(1, min(len(jobs), PARALLEL_JOBS))
        try:
            for job in jobs:
                job()
        finally:
            self.jobs_at_once = 1

    def _split(self, path: str) -> tuple[Directory, str]:
        *parents, name = names_of(path)
        directory = self.platter.find("/".join(parents))
        if not isinstance(directory, Directory):
            raise os_error(errno.ENOENT if directory is None else errno.ENOTDIR, path)
        return directory, name
