"""Candidate: this voter stands for leader in its epoch, and has voted for itself.

It asks for votes while it writes its own, so that all disks work at the same time. It leads with a majority that
includes its own, written vote. If a majority refuses (a split vote) or the time is over, it waits for a random time and
begins anew with a pre-vote. Later votes still count until the epoch is over (``prospective``): their voters' disks are
slow. It never stands twice in one epoch. A restarted node does not resume an epoch either: its unflushed appends there
are lost to it, but perhaps not to others.
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
