"""What the handlers of the group APIs share: finding the coordinator of a group, and handing it a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minikafka.broker.clock import Clock
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.errors import ErrorCode
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.effects import Effect
from minikafka.wire.schema import Message


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
    ) -> None:
        """Let the group's coordinator answer, now or later; ``refuse`` makes the answer when that is another node."""
        shard = self.groups.shard_of(group_id)
        if shard is None:
            context.send(refuse(why_not_here(group_id)))
            return
        shard.step(call(shard.coordinator, self.clock.monotonic_ms()))


def why_not_here(group_id: str) -> ErrorCode:
    """The error for a group that has no coordinator on this node."""
    return ErrorCode.NOT_COORDINATOR if group_id else ErrorCode.INVALID_GROUP_ID
