"""Room on the disk for the segment that is written, taken before it is needed (``preallocate``).

The file keeps its length: here that tells where a log ends. Linux alone has a call for it; elsewhere nothing is taken,
nor where the file system has none. Where the disk is short of room, that is for whoever writes: nobody is refused a
write because of room that may never be needed.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE of <linux/falloc.h>
FREE_TIMES: Final = 10
"""Room is taken while so many times as much is free."""
BLOCK: Final = 512  # the unit of st_blocks, whatever the file system's own
SLACK: Final = 65_536
"""Blocks of a file beyond its length that are its file system's business."""


def reserve(path: str, size: int, usable: int) -> None:
    """Take room for ``size`` bytes in all, of ``usable`` that are free. OSError if that cannot be."""
    fallocate = _fallocate()
    if fallocate is None or usable < FREE_TIMES * size:
        return
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if fallocate(fd, KEEP_SIZE, 0, size):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(fd)


def give_back(path: str) -> None:
    """Let go of the room behind the end of a file that nobody writes to any more. OSError if that cannot be."""
    stat = os.stat(path)
    if stat.st_blocks * BLOCK > stat.st_size + SLACK:
        os.truncate(path, stat.st_size)


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    if sys.platform != "linux" or sys.maxsize < 1 << 32:  # offsets of 64 bits have another name there
        return None
    function = ctypes.CDLL(None, use_errno=True).fallocate
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function
