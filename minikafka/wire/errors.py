"""What is raised when bytes from a peer are not a message."""

from __future__ import annotations


class WireError(ValueError):
    """Bytes that do not follow the protocol, or a message that cannot be written in the version asked for.

    The connection they came from cannot be trusted to be in step any more: log the message and close it.
    """
