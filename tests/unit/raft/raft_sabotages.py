"""Planted bugs: each breaks the machine, by replacing one method, in a way some Raft implementation has really been
broken. The schedules must notice every one; ``test_sabotages.py`` says within how many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import minikafka.raft.effects as fx
from minikafka.model import OffsetAndEpoch
from minikafka.raft.candidate import Candidate
from minikafka.raft.core import Core
from minikafka.raft.follower import Follower
from minikafka.raft.leader import Leader
from minikafka.raft.log import LogSummary
from minikafka.raft.messages import VoteRequest
from minikafka.raft.node import RaftNode
from minikafka.raft.poll import Poll
from minikafka.raft.quorum import QuorumState
from minikafka.raft.role import ToCandidate, Transition
from minikafka.raft.unattached import Unattached
from minikafka.raft.voters import majority_value

SABOTAGES: dict[str, tuple[type, str, Any]] = {}


def replaces(owner: type, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(broken: Callable[..., Any]) -> Callable[..., Any]:
        is_property = isinstance(owner.__dict__[name], property)
        SABOTAGES[broken.__name__] = (owner, name, property(broken) if is_property else broken)
        return broken

    return register


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The machine is broken as named while this lasts."""
    owner, attribute, broken = SABOTAGES[name]
    sound = owner.__dict__[attribute]
    setattr(owner, attribute, broken)
    try:
        yield
    finally:
        setattr(owner, attribute, sound)


# Votes and epochs


@replaces(Core, "maybe_persist")
def the_vote_is_not_persisted(core: Core) -> None:
    if core.election.epoch != core._persisted.epoch:
        core._persisted = core.election
        core._outbox.append(fx.PersistElection(core.election._replace(voted_for=None)))


@replaces(Core, "emit")
def the_answer_leaves_before_the_vote_is_durable(core: Core, effect: fx.Effect) -> None:
    core._outbox.append(effect)


@replaces(RaftNode, "_is_up_to_date")
def any_log_earns_a_vote(node: RaftNode, last: OffsetAndEpoch) -> bool:
    return True


@replaces(RaftNode, "_is_up_to_date")
def logs_are_compared_by_length(node: RaftNode, last: OffsetAndEpoch) -> bool:
    return last.offset >= node.log.log_end_offset


@replaces(Poll, "count")
def votes_of_a_former_round_are_counted(poll: Poll, voter: int, request_id: int, response: Any) -> None:
    (poll.granted if response.vote_granted else poll.refused).add(voter)


@replaces(QuorumState, "start")
def a_restarted_candidate_resumes_its_epoch(quorum: QuorumState, now_ms: int) -> None:
    core = quorum.core
    core.election = core.election._replace(leader=None)
    stood = core.election.voted_for == core.node_id
    quorum._role = Candidate(core, now_ms) if stood else Unattached(core, now_ms, now_ms)
    quorum.switch(quorum._role.enter(now_ms), now_ms)


@replaces(Core, "may_campaign")
def a_node_with_a_damaged_log_votes(core: Core) -> bool:
    return core.is_voter


@replaces(Follower, "_maybe_complete_repair")
def repair_ends_at_a_new_leaders_old_high_watermark(follower: Follower) -> None:
    core = follower.core
    if core.vote_disabled and follower._leader_high_watermark <= core.log.flushed_offset:
        core.complete_repair(follower.leader)


# Commits


@replaces(Leader, "_maybe_commit")
def former_epochs_are_committed_by_counting(leader: Leader, now_ms: int) -> None:
    if leader.core.advance_high_watermark(leader._majority_offset()):
        leader._release_parked(now_ms)


@replaces(Leader, "_majority_offset")
def the_leader_counts_what_it_has_not_flushed(leader: Leader) -> int:
    return majority_value([leader.core.log.log_end_offset, *(p.end_offset for p in leader._voters.values())])


@replaces(Leader, "_majority_offset")
def a_minority_commits(leader: Leader) -> int:
    return max(leader.core.log.flushed_offset, *(p.end_offset for p in leader._voters.values()), 0)


@replaces(LogSummary, "flushed")
def a_follower_claims_what_it_has_not_flushed(log: LogSummary) -> bool:
    return True


# Logs


@replaces(Leader, "_divergence")
def the_leader_skips_the_divergence_check(leader: Leader, end: OffsetAndEpoch) -> None:
    return None


@replaces(Leader, "_divergence")
def divergence_is_judged_by_offset(leader: Leader, end: OffsetAndEpoch) -> OffsetAndEpoch | None:
    log = leader.core.log
    return log.end if end.offset > log.log_end_offset else None


@replaces(LogSummary, "truncation_point")
def a_follower_truncates_by_its_own_epochs(log: LogSummary, diverging: OffsetAndEpoch) -> int:
    return log.end_offset_for(diverging.epoch).offset


@replaces(Follower, "on_response")
def a_follower_takes_answers_to_any_request(
    follower: Follower, peer: int, request_id: int, message: Any, now_ms: int
) -> Transition | None:
    follower._request_id = None
    if message.TAG == "FetchAnswer" and not message.error_code:
        follower._on_fetched(message, now_ms)
    follower._maybe_fetch(now_ms)
    return None


# Disruption


@replaces(Follower, "may_pre_vote")
def a_follower_grants_pre_votes_against_its_leader(follower: Follower, now_ms: int) -> bool:
    return True


@replaces(Follower, "_leave_leader")
def a_follower_stands_without_a_pre_vote(follower: Follower) -> Transition:
    return ToCandidate()


@replaces(RaftNode, "_grants")
def a_leader_grants_pre_votes(node: RaftNode, request: VoteRequest, now_ms: int) -> bool:
    core, role = node._core, node._quorum.role
    if request.pre_vote:
        return True
    return (
        role.may_vote()
        and node._is_up_to_date(request.last)
        and core.election.voted_for in (None, request.candidate_id)
    )
