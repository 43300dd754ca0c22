"""A disk in memory that, when the power goes, may forget or tear what was not synced.

Bytes: of the writes and truncations since a file's last sync, each may have happened or not, and a write may have
happened in some of its 512-byte sectors only; a file that grew over a gap has zeros there. Names: of what was created,
renamed and removed in a directory since its last sync, any first part may have happened. ``budget`` makes the power go
in the middle of things: after that many operations that change something, :class:`PowerCut` is raised by each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from posixpath import basename, dirname
from random import Random

from minikafka.records.batch import Buffer
from minikafka.storage.disk import DiskSpace

SECTOR = 512


class PowerCut(BaseException):
    """The process is gone; nothing may catch this."""


class Inode:
    """The content of a file: what is there, what is durable, and the changes between the two."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes] | int] = []  # writes (position, data), truncations (size)

    def write(self, position: int, data: bytes) -> None:
        _write(self.content, position, data)
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        _truncate(self.content, size)
        self.pending.append(size)

    def sync(self) -> None:
        self.durable = bytearray(self.content)
        self.pending.clear()

    def lose_power(self, rng: Random) -> None:
        for change in self.pending:
            fate = rng.random()
            if isinstance(change, int):
                if fate < 0.5:
                    _truncate(self.durable, change)
            elif fate < 0.4:
                _write(self.durable, *change)
            elif fate < 0.7:
                self._tear(change[0], change[1], rng)
        self.content = bytearray(self.durable)
        self.pending.clear()

    def _tear(self, position: int, data: bytes, rng: Random) -> None:
        end = position + len(data)
        for start in range(position - position % SECTOR, end, SECTOR):
            low, high = max(start, position), min(start + SECTOR, end)
            if rng.random() < 0.5:
                _write(self.durable, low, data[low - position : high - position])
        if rng.random() < 0.5 and len(self.durable) < end:
            self.durable.extend(bytes(end - len(self.durable)))


class ForgetfulFile:
    def __init__(self, disk: ForgetfulDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode

    def append(self, buffers: Sequence[Buffer]) -> None:
        data = b"".join(bytes(buffer) for buffer in buffers)
        self._disk.spend()
        self._inode.write(len(self._inode.content), data)

    def pread(self, size: int, position: int) -> bytes:
        return bytes(self._inode.content[position : position + size])

    def truncate(self, size: int) -> None:
        self._disk.spend()
        self._inode.truncate(size)

    def size(self) -> int:
        return len(self._inode.content)

    def fsync(self) -> None:
        self._disk.spend()
        self._inode.sync()

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        pass


class Directory:
    """Names in a directory; ``None`` stands for a directory below it."""

    def __init__(self) -> None:
        self.entries: dict[str, Inode | None] = {}
        self.durable: dict[str, Inode | None] = {}
        self.pending: list[Callable[[dict[str, Inode | None]], None]] = []

    def change(self, apply: Callable[[dict[str, Inode | None]], None]) -> None:
        apply(self.entries)
        self.pending.append(apply)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def lose_power(self, rng: Random) -> None:
        for apply in self.pending[: rng.randint(0, len(self.pending))]:
            apply(self.durable)
        self.entries = dict(self.durable)
        self.pending.clear()


class FreeLock:
    def release(self) -> None:
        pass


class ForgetfulDisk:
    """See the module."""

    def __init__(self) -> None:
        self._directories: dict[str, Directory] = {"": Directory(), "/": Directory()}
        self.budget: int | None = None

    # -- the power ----------------------------------------------------------------------------------------------------

    def spend(self) -> None:
        if self.budget is not None:
            if self.budget <= 0:
                raise PowerCut
            self.budget -= 1

    def lose_power(self, rng: Random) -> None:
        """What a restart finds. Open files are gone with their process."""
        self.budget = None
        for directory in self._directories.values():
            inodes = {id(inode): inode for inode in (*directory.durable.values(), *directory.entries.values()) if inode}
            for inode in inodes.values():
                inode.lose_power(rng)
        for directory in self._directories.values():
            directory.lose_power(rng)
        for path in sorted(self._directories):
            parent = self._directories.get(dirname(path))
            if path not in ("", "/") and (parent is None or basename(path) not in parent.entries):
                del self._directories[path]

    # -- the port -----------------------------------------------------------------------------------------------------

    def open_append(self, path: str) -> ForgetfulFile:
        directory, name = self._split(path)
        inode = directory.entries.get(name)
        if inode is None:
            self.spend()
            made = inode = Inode()
            directory.change(lambda entries: entries.__setitem__(name, made))
        return ForgetfulFile(self, inode)

    def open_read(self, path: str) -> ForgetfulFile:
        return ForgetfulFile(self, self._inode(path))

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._inode(path).content)

    def write_bytes(self, path: str, data: Buffer) -> None:
        file = self.open_append(path)
        file.truncate(0)
        file.append([data])

    def write_atomic(self, path: str, data: Buffer) -> None:
        self.write_bytes(path + ".tmp", data)
        self.open_append(path + ".tmp").fsync()
        self.rename(path + ".tmp", path)
        self.fsync_dir(dirname(path))

    def fsync_path(self, path: str) -> None:
        ForgetfulFile(self, self._inode(path)).fsync()

    def fsync_dir(self, path: str) -> None:
        self.spend()
        self._directories[path].sync()

    def rename(self, source: str, target: str) -> None:
        self.spend()
        directory, old = self._split(source)
        assert dirname(target) == dirname(source)
        new = basename(target)
        if old not in directory.entries:
            raise FileNotFoundError(source)
        directory.change(lambda entries: entries.__setitem__(new, entries.pop(old)) if old in entries else None)
        for path in [path for path in self._directories if path == source or path.startswith(source + "/")]:
            self._directories[target + path[len(source) :]] = self._directories.pop(path)

    def unlink(self, path: str) -> None:
        directory, name = self._split(path)
        if name in directory.entries:
            self.spend()
            directory.change(lambda entries: entries.pop(name, None) and None)

    def mkdir(self, path: str) -> None:
        if path in self._directories:
            return
        self.mkdir(dirname(path))
        self.spend()
        self._directories[dirname(path)].change(lambda entries: entries.__setitem__(basename(path), None))
        self._directories[path] = Directory()

    def remove_tree(self, path: str) -> None:
        self.spend()
        self._directories[dirname(path)].change(lambda entries: entries.pop(basename(path), None) and None)
        for below in [below for below in self._directories if below == path or below.startswith(path + "/")]:
            del self._directories[below]

    def listdir(self, path: str) -> list[str]:
        return sorted(self._directories[path].entries)

    def exists(self, path: str) -> bool:
        directory = self._directories.get(dirname(path))
        return directory is not None and basename(path) in directory.entries

    def is_dir(self, path: str) -> bool:
        return path in self._directories

    def size(self, path: str) -> int:
        return len(self._inode(path).content)

    def space(self, path: str) -> DiskSpace:
        return DiskSpace(2**40, 2**40)

    def lock(self, path: str) -> FreeLock:
        return FreeLock()

    def run_all(self, jobs: Sequence[Callable[[], None]]) -> None:
        for job in jobs:
            job()

    def _split(self, path: str) -> tuple[Directory, str]:
        directory = self._directories.get(dirname(path))
        if directory is None:
            raise FileNotFoundError(path)
        return directory, basename(path)

    def _inode(self, path: str) -> Inode:
        directory, name = self._split(path)
        inode = directory.entries.get(name)
        if inode is None:
            raise FileNotFoundError(path)
        return inode


def _write(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _truncate(content: bytearray, size: int) -> None:
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    del content[size:]
