"""The segments of a log in offset order; the last one is active."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from minikafka.storage.segment import Segment


class Segments:
    """At least one segment, base offsets growing. ``version`` grows with each change of which these are.

    ``swaps``: how often compacted segments came in.
    """

    __slots__ = ("_bases", "_segments", "active", "swaps", "version")

    def __init__(self, segments: list[Segment]) -> None:
        assert segments
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        assert all(a < b for a, b in pairwise(self._bases))
        self.active = segments[-1]
        self.version = self.swaps = 0

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __contains__(self, segment: object) -> bool:
        return isinstance(segment, Segment) and self._segments[self.index_of(segment.base_offset)] is segment

    def __getitem__(self, at: int) -> Segment:
        return self._segments[at]

    def index_of(self, offset: int) -> int:
        """Index of the segment whose range holds ``offset``; 0 when it lies before the first."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def since(self, offset: int) -> list[Segment]:
        """The segments that hold offsets >= ``offset``, in order."""
        return self._segments[self.index_of(offset) :]

    @property
    def closed(self) -> list[Segment]:
        """Every segment but the active one."""
        return self._segments[:-1]

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all log files."""
        return sum([segment.size for segment in self._segments])  # mostly one: a generator takes twice as long

    def add(self, segment: Segment) -> None:
        """``segment`` is the active one now."""
        assert segment.base_offset > self._bases[-1]
        self.version += 1
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def drop_behind(self, offset: int) -> list[Segment]:
        """Remove the segments that begin behind ``offset``, but the first; oldest first. The last left is active."""
        keep = self.index_of(offset) + 1
        dropped = self._segments[keep:]
        self.version += 1
        del self._segments[keep:]
        del self._bases[keep:]
        self.active = self._segments[-1]
        return dropped

    def replace_last(self, segment: Segment) -> None:
        """Another object in the place of the active segment."""
        assert segment.base_offset == self._bases[-1]
        self.version += 1
        self._segments[-1] = self.active = segment

    def replace_all(self, segment: Segment) -> None:
        """Start anew with one segment."""
        self.version += 1
        self._segments[:] = [segment]
        self._bases[:] = [segment.base_offset]
        self.active = segment

    def drop_first(self, count: int) -> list[Segment]:
        """Remove the oldest ``count`` segments; the active one stays."""
        assert count < len(self._segments)
        dropped = self._segments[:count]
        self.version += 1
        del self._segments[:count]
        del self._bases[:count]
        return dropped

    def swap(self, old: list[Segment], new: list[Segment]) -> None:
        """Put compacted segments in the place of the consecutive closed ones they were made from."""
        at = self._segments.index(old[0])
        assert self._segments[at : at + len(old)] == old
        assert at + len(old) < len(self._segments)
        self.version += 1
        self.swaps += 1
        self._segments[at : at + len(old)] = new
        self._bases[at : at + len(old)] = [segment.base_offset for segment in new]
