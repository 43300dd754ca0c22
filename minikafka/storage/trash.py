"""What was deleted: files and directories under other names, which go later (``file.delete.delay.ms``)."""

from __future__ import annotations

from collections.abc import Sequence


class Trash:
    """Of one directory. A delay begins at the next look, some second after the deletion: nobody here has a clock."""

    def __init__(self) -> None:
        self._thrown: list[tuple[str, int]] = []  # path, delay
        self._waiting: list[tuple[str, int]] = []  # path, due

    def throw(self, paths: Sequence[str], delay_ms: int = 0) -> None:
        """Have them removed, after so long."""
        self._thrown += ((path, delay_ms) for path in paths)

    def take(self, now_ms: int | None) -> list[str]:
        """The paths that are due, each once; all of them without a time. ``now_ms``: monotonic."""
        if now_ms is None:
            due = [path for path, _when in (*self._waiting, *self._thrown)]
            self._waiting = []
        else:
            self._waiting += ((path, now_ms + delay_ms) for path, delay_ms in self._thrown)
            due = [path for path, when in self._waiting if when <= now_ms]
            if due:
                self._waiting = [(path, when) for path, when in self._waiting if when > now_ms]
        self._thrown = []
        return due
