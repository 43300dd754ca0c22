"""What nodes of this process log, kept for a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from structlog.testing import LogCapture
from structlog.typing import EventDict

from minikafka.event_log import processors


@contextmanager
def capture_logs() -> Iterator[list[EventDict]]:
    """The events of the block, instead of their lines."""
    before, kept = processors.copy(), LogCapture()
    processors[:] = [kept]
    try:
        yield kept.entries
    finally:
        processors[:] = before
