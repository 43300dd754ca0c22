"""Prospective (KIP-996): this voter misses its leader and asks the others whether they do, too.

Nothing is changed by asking, neither here nor there, so a node that was merely cut off disturbs nobody: voters that
still hear their leader refuse. Won, it stands as candidate. Lost, or out of time, it goes back to the leader it had,
if any; with none it asks again.
"""

from __future__ import annotations

from typing import ClassVar

from minikafka.raft.core import Core
from minikafka.raft.poll import Round
from minikafka.raft.role import ToCandidate, ToFollower, ToProspective, Transition


class Prospective(Round):
    """One round of pre-votes."""

    NAME: ClassVar[str] = "prospective"
    PRE_VOTE: ClassVar[bool] = True

    def __init__(self, core: Core, now_ms: int, previous_leader: int | None) -> None:
        super().__init__(core, now_ms)
        self._previous_leader = previous_leader

    def may_vote(self) -> bool:
        return True

    def follows(self, leader: int, source: int) -> bool:
        # That others still follow the leader we miss is no news; that it answers us is.
        return self._previous_leader is None or source == leader == self._previous_leader

    def _on_won(self) -> Transition:
        return ToCandidate()

    def _on_failed(self) -> Transition:
        if self._previous_leader is None:
            return ToProspective()
        return ToFollower(self.core.epoch, self._previous_leader)

    def _on_lost(self, now_ms: int) -> Transition | None:
        return super()._on_lost(now_ms) if self._previous_leader is None else self._on_failed()
