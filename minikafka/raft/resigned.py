"""Resigned: this node led the epoch and gave it up, on request or for lack of fetches of a majority.

It tells the voters, the most complete log first, so that a successor stands without a timeout. It neither leads nor
votes in this epoch again. After an election timeout without a successor it turns unattached, and may stand anew.
"""

from __future__ import annotations

from typing import ClassVar

from minikafka.raft.core import Core
from minikafka.raft.messages import EndQuorumEpochRequest
from minikafka.raft.role import Role, ToUnattached, Transition


class Resigned(Role):
    """A former leader, in the epoch it led."""

    NAME: ClassVar[str] = "resigned"

    def __init__(self, core: Core, now_ms: int, preferred_successors: tuple[int, ...]) -> None:
        super().__init__(core)
        self._preferred_successors = preferred_successors
        self._deadline_ms = now_ms + core.election_timeout_ms()

    def enter(self, now_ms: int) -> Transition | None:
        core = self.core
        request = EndQuorumEpochRequest(core.cluster_id, core.node_id, core.epoch, self._preferred_successors)
        for successor in self._preferred_successors:
            core.send(successor, request, at_once=True)
        return None

    def next_deadline_ms(self) -> int | None:
        return self._deadline_ms

    def tick(self, now_ms: int) -> Transition | None:
        return ToUnattached(self.core.epoch) if now_ms >= self._deadline_ms else None
