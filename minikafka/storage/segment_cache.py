"""Which closed segments keep a descriptor and indexes in memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka.storage.segment import Segment


class SegmentCache:
    """Those that were read most recently, at most ``capacity``."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._segments: OrderedDict[Segment, None] = OrderedDict()

    def touch(self, segment: Segment) -> None:
        """The segment is being read; another one may lose its place."""
        self._segments[segment] = None
        self._segments.move_to_end(segment)
        if len(self._segments) > self._capacity:
            self._segments.popitem(last=False)[0].cool()

    def forget(self, segment: Segment) -> None:
        """The segment is active again, or gone."""
        self._segments.pop(segment, None)
