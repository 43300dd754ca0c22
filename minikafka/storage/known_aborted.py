"""What a segment knows of its aborted transactions: those whose markers it has.

Their index is in memory while the segment is active, and afterwards as long as the segment is warm. What remains of it
tells whether it must be read again (:class:`AbortedBounds`), and whether the file is the one that was written.
"""

from __future__ import annotations

from minikafka.storage.index import DamagedIndexError
from minikafka.storage.transaction_index import (
    NO_ABORTED,
    UNKNOWN_CHECKSUM,
    AbortedBounds,
    AbortedTransaction,
    TransactionIndex,
)


class KnownAborted:
    """See the module. It reads and writes no file: the segment does."""

    __slots__ = ("_bounds", "_checksum", "are_there", "index")

    def __init__(self) -> None:
        self.are_there = False  # in the index in memory, or in the file
        self.index: TransactionIndex | None = None  # None: it is not in memory
        self._bounds: AbortedBounds | None = None  # outlive the index
        self._checksum = UNKNOWN_CHECKSUM  # that the file must have

    @property
    def checksum(self) -> int:
        """See :attr:`TransactionIndex.checksum`; -1 before a file was read of which nothing is known."""
        if self.index is not None:
            return self.index.checksum
        return self._checksum if self.are_there else NO_ABORTED

    @property
    def bounds(self) -> AbortedBounds | None:
        """See :attr:`TransactionIndex.bounds`; None before the file was read."""
        return self._bounds if self.index is None else self.index.bounds

    def may_begin_before(self, offset: int) -> bool:
        """False when it is known that none of these transactions began before ``offset``."""
        bounds = self.bounds
        return self.are_there and (bounds is None or bounds.lowest_first_offset < offset)

    def are_last_before(self, offset: int) -> bool:
        """True when it is known that nothing aborted in later segments began before ``offset``."""
        bounds = self.bounds
        return bounds is not None and bounds.last_stable_offset >= offset

    def expect(self, checksum: int, *, is_there: bool = False) -> None:
        """Nothing was read yet: a file that differs is damage. ``is_there``: there is one, whatever is expected."""
        self.are_there = is_there or checksum > NO_ABORTED
        self._checksum = checksum

    def checked(self, index: TransactionIndex) -> TransactionIndex:
        """What the file has. DamagedIndexError if another one is expected."""
        if self._checksum not in (UNKNOWN_CHECKSUM, index.checksum):
            raise DamagedIndexError("it is not the one that the list of segments has")
        self._checksum = index.checksum
        return index

    def note(self, aborted: AbortedTransaction) -> None:
        """A marker that was, or will be, appended. An index that there is must be in memory."""
        if self.index is None:
            assert not self.are_there, "the index is not in memory"
            self.index = TransactionIndex()
        self.index.append(aborted)
        self.are_there = True

    def truncate(self, end_offset: int) -> None:
        """Forget markers from ``end_offset`` on. An index that there is must be in memory."""
        if self.are_there:
            assert self.index is not None, "the index is not in memory"
            self.index.truncate(end_offset)
            self.are_there = len(self.index) > 0

    def written(self) -> None:
        """The file has the index of now."""
        if self.index is not None:
            self._checksum = self.index.checksum

    def forget(self) -> None:
        """Whatever is known is wrong: the batches tell."""
        self.index, self._bounds, self._checksum, self.are_there = None, None, UNKNOWN_CHECKSUM, False

    def cool(self) -> None:
        """Let go of the index."""
        self._bounds, self.index = self.bounds, None

    def learn(self, copy: KnownAborted) -> None:
        """Keep what a copy in another thread has read, or made again."""
        if copy.index is not None:
            self.index, self._checksum, self.are_there = copy.index, copy.index.checksum, copy.are_there
        elif copy.bounds is not None:
            self._bounds = copy.bounds
