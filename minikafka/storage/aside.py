"""Renames directories that have a file's name, so that the file can be written again.

A foreign directory in a log directory must not stop a node: the file of that name counts as missing. Each is logged
once.
"""

from __future__ import annotations

from collections.abc import Container
from os.path import basename, dirname
from typing import Final

from minikafka.event_log import get_logger
from minikafka.records.batch import Buffer
from minikafka.storage.disk import Disk

log = get_logger()

CORRUPT_SUFFIX: Final = ".corrupt"
TEMPORARY_SUFFIX: Final = ".tmp"

_DIRECTORY: Final = "it is a directory"


def set_aside(disk: Disk, directory: str, name: str, why: str) -> None:
    """Rename ``name``, and log it."""
    path = f"{directory}/{name}"
    while disk.exists(path):
        path += CORRUPT_SUFFIX
    log.warning("no file of the log", path=f"{directory}/{name}", why=why, kept_as=path)
    disk.rename(f"{directory}/{name}", path)


def set_directories_aside(disk: Disk, directory: str, files: Container[str]) -> None:
    """Rename each directory that has the name of one of these files, or of a temporary one."""
    for name in disk.listdir(directory):
        if (name in files or name.endswith(TEMPORARY_SUFFIX)) and disk.is_dir(f"{directory}/{name}"):
            set_aside(disk, directory, name, _DIRECTORY)


def take_place(disk: Disk, temporary: str, path: str) -> None:
    """Rename a complete file to ``path``, and set a directory there aside. OSError when the disk refuses."""
    try:
        disk.rename(temporary, path)
    except IsADirectoryError:
        _clear(disk, path)
        disk.rename(temporary, path)


def replace_file(disk: Disk, path: str, data: Buffer) -> None:
    """The same with this content, durably: a crash leaves the old or the new file (or none in place of a directory)."""
    try:
        disk.write_atomic(path, data)
    except IsADirectoryError:
        _clear(disk, path, path + TEMPORARY_SUFFIX)
        disk.write_atomic(path, data)


def _clear(disk: Disk, *paths: str) -> None:
    for path in paths:
        if disk.is_dir(path):
            set_aside(disk, dirname(path), basename(path), _DIRECTORY)
