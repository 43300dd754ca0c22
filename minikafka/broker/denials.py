"""The audit log of what was denied: who, what, from where. As many lines as somebody may read."""

from __future__ import annotations

from typing import Final

from minikafka.event_log import get_logger
from minikafka.security.acls import AclOperation, ResourceType

log = get_logger()

LINES_MAX: Final = 20
WINDOW_S: Final = 10.0
NAME_MAX: Final = 200
"""Characters of a name; there may be 32,767."""


class Denials:
    """At most ``LINES_MAX`` lines in a window of ``WINDOW_S``; the next one says how many are missing.

    A consumer that may not read a topic asks again as fast as it can.
    """

    def __init__(self) -> None:
        self._until_s = float("-inf")
        self._left = 0
        self._missing = 0

    def note(
        self, now_s: float, user: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> None:
        """Log a line, or count it. ``now_s`` is monotonic time."""
        if now_s >= self._until_s:
            self._until_s, self._left = now_s + WINDOW_S, LINES_MAX
            if self._missing:
                log.warning("denials not logged", count=self._missing)
                self._missing = 0
        if not self._left:
            self._missing += 1
            return
        self._left -= 1
        log.warning(
            "access denied",
            principal=f"User:{_shown(user)}",
            operation=operation.name,
            resource_type=resource_type.name,
            resource=_shown(name),
            host=host,
        )


def _shown(name: str) -> str:
    """One line, and no longer than somebody reads."""
    shown = name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"
    return shown if shown.isprintable() else ascii(shown)
