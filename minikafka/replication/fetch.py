"""When a fetch is answered, and how its byte limit is shared (rows R15, R16, D5; KIP-74).

A waiting fetch keeps the request's data and the partitions' places; the broker asks again whenever something moved, and
reads the log anew once it completes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class LogPlace(NamedTuple):
    """An offset, and where its batch is: the base offset of its segment and the position in that segment's file."""

    offset: int
    segment_base_offset: int
    position: int


class WaitingPartition(NamedTuple):
    """One partition of a waiting fetch, as it is now.

    ``readable_end`` is the log end for a follower, the high watermark or the last stable offset for a consumer.
    """

    fetch: LogPlace
    readable_end: LogPlace
    max_bytes: int

    @property
    def must_answer_now(self) -> bool:
        """The log was cut under the fetch (its end lies in an earlier segment), or a segment rolled under it.

        After a cut the fetch has to find out; after a roll there are bytes to the end of the old segment, and it is
        not worth while to count them.
        """
        return self.fetch.segment_base_offset != self.readable_end.segment_base_offset and (
            self.fetch.offset != self.readable_end.offset
        )

    @property
    def available_bytes(self) -> int:
        """Bytes a read would return now, if both places are in one segment."""
        return max(0, min(self.readable_end.position - self.fetch.position, self.max_bytes))


def is_fetch_satisfied(partitions: Iterable[WaitingPartition], min_bytes: int) -> bool:
    """Row D5 for the partitions that are still led here, in the epoch asked for; the caller answers others at once."""
    available = 0
    for partition in partitions:
        if partition.must_answer_now:
            return True
        available += partition.available_bytes
        if available >= min_bytes:
            return True
    return available >= min_bytes


class ByteBudget:
    """The response's byte limit, spent by its partitions in order (row R15).

    The first batch of the first partition that has any is returned even when it is larger than every limit: a fetcher
    with small limits makes progress instead of asking for ever.
    """

    __slots__ = ("_remaining", "is_empty")

    def __init__(self, max_bytes: int) -> None:
        self._remaining = max(0, max_bytes)
        self.is_empty = True  # nothing was spent yet, so the next read returns at least one batch

    def limit(self, partition_max_bytes: int) -> int:
        """How many bytes to read for the next partition; with ``is_empty``, at least one whole batch."""
        return min(self._remaining, max(0, partition_max_bytes))

    @property
    def is_spent(self) -> bool:
        """No further partition gets records."""
        return self._remaining == 0 and not self.is_empty

    def spend(self, size: int) -> None:
        """A partition got ``size`` bytes."""
        if size > 0:
            self.is_empty = False
            self._remaining = max(0, self._remaining - size)
