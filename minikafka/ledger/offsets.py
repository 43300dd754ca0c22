"""The offset of each record. Nearly every record has one: a number takes a fifth of the memory of a set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

UNKNOWN: Final = -1
"""Of a record that is there, nobody knows where."""


class Offsets(dict[str, int]):
    """Record -> its offset, the lowest of several, or ``UNKNOWN``."""

    def __init__(self) -> None:
        super().__init__()
        self.several: dict[str, set[int]] = {}  # all offsets of the records that have more than one

    def add(self, record: str, offset: int) -> None:
        """The record is at that offset, too."""
        known = self.setdefault(record, offset)
        if known != offset:
            self._add_another(record, known, offset)

    def _add_another(self, record: str, known: int, offset: int) -> None:
        if known == UNKNOWN:
            self[record] = offset
        elif offset != UNKNOWN:
            self[record] = min(known, offset)
            self.several.setdefault(record, {known}).add(offset)

    def all_of(self, record: str) -> set[int]:
        """Every known offset of a record."""
        offset = self.get(record, UNKNOWN)
        return self.several.get(record) or (set() if offset == UNKNOWN else {offset})

    def pairs(self) -> Iterator[tuple[str, int]]:
        """(record, offset) for every known offset."""
        for record, offset in self.items():
            if record in self.several:
                for each in sorted(self.several[record]):
                    yield record, each
            elif offset != UNKNOWN:
                yield record, offset

    def all(self) -> list[int]:
        """Every known offset of each record."""
        if not self.several:
            return [offset for offset in self.values() if offset != UNKNOWN]
        return [offset for _, offset in self.pairs()]

    def shared(self) -> dict[int, list[str]]:
        """The offsets of more than one record, each with these, sorted."""
        offsets = self.all()
        if len(set(offsets)) == len(offsets):
            return {}
        return {offset: records for offset, records in by_offset(self.pairs()).items() if len(records) > 1}

    def copy(self) -> Offsets:
        """Another one of the same."""
        copy = Offsets()
        copy.update(self)
        copy.several = {record: set(offsets) for record, offsets in self.several.items()}
        return copy

    def discard(self, record: str) -> None:
        """The record is not there."""
        self.pop(record, None)
        self.several.pop(record, None)


def by_offset(pairs: Iterable[tuple[str, int]]) -> dict[int, list[str]]:
    """The records at each offset, sorted."""
    found: dict[int, list[str]] = {}
    for record, offset in pairs:
        found.setdefault(offset, []).append(record)
    return {offset: sorted(records) for offset, records in found.items()}
