"""What groups take in a node, whichever they are: bounded, as all that clients may make up is.

A group is bounded by itself, but a client may name as many groups as it likes. So a node counts what the members of all
groups take, and what their committed offsets do. Who is there goes on with what it has. What is new is refused, and so
is what has become larger, with an error after which clients try again (docs/decisions/0025). Usual names, assignments
and metadata are part of what a member and an offset take in any case: so who grows a little is never refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

GROUP_BYTES: Final = 1_600
"""What a group takes beside its members or offsets, and its name."""
MEMBER_BYTES: Final = 1_000
"""What a member takes beside its names and metadata, also one that has only got its id."""
ASSIGNMENT_INCLUDED_BYTES: Final = 500
"""So much of a member's assignment is part of that."""
PARTITION_BYTES: Final = 150
"""What a partition takes that a consumer group has assigned: its member, and that it has it."""
TOPIC_NAME_BYTES: Final = 100
"""What the name of a topic takes that a regular expression matches."""
OFFSET_BYTES: Final = 600
"""What an offset takes beside its topic's name."""
METADATA_INCLUDED_BYTES: Final = 128
"""So much of an offset's metadata is part of that."""


def _nobody() -> None:
    """Is told of nothing."""


@dataclass(slots=True, eq=False)
class Memory:
    """Bytes that something takes in all groups of a node. What a new leader loads is always let in."""

    limit_bytes: int = 2**63
    on_refused: Callable[[], None] = _nobody
    held_bytes: int = 0
    pending_bytes: int = 0
    """Of these, what offsets of open transactions take."""

    def has_room_for(self, more_bytes: int, *, kept_free_bytes: int = 0) -> bool:
        """Less is never refused. ``kept_free_bytes``: for others than who asks."""
        if more_bytes <= 0 or self.held_bytes + more_bytes <= self.limit_bytes - kept_free_bytes:
            return True
        self.on_refused()
        return False
