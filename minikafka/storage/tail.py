"""Where the last batches of an active segment begin, so that a follower at the tail costs no disk read.

The last write itself is kept, too, if it is small: a follower that keeps up asks for just that.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from minikafka.storage.slice import MemorySlice

CAPACITY = 2048  # batches; half are forgotten when it is full
NEWEST_BYTES_MAX = 2048  # a node may have thousands of active segments


class Tail:
    """Last offsets and positions of the newest batches, both growing."""

    __slots__ = ("_last_offsets", "_positions", "first_offset", "newest")

    def __init__(self, end_offset: int) -> None:
        self.first_offset = end_offset  # offsets from here on can be found here
        self.newest: MemorySlice | None = None  # the last write, unless it was large
        self._last_offsets = array("q")
        self._positions = array("q")

    def add(self, last_offset: int, position: int) -> None:
        """A batch ending at ``last_offset`` begins at ``position``."""
        self._last_offsets.append(last_offset)
        self._positions.append(position)
        if len(self._positions) >= CAPACITY:
            self._forget(CAPACITY // 2)

    def position_of(self, offset: int, end_position: int) -> int:
        """Position of the first batch whose last offset is >= ``offset`` (which is >= ``first_offset``)."""
        at = bisect_left(self._last_offsets, offset)
        return self._positions[at] if at < len(self._positions) else end_position

    def begin_of(self, offset: int) -> int:
        """Where the batch that holds ``offset`` (which is > ``first_offset``) begins, or the gap before it."""
        at = bisect_left(self._last_offsets, offset)
        return self._last_offsets[at - 1] + 1 if at else self.first_offset

    def boundary_at_or_before(self, position: int) -> int:
        """The largest remembered batch position <= ``position``; -1 when there is none."""
        at = bisect_right(self._positions, position) - 1
        return self._positions[at] if at >= 0 else -1

    def boundary_after(self, position: int, end_position: int) -> int:
        """Where the batch that begins at ``position`` ends; -1 when that batch is not remembered."""
        at = bisect_left(self._positions, position)
        if at == len(self._positions) or self._positions[at] != position:
            return -1
        return self._positions[at + 1] if at + 1 < len(self._positions) else end_position

    def end_before(self, position: int) -> int:
        """The offset after the batch that ends where the one at ``position`` begins; -1 when that is not remembered."""
        at = bisect_left(self._positions, position)
        if at == len(self._positions) or self._positions[at] != position:
            return -1
        return self._last_offsets[at - 1] + 1 if at else self.first_offset

    def _forget(self, count: int) -> None:
        self.first_offset = self._last_offsets[count - 1] + 1
        del self._last_offsets[:count]
        del self._positions[:count]
