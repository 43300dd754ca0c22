"""Prospective (KIP-996): this voter misses its leader and asks the others whether they do, too.

Nothing is changed by asking, neither here nor there, so a node that was merely cut off disturbs nobody: voters that
still hear their leader refuse. Won, it stands as candidate. Lost, or out of time, it goes back to the leader it had,
if any; with none it asks again.

A candidate that ran out of time comes here with its ``candidacy``, the votes of its epoch. Some voter may still be
writing its vote. Such a voter agrees to no pre-vote, so there is no other election meanwhile, and what it sends when it
is done counts as if it had come in time: else voters whose disks take longer than a round would never elect anybody.
"""

from __future__ import annotations

from typing import ClassVar

from minikafka.raft.core import Core
from minikafka.raft.messages import Response, VoteResponse
from minikafka.raft.poll import Poll, Round
from minikafka.raft.role import ToCandidate, ToFollower, ToLeader, ToProspective, Transition


class Prospective(Round):
    """One round of pre-votes."""

    NAME: ClassVar[str] = "prospective"
    PRE_VOTE: ClassVar[bool] = True

    def __init__(self, core: Core, now_ms: int, previous_leader: int | None, candidacy: Poll | None) -> None:
        super().__init__(core, now_ms)
        self._previous_leader = previous_leader
        self._candidacy = candidacy

    def may_vote(self) -> bool:
        return True

    def follows(self, leader: int, source: int) -> bool:
        # That others still follow the leader we miss is no news; that it answers us is.
        return self._previous_leader is None or source == leader == self._previous_leader

    def on_response(self, peer: int, request_id: int, message: Response, now_ms: int) -> Transition | None:
        if self._candidacy is not None and isinstance(message, VoteResponse):
            self._candidacy.count(peer, request_id, message)
            if self._candidacy.won:
                return ToLeader(tuple(sorted(self._candidacy.granted)))
        return super().on_response(peer, request_id, message, now_ms)

    def _on_won(self) -> Transition:
        return ToCandidate()

    def _on_failed(self) -> Transition:
        if self._previous_leader is None:
            return ToProspective(candidacy=self._candidacy)
        return ToFollower(self.core.epoch, self._previous_leader)

    def _on_lost(self, now_ms: int) -> Transition | None:
        return super()._on_lost(now_ms) if self._previous_leader is None else self._on_failed()
