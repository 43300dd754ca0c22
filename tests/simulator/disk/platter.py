"""The disk of one machine in memory: what is on it, and what becomes of that."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from hashlib import blake2b
from posixpath import normpath
from typing import Final

from simulator.disk.inodes import Choices, Directory, Inode
from simulator.disk.mounts import MountedDisk, MountedLock
from simulator.disk.operations import Hook
from simulator.disk.paths import names_of, os_error

DEFAULT_CAPACITY: Final = 1 << 40


class SimulatedDisk:
    """The disk of one machine, ``capacity`` bytes large. See the module.

    ``block``: the unit of bytes in which files take new room. What is left of a file's last block is its own.
    ``short_below``: where the room is not more than the capacity says; elsewhere there is always some. ``spared``: how
    the names end of the files that always have room: it was reserved before.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        self.block = 1
        self.short_below = "/"
        self.spared: tuple[str, ...] = ()
        self.used = 0
        self._root = Directory()
        self.has_failed_sync = False
        """Some of what processes see may be missing after a power cut, whatever is synced from now on."""
        self._mounts: list[MountedDisk] = []
        self._locks: dict[str, MountedLock] = {}

    def mount(self, before: Hook | None = None, before_read: Hook | None = None) -> MountedDisk:
        """The disk as a new process sees it. ``before_read`` is told of what changes nothing: a file
        is opened, or its bytes are read."""
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
            raise os_error(errno.ENOENT if node is None else errno.ENOTDIR, path)
        return node

    def inode(self, path: str) -> Inode:
        """The file at ``path``."""
        node = self.find(path)
        if not isinstance(node, Inode):
            raise os_error(errno.ENOENT if node is None else errno.EISDIR, path)
        return node

    def find(self, path: str) -> Directory | Inode | None:
        """What is at ``path``. Relative paths begin where absolute ones do."""
        node: Directory | Inode | None = self._root
        for name in names_of(path):
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

    @property
    def is_short(self) -> bool:
        """It has less room than at first."""
        return self.capacity < DEFAULT_CAPACITY

    def room_below(self, path: str) -> int:
        """How many bytes files may take there."""
        if not path.startswith(self.short_below):
            return DEFAULT_CAPACITY
        return max(0, self.capacity - self.used) // self.block * self.block

    def room_behind(self, path: str, inode: Inode) -> int:
        """How many bytes longer the file at ``path`` may become."""
        if path.endswith(self.spared):
            return DEFAULT_CAPACITY
        return self.room_below(path) + -len(inode.content) % self.block

    def forget(self, inode: Inode) -> None:
        """The last name of a file is gone."""
        inode.is_linked = False
        self.used -= len(inode.content)

    def inodes_below(self, directory: Directory | None) -> list[Inode]:
        """The files in a directory and in those below it."""
        nodes = [] if directory is None else self._walk(directory, "")
        return [node for _path, node in nodes if isinstance(node, Inode)]

    def _another(self, root: Directory) -> SimulatedDisk:
        disk = SimulatedDisk(self.capacity)
        disk.block, disk.short_below, disk.spared = self.block, self.short_below, self.spared
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
