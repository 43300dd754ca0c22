"""Prospective (KIP-996): this voter misses its leader, and asks the others whether they miss it, too.

A voter that knows of no record asks for the first election of its cluster, and waits for an answer of every voter
(:mod:`minikafka.raft.poll`).

Asking changes no state, neither here nor there. So a node that was cut off disturbs no other: voters that hear their
leader refuse. If the round is won, the voter stands as candidate. If it is lost or times out, the voter returns to its
former leader, or asks again if there was none.

A candidate that timed out comes here with its ``candidacy``, the votes of its epoch. Some voter may still be writing
its vote. That voter refuses pre-votes, so there is no other election meanwhile, and its late vote counts like a timely
one. Without this rule, voters whose disks take longer than a round would never elect a leader.
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
        # Other voters still follow the leader that we miss: no news. An answer of the leader itself is.
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
