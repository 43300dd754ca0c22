"""Standing of a broker: may it lead, be in sync and get replicas?"""

from __future__ import annotations

from enum import Enum


class Standing(Enum):
    """Standing of a broker, as this controller knows it."""

    AVAILABLE = "available"
    """Unfenced, not stopping, and has sent a heartbeat: may become leader."""
    PRESUMED = "presumed"
    """Unfenced in the image, but no heartbeat yet: keeps its leaderships, gets no new ones."""
    UNAVAILABLE = "unavailable"
    """Fenced, stopping or unknown: leads nothing; stays in an ISR only while no other member is known to be alive."""
