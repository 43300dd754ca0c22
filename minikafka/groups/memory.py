"""What the members of groups take in a node, whichever groups they are of: bounded, as all that clients may make up is.

A group is bounded by itself, but a client may name as many groups as it likes. Members that are there go on with what
they have. A new one is refused, and so is one that is there and brings more metadata, with an error after which clients
try again (docs/decisions/0025).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

GROUP_BYTES: Final = 1_000
"""What a group with members takes beside them."""
MEMBER_BYTES: Final = 1_000
"""What a member takes beside its metadata, also one that has only got its id."""


def _nobody() -> None:
    """Is told of nothing."""


@dataclass(slots=True, eq=False)
class Memory:
    """Bytes of the members of all groups of a node. What a new leader loads is always let in."""

    limit_bytes: int = 2**63
    on_refused: Callable[[], None] = _nobody
    held_bytes: int = 0

    def has_room_for(self, more_bytes: int) -> bool:
        """Less is never refused."""
        if more_bytes <= 0 or self.held_bytes + more_bytes <= self.limit_bytes:
            return True
        self.on_refused()
        return False
