"""The quorum as one node sees it: its role, and every change of it. Only this module makes transitions.

Every legal transition, and what triggers it:

==============  ==============  ===============================================================================
from            to              trigger
==============  ==============  ===============================================================================
unattached      unattached      higher epoch seen without a leader; vote granted
unattached      prospective     election timeout (a voter with a whole log)
unattached      follower        leader learned
prospective     unattached      higher epoch seen without a leader; vote granted
prospective     prospective     round lost or out of time, no former leader to go back to
prospective     candidate       pre-votes of a majority; before a first election, an answer of every voter, too
prospective     leader          votes of a majority, some of which came after the round
prospective     follower        round lost or out of time: back to the former leader; leader learned
candidate       unattached      higher epoch seen without a leader
candidate       prospective     round lost (after a back-off) or out of time
candidate       leader          votes of a majority
candidate       follower        leader learned
leader          unattached      higher epoch seen without a leader
leader          follower        higher epoch seen with its leader
leader          resigned        ``resign``; no majority fetched for 1.5 fetch timeouts
resigned        unattached      election timeout; higher epoch seen without a leader
resigned        follower        higher epoch seen with its leader
follower        unattached      higher epoch seen without a leader; fetch timeout of a node that may not stand
follower        prospective     fetch timeout; leader's port refuses; leader says it does not lead or resigned
follower        candidate       leader resigned and named this voter first
follower        follower        higher epoch seen with its leader
==============  ==============  ===============================================================================

The epoch rises by one on becoming candidate, or to what a message names (an observer's only with its leader); it never
falls. A vote stays for its epoch. Both are in ``ElectionState``. Granted votes, our own vote, fetches and election
timeouts wait until both are on disk (``Core.emit_once_durable``, ``Core.is_durable``).

A restart always begins unattached. A node that led or stood does not resume that epoch: its unflushed records may be
lost here and known elsewhere.
"""

from __future__ import annotations

from typing import Final

from minikafka.raft.candidate import Candidate
from minikafka.raft.core import Core
from minikafka.raft.effects import BecameFollower, LeaderUnknown
from minikafka.raft.follower import Follower
from minikafka.raft.leader import Leader
from minikafka.raft.prospective import Prospective
from minikafka.raft.resigned import Resigned
from minikafka.raft.role import (
    Role,
    ToCandidate,
    ToFollower,
    ToLeader,
    ToProspective,
    ToResigned,
    ToUnattached,
    Transition,
)
from minikafka.raft.state import ElectionState
from minikafka.raft.unattached import Unattached

LEGAL_TRANSITIONS: Final[dict[type[Role], frozenset[type[Role]]]] = {
    Unattached: frozenset({Unattached, Prospective, Follower}),
    Prospective: frozenset({Unattached, Prospective, Candidate, Leader, Follower}),
    Candidate: frozenset({Unattached, Prospective, Leader, Follower}),
    Leader: frozenset({Unattached, Follower, Resigned}),
    Resigned: frozenset({Unattached, Follower}),
    Follower: frozenset({Unattached, Prospective, Candidate, Follower}),
}


class QuorumState:
    """Holds the current role and replaces it. A node begins unattached."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._role: Role | None = None
        self._announced: tuple[int, int] | None = None

    @property
    def role(self) -> Role:
        """The current role."""
        assert self._role is not None, "start() comes first"
        return self._role

    def start(self, now_ms: int) -> None:
        """Begin, unattached, in the epoch of the election state, or in the log's if that state was lost."""
        assert self._role is None, "a node is started once"
        core, found = self.core, self.core.election
        lost = core.log.last_epoch > found.epoch
        core.election = ElectionState(core.log.last_epoch) if lost else found._replace(leader=None)
        self._role = Unattached(core, now_ms, now_ms, remembered_leader=found.leader)
        core.emit(LeaderUnknown(core.epoch))
        self.switch(self._role.enter(now_ms), now_ms)

    def learn(self, epoch: int, leader: int | None, source: int, now_ms: int) -> bool:
        """Learn of an epoch and its leader; True when this changed our role."""
        core = self.core
        if leader is not None and (leader == core.node_id or leader not in core.voters):
            leader = None  # we would know if we led
        ours = core.epoch
        if epoch > ours:
            if leader is None and not core.is_voter:
                # It may be the epoch of a candidate that dies: the quorum may go on in ours, and could never bring back
                # a node that has no vote. So we only look for the leader again.
                epoch = ours
            self.switch(ToUnattached(epoch) if leader is None else ToFollower(epoch, leader), now_ms)
            return True
        if epoch == ours and leader is not None and self.role.follows(leader, source):
            self.switch(ToFollower(epoch, leader), now_ms)
            return True
        return False

    def switch(self, transition: Transition | None, now_ms: int) -> None:
        """Make a transition, and further ones that follow at once."""
        while transition is not None:
            previous, core = self.role, self.core
            election = self._election_after(transition)
            assert election.epoch >= core.epoch, "epochs never fall"
            kept = election.epoch > core.epoch or core.election.voted_for in (None, election.voted_for)
            assert kept, "a vote is given once in an epoch"
            core.election = election
            self._role = self._role_after(transition, now_ms)
            assert type(self._role) in LEGAL_TRANSITIONS[type(previous)], f"{previous.NAME} to {self._role.NAME}"
            previous.leave()
            self._announce()
            transition = self._role.enter(now_ms)

    def _election_after(self, transition: Transition) -> ElectionState:
        now = self.core.election
        match transition:
            case ToUnattached(epoch, voted_for):
                kept = now.voted_for if epoch == now.epoch else None
                return ElectionState(epoch, kept if voted_for is None else voted_for)
            case ToFollower(epoch, leader):
                return ElectionState(epoch, now.voted_for if epoch == now.epoch else None, leader)
            case ToCandidate():
                return ElectionState(now.epoch + 1, self.core.node_id)
            case ToLeader():
                return now._replace(leader=self.core.node_id)
            case ToProspective() | ToResigned():
                return now._replace(leader=None)

    def _role_after(self, transition: Transition, now_ms: int) -> Role:
        core = self.core
        match transition:
            case ToUnattached():
                return Unattached(core, now_ms, now_ms + core.config.retry_backoff_ms + core.jitter_ms())
            case ToFollower(_, leader):
                return Follower(core, now_ms, leader)
            case ToProspective(previous_leader, candidacy):
                return Prospective(core, now_ms, previous_leader, candidacy)
            case ToCandidate():
                return Candidate(core, now_ms)
            case ToLeader(granted_by):
                return Leader(core, now_ms, granted_by)
            case ToResigned(preferred_successors):
                return Resigned(core, now_ms, preferred_successors)

    def _announce(self) -> None:
        """Tell the driver of a change of leader. Leader announces itself, with the start of its epoch."""
        core = self.core
        current = None if core.leader is None else (core.leader, core.epoch)
        if current == self._announced:
            return
        self._announced = current
        if core.leader is None:
            core.emit(LeaderUnknown(core.epoch))
        elif core.leader != core.node_id:
            core.emit(BecameFollower(core.leader, core.epoch))
