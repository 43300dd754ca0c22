"""Candidate: this voter stands for its epoch, in which it has voted for itself.

It asks for votes while its own is still being written, so that all disks work at the same time; it leads with a
majority that has its own, written vote in it. When a majority refused (the vote was split) or time runs out, it waits
a random moment and begins anew with a pre-vote: the world may have changed. Votes that come later than that still
count, until the epoch is over (``prospective``): their voters' disks are slow. It never stands twice in one epoch, and
neither does a restarted node resume an epoch it stood in: what it may have appended there, unflushed, is lost to it and
perhaps not to others.
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
        return ToProspective(candidacy=None if self._poll.lost else self._poll)
