"""Candidate: this voter stands for its epoch, in which it has voted for itself.

With a majority it leads. When a majority refused (the vote was split) or time runs out, it waits a random moment and
begins anew with a pre-vote: the world may have changed. It never stands twice in one epoch, and neither does a
restarted node resume an epoch it stood in: what it may have appended there, unflushed, is lost to it and perhaps not
to others.
"""

from __future__ import annotations

from typing import ClassVar

from minikafka.raft.poll import Round
from minikafka.raft.role import ToLeader, ToProspective, Transition


class Candidate(Round):
    """One round of votes."""

    NAME: ClassVar[str] = "candidate"
    PRE_VOTE: ClassVar[bool] = False

    def follows(self, leader: int, source: int) -> bool:
        return True

    def _on_won(self) -> Transition:
        return ToLeader(tuple(sorted(self._poll.granted)))

    def _on_failed(self) -> Transition:
        return ToProspective()
