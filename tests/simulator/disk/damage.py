"""What media do by themselves: bytes that change, files cut, emptied or lost, sectors that cannot be read.

Processes that have the file open see it at once, and nothing of it is undone by a power cut. Bytes that were read
wrong, or not at all, may be read right again one day (:func:`let_pass`): the cable was bad, not the medium.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from posixpath import split
from typing import Final, Literal

from simulator.disk.inodes import SECTOR, Choices, Directory, Inode
from simulator.disk.paths import os_error
from simulator.disk.platter import SimulatedDisk

How = Literal[
    "flipped", "zeroed", "garbled", "cut", "emptied", "lost", "unreadable", "foreign", "older", "displaced", "restored"
]
HOWS: Final[tuple[How, ...]] = ("flipped", "zeroed", "garbled", "cut", "emptied", "lost", "unreadable")


@dataclass(frozen=True, slots=True)
class Damage:
    """What was done to a file or a directory. ``start`` and ``stop``: which bytes of a file are not what they were."""

    path: str
    how: How
    start: int = 0
    stop: int = 0
    before: bytes = field(default=b"", repr=False)
    """What stood where bytes were changed in place."""
    after: bytes = field(default=b"", repr=False)

    def __str__(self) -> str:
        where = f" from {self.start} to {self.stop}" if self.stop else ""
        return f"{self.path} is {self.how}{where}"


def damage(
    disk: SimulatedDisk, path: str, how: How, choices: Choices, *, of_last: int | None = None, at: int | None = None
) -> Damage:
    """Damage a file, or lose a directory with everything in it. OSError when there is nothing at ``path``.

    ``of_last``: only the last so many bytes of the file may be. ``at``: cut it exactly there, or flip a bit there.
    """
    node = disk.find(path)
    if node is None:
        raise os_error(errno.ENOENT, path)
    if isinstance(node, Directory) or how == "lost":
        return _lose(disk, path)
    content = node.content
    first = 0 if of_last is None else max(0, len(content) - of_last)
    if how in ("emptied", "cut") or not content:
        size = 0 if how == "emptied" or not content else at
        if size is None:
            size = first + choices.randrange(len(content) - first)
        return _cut(disk, node, path, how, size)
    start, stop = _range(first, len(content), how, choices) if at is None else (at, at + 1)
    if how == "unreadable":
        node.unreadable = range(start, stop)
        return Damage(path, how, start, stop)
    changed = bytearray(content)
    for position in range(start, stop):
        changed[position] = _changed(changed[position], how, choices)
    done = Damage(path, how, start, stop, bytes(content[start:stop]), bytes(changed[start:stop]))
    node.become(changed)
    return done


def plant(disk: SimulatedDisk, path: str) -> Damage:
    """An empty file appears that nobody made, as a file system's repair may leave one."""
    parent, name = split(path)
    directory = disk.directory(parent)
    directory.entries[name] = directory.durable[name] = Inode()
    return Damage(path, "foreign")


def roll_back(disk: SimulatedDisk, path: str, older: bytes) -> Damage:
    """A file is as it once was: a write that the medium forgot, or a backup that somebody put back."""
    node = disk.inode(path)
    before = len(node.content)
    disk.used += len(older) - before
    node.become(older)
    return Damage(path, "older", min(len(older), before), before)


def restore(disk: SimulatedDisk, path: str, older: Mapping[str, bytes]) -> Damage:
    """A directory has exactly the files that it once had. ``older``: what was in them, by name."""
    if disk.find(path) is not None:
        _lose(disk, path)
    parent, name = split(path)
    outer = disk.directory(parent)
    restored = outer.entries[name] = outer.durable[name] = Directory()
    for name, content in older.items():
        restored.entries[name] = restored.durable[name] = Inode(bytearray(content))
        disk.used += len(content)
    return Damage(path, "restored")


def keep(disk: SimulatedDisk, path: str) -> Directory:
    """A copy of a directory with everything in it. All of it is durable where it is put."""
    return _durable(disk.directory(path))


def put_back(disk: SimulatedDisk, path: str, kept: Directory) -> None:
    """A directory is the one that was kept, whatever is there now."""
    _lose(disk, path)
    parent, name = split(path)
    outer = disk.directory(parent)
    outer.entries[name] = outer.durable[name] = kept
    disk.used += sum(len(inode.content) for inode in disk.inodes_below(kept))


def displace(disk: SimulatedDisk, path: str) -> Damage:
    """There is an empty directory in the place of a file."""
    done = _lose(disk, path)
    parent, name = split(path)
    directory = disk.directory(parent)
    directory.entries[name] = directory.durable[name] = Directory()
    return Damage(done.path, "displaced")


def let_pass(disk: SimulatedDisk, done: Damage) -> bool:
    """Bytes that were changed in place, or unreadable, are what they were, if they are as the damage left them.

    True if so.
    """
    node = disk.find(done.path)
    if done.how == "unreadable" and isinstance(node, Inode) and node.unreadable == range(done.start, done.stop):
        node.unreadable = range(0)
        return True
    if not done.after or not isinstance(node, Inode) or node.content[done.start : done.stop] != done.after:
        return False
    content = bytearray(node.content)
    content[done.start : done.stop] = done.before
    node.become(content)
    return True


def _durable(directory: Directory) -> Directory:
    copy = Directory()
    for name, node in directory.entries.items():
        entry = Inode(bytearray(node.content)) if isinstance(node, Inode) else _durable(node)
        copy.entries[name] = copy.durable[name] = entry
    return copy


def _range(first: int, size: int, how: How, choices: Choices) -> tuple[int, int]:
    """Which bytes: a single one, or those of some sectors in a row."""
    position = first + choices.randrange(size - first)
    if how == "flipped":
        return position, position + 1
    start = max(first, position - position % SECTOR)
    return start, min(size, start + SECTOR * (1 + choices.randrange(4)))


def _changed(byte: int, how: How, choices: Choices) -> int:
    if how == "zeroed":
        return 0
    return byte ^ (1 << choices.randrange(8)) if how == "flipped" else choices.randrange(256)


def _cut(disk: SimulatedDisk, node: Inode, path: str, how: How, size: int) -> Damage:
    before = len(node.content)
    disk.used -= before - size
    node.become(node.content[:size])
    return Damage(path, how, size, before)


def _lose(disk: SimulatedDisk, path: str) -> Damage:
    parent, name = split(path)
    lost = disk.directory(parent).lose(name)
    for inode in [lost] if isinstance(lost, Inode) else disk.inodes_below(lost):
        disk.forget(inode)
    return Damage(path, "lost")
