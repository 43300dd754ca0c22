"""What a broker is good for."""

from __future__ import annotations

from enum import Enum


class Standing(Enum):
    """What a broker is good for, in the eyes of this controller."""

    AVAILABLE = "available"
    """Unfenced, not stopping, and heard from: may be given leaderships."""
    PRESUMED = "presumed"
    """Unfenced in the image but not heard from yet: keeps what it has, gets nothing."""
    UNAVAILABLE = "unavailable"
    """Fenced, stopping or unknown: keeps no leadership, and its place in an ISR only while nobody else is known to be
    there."""
