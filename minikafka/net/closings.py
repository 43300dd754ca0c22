"""The log's lines on connections that were closed for what their peers did, as many as somebody may read."""

from __future__ import annotations

from typing import Final

from minikafka.event_log import get_logger

log = get_logger()

LINES_MAX: Final = 20
WINDOW_S: Final = 60.0


class Closings:
    """At most ``LINES_MAX`` lines in a window of ``WINDOW_S``; the next one says how many are missing.

    A client of another version than this node's connects again as fast as it can, and each time is refused.
    """

    def __init__(self) -> None:
        self._until_s = float("-inf")
        self._left = 0
        self._missing = 0

    def note(self, now_s: float, listener: str, peer: str, why: str) -> None:
        """Log a line, or count it. ``now_s`` is monotonic time."""
        if now_s >= self._until_s:
            self._until_s, self._left = now_s + WINDOW_S, LINES_MAX
            if self._missing:
                log.info("closings not logged", listener=listener, count=self._missing)
                self._missing = 0
        if not self._left:
            self._missing += 1
            return
        self._left -= 1
        log.info("connection closed", listener=listener, peer=peer, why=why)
