"""The port to a file system, and the operating system behind it.

Everything storage does to files goes through :class:`Disk` and :class:`File`, so that a disk that forgets what was
not synced, or tears it, can stand in. Failures are ``OSError``. A directory entry (a created, renamed or removed
name) is durable only after :meth:`Disk.fsync_dir` of its directory; bytes only after :meth:`File.fsync`.

ENOSPC and EDQUOT say that a write was refused, and that what was written before is there. A sync that lacks room has
lost what was written: it fails with EIO.

A file that slices of a log may still refer to is never closed by name: its holders drop it, and the descriptor is
closed with the last of them. A descriptor closed early would be reused by another file while a reply is being sent.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from minikafka.records.batch import Buffer
from minikafka.storage import preallocation
from minikafka.storage.errors import is_full

MAX_BUFFERS_PER_WRITE = 1024  # IOV_MAX on Linux and macOS
PARALLEL_JOBS = 16

_fdatasync = getattr(os, "fdatasync", os.fsync)


def _synced(sync: Callable[[int], None], fd: int) -> None:
    """EIO in place of an error that would say that all is there."""
    try:
        sync(fd)
    except OSError as error:
        if is_full(error):
            raise OSError(errno.EIO, f"{os.strerror(errno.EIO)} (at a sync: {error.strerror})") from error
        raise


class DiskSpace(NamedTuple):
    """Bytes of the file system that a directory is on."""

    total: int
    usable: int


class File(Protocol):
    """An open file. Appends go to its end whatever else happens to it."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end, in order; where the file ends now."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from ``position``; shorter only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...
    def size(self) -> int: ...
    def fsync(self) -> None: ...
    def fileno(self) -> int | None:
        """The descriptor, for sendfile; None where there is no real file."""
        ...

    def close(self) -> None: ...


class SlotFile(Protocol):
    """An open file whose parts are written over in place; closed with its last holder."""

    def pwrite(self, data: bytes, position: int, /) -> int:
        """Write at ``position``, making the file longer if need be; how many bytes, which may be only a part.

        :func:`write_rest_at` goes on.
        """
        ...


class NamesFile(Protocol):
    """An open directory, for whoever must not be short of a descriptor once its names have changed."""

    def fsync(self) -> None:
        """As :meth:`Disk.fsync_dir`."""
        ...


