"""What the handlers of admin APIs share: time-outs, and seeing one's own change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from minikafka.broker.drivers.metadata import Metadata
from minikafka.metadata.image import MetadataImage

LONGEST_TIMEOUT_S: Final = 60.0
SEEN_TIMEOUT_S: Final = 2.0


def controller_timeout_s(timeout_ms: int) -> float:
    """How long to try to reach the controller for a request with that time-out."""
    return min(max(timeout_ms / 1000, 0.5), LONGEST_TIMEOUT_S)


async def wait_until_seen(metadata: Metadata, is_seen: Callable[[MetadataImage], bool]) -> None:
    """Wait, but not for ever, until this node's own image shows a committed change: whoever asked will look here."""
    try:
        async with asyncio.timeout(SEEN_TIMEOUT_S):
            while not is_seen(metadata.image):
                await metadata.wait_for(metadata.applied_offset + 1)
    except TimeoutError:
        return
