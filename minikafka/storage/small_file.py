"""A small file that is replaced as a whole, by any thread, several at once.

Whoever stores has a version of the content; versions grow in the order in which the content changed. Each writer makes
a file of its own, and one that was overtaken by a newer version does not take its place. So nobody waits for another,
and on return the version, or a newer one, is durable.
"""

from __future__ import annotations

from itertools import count
from os.path import dirname
from threading import Lock
from typing import Final

from minikafka.storage.aside import TEMPORARY_SUFFIX, take_place
from minikafka.storage.disk import Disk, NamesFile
from minikafka.storage.errors import is_passing


class UnreadableFileError(ValueError):
    """The disk does not give the content of a file back: it is as good as damaged."""


def read_small_file(disk: Disk, path: str) -> bytes:
    """All of a file. UnreadableFileError where the disk fails, as at a bad sector.

    FileNotFoundError; any other OSError says nothing about the file: the process may not read it, or is short of
    something.
    """
    try:
        return disk.read_bytes(path)
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:
        if is_passing(error):
            raise
        raise UnreadableFileError(str(error)) from error


REMOVED: Final = 2**63
"""Instead of a version: no other one is newer."""


class SmallFile:
    """See the module. ``durable_version``: what is there is at least as new; 0 while nothing is known."""

    __slots__ = ("_attempts", "_disk", "_named_version", "_renaming", "durable_version", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self.durable_version = 0
        self._disk = disk
        self.path = path
        self._named_version = 0  # of the file that has the name
        self._attempts = count()
        self._renaming = Lock()  # held for a rename, never while something is synced

    def found(self, version: int) -> None:
        """The file was read: it holds this version."""
        self.durable_version = self._named_version = version

    def store(self, version: int, content: bytes) -> None:
        """Make this version durable, unless a newer one is. OSError when the disk refuses."""
        if version <= self.durable_version:
            return
        temporary = f"{self.path}.{next(self._attempts)}{TEMPORARY_SUFFIX}"
        self._disk.write_bytes(temporary, content)
        self._disk.fsync_path(temporary)
        if not self._take_place(temporary, version):
            self._disk.unlink(temporary)
        self._disk.fsync_dir(dirname(self.path))
        self.durable_version = max(self.durable_version, version)

    def remove(self) -> None:
        """The file goes, durably, and no version takes its place any more. OSError when the disk refuses."""
        with self._renaming:
            self._named_version = REMOVED
            self._disk.unlink(self.path)
        self._disk.fsync_dir(dirname(self.path))

    def withdraw(self, version: int, names: NamesFile) -> None:
        """Until ``version`` takes its place there is no file, durably; older ones never do. It takes no descriptor."""
        with self._renaming:
            self._named_version = version - 1
            self._disk.unlink(self.path)
        names.fsync()

    def _take_place(self, temporary: str, version: int) -> bool:
        with self._renaming:
            if version <= self._named_version:
                return False
            take_place(self._disk, temporary, self.path)
            self._named_version = version
        return True
