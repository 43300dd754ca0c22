"""Bytes of a segment file that this process has seen to be as they were appended: nobody verifies them twice."""

from __future__ import annotations

from typing import NamedTuple


class VerifiedBytes(NamedTuple):
    """Positions. ``trusted_from``: what follows was checked by this process when it was appended.

    Of the rest, what lies between ``begin`` and ``end`` was read and checked since.
    """

    trusted_from: int
    begin: int = 0
    end: int = 0

    def covers(self, begin: int, end: int) -> bool:
        """True for a range of which nothing is left to check."""
        trusted_from, low, high = self
        end = min(end, trusted_from)
        return begin >= end or (low <= begin and end <= high)

    def plus(self, begin: int, end: int) -> VerifiedBytes:
        """Another range was checked; one that does not touch it is forgotten."""
        if begin <= self.end and self.begin <= end:
            begin, end = min(begin, self.begin), max(end, self.end)
        return VerifiedBytes(self.trusted_from, begin, end)

    def before(self, position: int) -> VerifiedBytes:
        """The file was cut there: what follows is appended anew."""
        return VerifiedBytes(min(self.trusted_from, position), self.begin, min(self.end, position))