class Lock(Protocol):
    """A held lock on a directory."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute or relative strings."""

    def open_append(self, path: str) -> File:
        """Open for reading and appending; created empty when absent."""
        ...

    def open_read(self, path: str) -> File: ...
    def open_slots(self, path: str) -> SlotFile:
        """Open for writing in place, which ``open_append`` does not allow; it must be there."""
        ...

    def read_bytes(self, path: str) -> bytes: ...
    def write_bytes(self, path: str, data: Buffer) -> None:
        """Replace the content. Not atomic and not durable."""
        ...

    def write_atomic(self, path: str, data: Buffer) -> None:
        """Replace the content so that any crash leaves the old or the new one; durable on return."""
        ...

    def fsync_path(self, path: str) -> None: ...
    def fsync_dir(self, path: str) -> None: ...
    def open_names(self, path: str) -> NamesFile:
        """Open a directory; closed with its last holder."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename, replacing a file at ``target``."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file; absent is fine."""
        ...

    def mkdir(self, path: str) -> None:
        """Create a directory and its parents; present is fine."""
        ...

    def remove_tree(self, path: str) -> None: ...
    def listdir(self, path: str) -> list[str]: ...
    def exists(self, path: str) -> bool: ...
    def is_dir(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def space(self, path: str) -> DiskSpace: ...
    def reserve(self, path: str, size: int) -> None:
        """Take room for a file of ``size`` bytes, which keeps its length; as far as the disk can."""
        ...

    def give_back(self, path: str) -> None:
        """Let go of the room behind the end of a file that nobody writes to any more."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock file at ``path``; BlockingIOError when another holder lives."""
        ...

    def run_all(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run jobs that wait for this disk, at once if it can: syncs of many files then share its journal's writes."""
        ...


def write_rest(writev: Callable[[Sequence[Buffer]], int], buffers: Sequence[Buffer], written: int) -> None:
    """Go on after a short write of ``buffers``; one that makes no progress is a full disk."""
    rest = [memoryview(buffer) for buffer in buffers]
    while True:
        while rest and written >= len(rest[0]):
            written -= len(rest[0])
            del rest[0]
        if not rest:
            return
        rest[0] = rest[0][written:]
        written = writev(rest)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_rest_at(pwrite: Callable[[bytes, int], int], data: bytes, position: int, written: int) -> None:
    """The same for a write at ``position``, of which ``written`` bytes are there."""
    while written < len(data):
        more = pwrite(data[written:], position + written)
        if more == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += more


class OsFile:
    """A descriptor opened with O_APPEND or O_RDONLY."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def append(self, buffers: Sequence[Buffer]) -> int:
        if len(buffers) == 1:
            buffer = buffers[0]
            written = os.write(self._fd, buffer)
            if written != len(buffer):
                write_rest(partial(os.writev, self._fd), buffers, written)
        else:
            for start in range(0, len(buffers), MAX_BUFFERS_PER_WRITE):
                some = buffers[start : start + MAX_BUFFERS_PER_WRITE]
                written = os.writev(self._fd, some)
                if written != sum(map(len, some)):
                    write_rest(partial(os.writev, self._fd), some, written)
        return os.lseek(self._fd, 0, os.SEEK_CUR)

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        size -= len(data)
        position += len(data)
        while size and (data := os.pread(self._fd, size, position)):
            parts.append(data)
            size -= len(data)
            position += len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def fsync(self) -> None:
        _synced(_fdatasync, self._fd)

    def fileno(self) -> int | None:
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class OsSlotFile:
    """A descriptor opened without O_APPEND, with which Linux ignores positions."""

    __slots__ = ("_fd", "pwrite")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.pwrite = partial(os.pwrite, fd)  # a call less for each write of a log

    def __del__(self) -> None:
        os.close(self._fd)


class OsNamesFile:
    """A descriptor of a directory."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fsync(self) -> None:
        _synced(os.fsync, self._fd)

    def __del__(self) -> None:
        os.close(self._fd)


class OsLock:
    """An exclusive ``flock``, which goes with the process that holds it."""

    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            fcntl.flock(fd, fcntl.LOCK_UN)  # also for a child that was forked meanwhile
            os.close(fd)


class OsDisk:
    """The operating system's file system."""

    def open_append(self, path: str) -> File:
        return OsFile(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def open_read(self, path: str) -> File:
        return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def open_slots(self, path: str) -> SlotFile:
        return OsSlotFile(os.open(path, os.O_WRONLY | os.O_CLOEXEC))

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def write_bytes(self, path: str, data: Buffer) -> None:
        self._write(path, data, durable=False)

    def write_atomic(self, path: str, data: Buffer) -> None:
        temporary = path + ".tmp"
        try:
            self._write(temporary, data, durable=True)
        except OSError:
            self.unlink(temporary)  # a disk that is full needs the room
            raise
        os.replace(temporary, path)
        self.fsync_dir(os.path.dirname(path))

    def fsync_path(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _synced(os.fsync, fd)
        finally:
            os.close(fd)

    def fsync_dir(self, path: str) -> None:
        self.fsync_path(path or ".")

    def open_names(self, path: str) -> NamesFile:
        return OsNamesFile(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def mkdir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def space(self, path: str) -> DiskSpace:
        stat = os.statvfs(path)
        return DiskSpace(total=stat.f_blocks * stat.f_frsize, usable=stat.f_bavail * stat.f_frsize)

    def reserve(self, path: str, size: int) -> None:
        with suppress(OSError):  # not by every file system; and the disk may be full: who writes finds out
            preallocation.reserve(path, size, self.space(path).usable)

    def give_back(self, path: str) -> None:
        with suppress(OSError):
            preallocation.give_back(path)

    def lock(self, path: str) -> Lock:
        return OsLock(path)

    def run_all(self, jobs: Sequence[Callable[[], None]]) -> None:
        with ThreadPoolExecutor(PARALLEL_JOBS, thread_name_prefix="disk") as pool:
            for future in [pool.submit(job) for job in jobs]:
                future.result()

    def _write(self, path: str, data: Buffer, *, durable: bool) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        file = OsFile(fd)
        try:
            file.append([data])
            if durable:
                file.fsync()
        finally:
            file.close()
