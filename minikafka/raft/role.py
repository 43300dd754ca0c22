"""Base of the roles: events in, and the request for another role.

A role never replaces itself: it returns a transition, and ``quorum.py`` makes it. The defaults below suit a node that
neither leads nor waits for an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from minikafka.errors import ErrorCode
from minikafka.raft.core import Core
from minikafka.raft.messages import EndQuorumEpochRequest, FetchRequest, FetchSnapshotRequest, Response

if TYPE_CHECKING:
    from minikafka.raft.poll import Poll

UNKNOWN_MS: Final = -(1 << 62)
"""Before any reading of a clock."""


@dataclass(frozen=True, slots=True)
class ToUnattached:
    """No leader is known in ``epoch``; ``voted_for`` is a vote given just now."""

    epoch: int
    voted_for: int | None = None


@dataclass(frozen=True, slots=True)
class ToFollower:
    """``leader`` leads ``epoch``."""

    epoch: int
    leader: int


@dataclass(frozen=True, slots=True)
class ToProspective:
    """Ask whether an election would be won; if not, return to ``previous_leader``. ``candidacy``: votes of this epoch
    that may still come."""

    previous_leader: int | None = None
    candidacy: Poll | None = None


@dataclass(frozen=True, slots=True)
class ToCandidate:
    """Stand for the next epoch."""


@dataclass(frozen=True, slots=True)
class ToLeader:
    """Won: a majority voted for us."""

    granted_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ToResigned:
    """Give up leadership; the successors are in order of preference."""

    preferred_successors: tuple[int, ...]


Transition = ToUnattached | ToFollower | ToProspective | ToCandidate | ToLeader | ToResigned


class Role:
    """One role in one epoch. Times are monotonic milliseconds."""

    NAME: ClassVar[str]

    def __init__(self, core: Core) -> None:
        self.core = core

    def enter(self, now_ms: int) -> Transition | None:
        """Emit the first effects of the role."""
        return None

    def leave(self) -> None:
        """Answer parked requests of this role; the election state is already the next one."""

    def tick(self, now_ms: int) -> Transition | None:
        """Carry out what is due now."""
        return None

    def next_deadline_ms(self) -> int | None:
        """The time of the next ``tick``; None for never."""
        return None

    def may_vote(self) -> bool:
        """True when this role may vote in its epoch."""
        return False

    def may_pre_vote(self, now_ms: int) -> bool:
        """True when this role agrees that an election is due."""
        return True

    def follows(self, leader: int, source: int) -> bool:
        """True when this role follows ``leader`` of the present epoch, of which ``source`` told it."""
        return False

    def on_begin_quorum_epoch(self, leader: int, now_ms: int) -> None:
        """The known leader of the present epoch has not heard from us for a while."""

    def on_end_quorum_epoch(self, request: EndQuorumEpochRequest, now_ms: int) -> Transition | None:
        """The leader of the present epoch resigned."""
        return None

    def on_fetch(self, token: object, request: FetchRequest, now_ms: int) -> Transition | None:
        """Only a leader serves fetches."""
        self.core.answer(token, FetchRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None

    def on_fetch_snapshot(self, token: object, request: FetchSnapshotRequest, now_ms: int) -> None:
        """Only a leader serves snapshots."""
        self.core.answer(token, FetchSnapshotRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def on_response(self, peer: int, request_id: int, message: Response, now_ms: int) -> Transition | None:
        """An answer without a new epoch or leader."""
        return None

    def on_connection_lost(self, peer: int, refused: bool, now_ms: int) -> Transition | None:
        """Pending requests to ``peer`` get no answer."""
        return None

    def on_flushed(self, now_ms: int) -> None:
        """More of the log is on disk."""

    def on_election_durable(self, now_ms: int) -> Transition | None:
        """Epoch and vote are on disk: start the timeouts that waited for it."""
        return None
