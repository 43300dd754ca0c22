"""What a process asks of a disk, as it is announced before it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from simulator.killed import Killed

Kind = Literal[
    "create",
    "append",
    "overwrite",
    "truncate",
    "fsync",
    "fsync_dir",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "open",
    "read",
]


class Operation(NamedTuple):
    """A system call that is about to happen. ``size``: bytes to write or read, or the size to truncate to."""

    kind: Kind
    path: str
    size: int = 0
    data: bytes = b""  # to append, or to write over others


Hook = Callable[[Operation], None]


class KilledInside(Killed):
    """The process dies in the middle of an append, when ``written`` bytes of it had been handed over."""

    def __init__(self, written: int) -> None:
        super().__init__(written)
        self.written = written
