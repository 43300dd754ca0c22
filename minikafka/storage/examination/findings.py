"""What an examination found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad it is."""

    DAMAGE = "damage"
    """Records are lost or wrong, or a start would believe something that is wrong."""
    MENDED = "mended"
    """A start of the node mends it, from the batches or without the file."""
    NOTE = "note"
    """No damage: worth knowing."""


class Finding(NamedTuple):
    """One thing in one file. ``position``: byte in it. ``offset``: of the log."""

    severity: Severity
    path: str
    what: str
    position: int | None = None
    offset: int | None = None


@dataclass(slots=True)
class Findings:
    """Findings, and how much was read. ``on_read`` is called with each number of bytes of log files."""

    on_read: Callable[[int], None] = lambda size_bytes: None
    found: list[Finding] = field(default_factory=list)
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    bytes_read: int = 0

    def damage(self, path: str, what: str, *, position: int | None = None, offset: int | None = None) -> None:
        """Add a damage."""
        self.found.append(Finding(Severity.DAMAGE, path, what, position, offset))

    def mended(self, path: str, what: str) -> None:
        """Add what a start mends."""
        self.found.append(Finding(Severity.MENDED, path, what))

    def note(self, path: str, what: str, *, position: int | None = None, offset: int | None = None) -> None:
        """Add a note."""
        self.found.append(Finding(Severity.NOTE, path, what, position, offset))

    def count(self, severity: Severity) -> int:
        """How many of them."""
        return sum(each.severity is severity for each in self.found)

    def read(self, size_bytes: int) -> None:
        """So many bytes of log files are done."""
        self.bytes_read += size_bytes
        self.on_read(size_bytes)
