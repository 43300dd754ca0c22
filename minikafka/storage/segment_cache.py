"""Which closed segments keep a descriptor and indexes in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from minikafka.storage.segment import Segment


class SegmentCache:
    """Those that were read most recently, at most ``capacity``.

    It keeps none of them alive. Copies for a thread have a cache of their own: with the cache referring back to them
    they would keep their descriptors until a full garbage collection, of which a node makes few.
    """

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._segments: WeakKeyDictionary[Segment, None] = WeakKeyDictionary()  # ordered: read longest ago first

    def touch(self, segment: Segment) -> None:
        """The segment is being read; another one may lose its place."""
        self._segments.pop(segment, None)
        self._segments[segment] = None
        if len(self._segments) > self._capacity:
            oldest = next(self._segments.keys())
            del self._segments[oldest]
            oldest.cool()

    def forget(self, segment: Segment) -> None:
        """The segment is active again, or gone."""
        self._segments.pop(segment, None)
