"""The C library's heap in a node's own process: what is freed goes back to the system.

glibc keeps freed memory for whoever asks next: 64 MiB for each thread, and all that lies below something still used. A
thousand TLS connections leave such holes, and the next thousand, of other sizes, lie beside them: 152 MB, then 203,
then 241. So large pieces are mapped one by one, and holes are given back when there are many. It takes some 10 ms for
60 MB, in a thread, and the loop waits for it as soon as it needs memory: 0.05 s for 500 MB.

Python has memory of its own for small objects, which returns to the system in pieces of 1 MiB that are all free.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final, Self

from minikafka.broker.threads import RunInThread

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as <malloc.h> has them
TRIM_THRESHOLD_BYTES: Final = 4 << 20
MMAP_THRESHOLD_BYTES: Final = 1 << 20
"""With less, each answer to a follower is a new mapping, and RF 3 wrote a quarter less (benchmarks/replication)."""
HOLES_BYTES: Final = 16 << 20
"""So much may become free and stay."""
CHECK_INTERVAL_S: Final = 1.0
REST_S: Final = 5.0
"""After holes were given back: whoever comes next has to ask for their pages again."""


class _Mallinfo2(ctypes.Structure):
    """``struct mallinfo2`` of <malloc.h>, glibc 2.33 and later. ``fordblks``: free bytes, given back or not."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


class Heap:
    """That of this process, set to keep little."""

    def __init__(self, c_library: ctypes.CDLL) -> None:
        """AttributeError: it is not glibc, or an older one, of which only the thresholds are set."""
        c_library.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        c_library.mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
        self._trim, self._info = c_library.malloc_trim, c_library.mallinfo2
        self._trim.argtypes, self._info.restype = [ctypes.c_size_t], _Mallinfo2

    @classmethod
    def of_process(cls) -> Self | None:
        """None with another C library, which has its own ways."""
        try:
            return cls(ctypes.CDLL(None))
        except (AttributeError, OSError):
            return None

    @property
    def free_bytes(self) -> int:
        """What is free between what is used, given back or not. Found in 20 us."""
        return int(self._info().fordblks)

    def give_back(self) -> None:
        """All pages of it that are wholly free, in any thread."""
        self._trim(0)


async def give_back_holes(heap: Heap, run_in_thread: RunInThread) -> None:
    """For ever: whenever HOLES_BYTES more are free than after the last time, or than there were since."""
    least = heap.free_bytes
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        free = heap.free_bytes
        if free > least + HOLES_BYTES:
            await run_in_thread(heap.give_back)
            least = heap.free_bytes
            await asyncio.sleep(REST_S)
        least = min(least, free)
