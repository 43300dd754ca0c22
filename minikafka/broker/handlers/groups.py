"""What the handlers of the group APIs share: finding the coordinator of a group, and handing it a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.coordination.effects import Write
from minikafka.errors import ErrorCode
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.effects import Effect
from minikafka.wire.schema import Message

GROUP_ROWS: Final = 4
"""What a group costs in a long answer, in rows, beside its members or partitions."""
ROW_COST: Final = 4 * 1024
"""What each member and topic of a group costs the turn (``net.turns``) when its coordinator looks at all of it."""


@dataclass(frozen=True, slots=True)
class Coordinators:
    """The groups of this node, and the time that their coordinators are told."""

    groups: Groups
    clock: Clock

    def serve(
        self,
        group_id: str,
        context: RequestContext,
        call: Callable[[GroupCoordinator, int], list[Effect]],
        refuse: Callable[[ErrorCode], Message],
        *,
        is_of_member: bool = False,
        looks_at_all: bool = False,
    ) -> None:
        """Let the group's coordinator answer, now or later; ``refuse`` makes the answer when that is another node.

        ``is_of_member``: if this writes, the coordinator looks at all of the group; the turn is charged.
        ``looks_at_all``: it does in any case.
        """
        shard = self.groups.shard_of(group_id)
        if shard is None:
            context.send(refuse(why_not_here(group_id)))
            return
        effects = call(shard.coordinator, self.clock.monotonic_ms())
        if looks_at_all or (is_of_member and any(isinstance(effect, Write) for effect in effects)):
            context.connection.spend(ROW_COST * shard.coordinator.size_of(group_id))
        shard.step(effects)


def why_not_here(group_id: str) -> ErrorCode:
    """The error for a group that has no coordinator on this node."""
    return ErrorCode.NOT_COORDINATOR if group_id else ErrorCode.INVALID_GROUP_ID
