"""Planted bugs: each breaks the machine in a way some Raft implementation has really been broken."""

from __future__ import annotations

from typing import Any

from planted.registry import Suite
from pytest import MonkeyPatch  # noqa: PT013
from raft_scenarios import SCENARIOS, play
from raft_schedules import run_schedule, run_stability, trace_of

import minikafka.raft.core as core_module
import minikafka.raft.effects as fx
from minikafka.model import OffsetAndEpoch
from minikafka.raft import CommittedDataLostError
from minikafka.raft.candidate import Candidate
from minikafka.raft.core import Core
from minikafka.raft.follower import Follower
from minikafka.raft.leader import Leader
from minikafka.raft.log import LogSummary
from minikafka.raft.messages import VoteRequest
from minikafka.raft.node import RaftNode
from minikafka.raft.poll import Poll, Round
from minikafka.raft.quorum import QuorumState
from minikafka.raft.role import ToCandidate, ToProspective, Transition
from minikafka.raft.unattached import Unattached
from minikafka.raft.voters import majority_value

VIOLATIONS = (AssertionError, CommittedDataLostError, ValueError)  # invariants, and what the machine itself refuses
SUITE = Suite("raft", "the metadata quorum's machine", run_schedule, 50_000, VIOLATIONS, trace_of)
STABILITY = Suite("raft stability", "the same, with one node that comes and goes", run_stability, 500, VIOLATIONS)
SCENES = Suite("raft scenarios", "the same, by what it said when it was right", play, len(SCENARIOS), VIOLATIONS)
"""For what random schedules meet once in a hundred thousand."""


# Votes and epochs


@SUITE.plants(listed="vote not persisted")
def the_vote_is_not_persisted(patch: MonkeyPatch) -> None:
    """The epoch is written, for whom the node voted in it is not."""
    take_effects = Core.take_effects

    def without_vote(core: Core) -> list[fx.Effect]:
        return [
            fx.PersistElection(effect.state._replace(voted_for=None))
            if isinstance(effect, fx.PersistElection)
            else effect
            for effect in take_effects(core)
        ]

    patch.setattr(Core, "take_effects", without_vote)
    patch.setattr(Core, "is_durable", property(lambda core: core.epoch == core._durable.epoch))
    patch.setattr(core_module, "_order", lambda state: state.epoch)


@SUITE.replaces(Core, "emit_once_durable", listed="reply before persist")
def the_answer_leaves_before_the_vote_is_durable(core: Core, effect: fx.Effect) -> None:
    """A vote is answered, and forgotten by a crash before it was written."""
    core.emit(effect)


@SUITE.replaces(Poll, "won")
def a_candidate_leads_before_its_own_vote_is_durable(poll: Poll) -> bool:
    """The others' votes make a majority, and a crash lets the winner stand in the same epoch again."""
    return len(poll.granted) >= poll._core.voters.majority


@SUITE.plants()
def the_clock_of_an_election_starts_before_the_vote_is_durable(patch: MonkeyPatch) -> None:
    """A disk that takes longer than a round of voting lets no election end."""
    begin = Round.__init__

    def with_clock(round_: Round, core: Core, now_ms: int) -> None:
        begin(round_, core, now_ms)
        round_._deadline_ms = now_ms + core.election_timeout_ms()

    patch.setattr(Round, "__init__", with_clock)


@SUITE.plants()
def a_voter_does_not_wait_until_its_vote_is_durable(patch: MonkeyPatch) -> None:
    """The voter's own clock runs while it writes its vote: it stands before its candidate can have won."""
    begin = Unattached.__init__

    def with_clock(
        role: Unattached, core: Core, now_ms: int, search_at_ms: int, remembered_leader: int | None = None
    ) -> None:
        begin(role, core, now_ms, search_at_ms, remembered_leader)
        role._election_deadline_ms = role._election_due_ms(now_ms)

    patch.setattr(Unattached, "__init__", with_clock)


@SUITE.replaces(Candidate, "_on_failed")
def a_vote_that_comes_late_is_lost(candidate: Candidate) -> Transition:
    """Voters whose disks take longer than a round of voting never elect one whose disk is fast."""
    return ToProspective()


@SUITE.replaces(RaftNode, "_grants")
def a_voter_agrees_to_an_election_while_it_writes_its_vote(node: RaftNode, request: VoteRequest, now_ms: int) -> bool:
    """Each new election makes the one under way worthless, before it can end."""
    core, role = node._core, node._quorum.role
    if not core.may_campaign or not node._is_up_to_date(request.last):
        return False
    if request.pre_vote:
        return role.may_pre_vote(now_ms)
    return role.may_vote() and core.election.voted_for in (None, request.candidate_id)


@SUITE.replaces(Follower, "_can_sign")
def a_follower_is_silent_while_it_syncs(follower: Follower) -> bool:
    """A disk that takes longer than the fetch timeout costs the leader its majority, and the follower its leader."""
    return False


@SUITE.replaces(RaftNode, "_is_up_to_date")
def any_log_earns_a_vote(node: RaftNode, last: OffsetAndEpoch) -> bool:
    """The candidate's log is not compared with the voter's."""
    return True


@SUITE.replaces(RaftNode, "_is_up_to_date")
def logs_are_compared_by_length(node: RaftNode, last: OffsetAndEpoch) -> bool:
    """A longer log earns a vote, although its last record is of an older epoch."""
    return last.offset >= node.log.log_end_offset


@SUITE.replaces(Poll, "count")
def votes_of_a_former_round_are_counted(poll: Poll, voter: int, request_id: int, response: Any) -> None:
    """A vote that answers an earlier request counts in this election."""
    (poll.granted if response.vote_granted else poll.refused).add(voter)


@SUITE.replaces(QuorumState, "start")
def a_restarted_candidate_resumes_its_epoch(quorum: QuorumState, now_ms: int) -> None:
    """Who voted for itself and crashed stands again in the same epoch, with another log."""
    core = quorum.core
    core.election = core.election._replace(leader=None)
    stood = core.election.voted_for == core.node_id
    quorum._role = Candidate(core, now_ms) if stood else Unattached(core, now_ms, now_ms)
    quorum.switch(quorum._role.enter(now_ms), now_ms)


@SUITE.replaces(Core, "may_campaign")
def a_node_with_a_damaged_log_votes(core: Core) -> bool:
    """A node that lost records it had confirmed votes before it has them again."""
    return core.is_voter


@SUITE.replaces(Core, "is_provisional")
def a_voter_with_an_empty_disk_votes_as_others_do(core: Core, *, is_candidate_blank: bool) -> bool:
    """A voter that lost all it had confirmed, and knows of nothing, elects whoever lacks records, as it once did."""
    return False


@SUITE.replaces(Poll, "_must_hear_all")
def two_empty_disks_do_not_wait_for_the_third(poll: Poll) -> bool:
    """Two voters whose disks were exchanged at once begin a cluster without records, faster than the third answers."""
    return False


@SUITE.replaces(Core, "is_blank")
def two_empty_disks_outvote_the_third(core: Core) -> bool:
    """It answers that the cluster has records, and is one of three."""
    return core.is_new and core.log.log_end_offset == 0


@SCENES.replaces(Follower, "_maybe_complete_repair")
def repair_ends_at_a_new_leaders_old_high_watermark(follower: Follower) -> None:
    """A damaged log is taken for whole at a high watermark from before the leader's own epoch."""
    core = follower.core
    if core.vote_disabled and follower._leader_high_watermark <= core.log.flushed_offset:
        core.complete_repair(follower.leader)


# Commits


@SCENES.replaces(Leader, "_maybe_commit")
def former_epochs_are_committed_by_counting(leader: Leader, now_ms: int) -> None:
    """A record of a former epoch is committed because a majority has it (figure 8 of the Raft paper)."""
    if leader.core.advance_high_watermark(leader._majority_offset()):
        leader._release_parked(now_ms)


@SUITE.replaces(Leader, "_majority_offset")
def the_leader_counts_what_it_has_not_flushed(leader: Leader) -> int:
    """The leader is part of the majority before its own fsync."""
    return majority_value([leader.core.log.log_end_offset, *(p.end_offset for p in leader._voters.values())])


@SUITE.replaces(Leader, "_majority_offset")
def a_minority_commits(leader: Leader) -> int:
    """One node having a record commits it."""
    return max(leader.core.log.flushed_offset, *(p.end_offset for p in leader._voters.values()), 0)


@SUITE.replaces(LogSummary, "flushed")
def a_follower_claims_what_it_has_not_flushed(log: LogSummary) -> bool:
    """A follower fetches from its log end, not from what it has flushed."""
    return True


# Logs


@SUITE.replaces(Leader, "_divergence")
def the_leader_skips_the_divergence_check(leader: Leader, end: OffsetAndEpoch) -> None:
    """A follower with another log is sent records as if it had the leader's."""
    return None


@SUITE.replaces(Leader, "_divergence")
def divergence_is_judged_by_offset(leader: Leader, end: OffsetAndEpoch) -> OffsetAndEpoch | None:
    """Only a follower that is longer than the leader is told to cut."""
    log = leader.core.log
    return log.end if end.offset > log.log_end_offset else None


@SUITE.replaces(LogSummary, "truncation_point")
def a_follower_truncates_by_its_own_epochs(log: LogSummary, diverging: OffsetAndEpoch) -> int:
    """A follower cuts to its own end of the epoch, though the leader's may be earlier."""
    return log.end_offset_for(diverging.epoch).offset


@SUITE.replaces(Follower, "on_response")
def a_follower_takes_answers_to_any_request(
    follower: Follower, peer: int, request_id: int, message: Any, now_ms: int
) -> Transition | None:
    """An answer to an earlier fetch is applied as if it were one to the last."""
    follower._request_id = None
    if message.TAG == "FetchAnswer" and not message.error_code:
        follower._on_fetched(message, now_ms)
    follower._maybe_fetch(now_ms)
    return None


# What is known


@SUITE.plants()
def a_follower_believes_an_old_high_watermark(patch: MonkeyPatch) -> None:
    """It claims to know all that was committed, as soon as it has what a new leader knows as committed."""
    append = Follower._append

    def rashly(follower: Follower, response: Any, now_ms: int) -> None:
        append(follower, response, now_ms)
        if response.high_watermark <= follower.core.log.log_end_offset:
            follower.known_until_ms = follower._sent_at_ms

    patch.setattr(Follower, "_append", rashly)


@SUITE.replaces(Leader, "known_until_ms")
def a_new_leader_claims_to_know_all(leader: Leader, now_ms: int) -> int:
    """It does before a record of its own epoch is committed."""
    return leader._heard_ms() if leader._voters else now_ms


# Disruption


@STABILITY.replaces(Follower, "may_pre_vote")
def a_follower_grants_pre_votes_against_its_leader(follower: Follower, now_ms: int) -> bool:
    """A node that cannot hear the leader deposes it with the help of those who can."""
    return True


@STABILITY.replaces(Follower, "_leave_leader")
def a_follower_stands_without_a_pre_vote(follower: Follower) -> Transition:
    """A node that was cut off comes back with a higher epoch, and the leader steps down."""
    return ToCandidate()


@STABILITY.replaces(RaftNode, "_grants")
def a_leader_grants_pre_votes(node: RaftNode, request: VoteRequest, now_ms: int) -> bool:
    """The leader itself agrees to be deposed by whoever cannot hear it."""
    core, role = node._core, node._quorum.role
    if request.pre_vote:
        return True
    return (
        role.may_vote()
        and node._is_up_to_date(request.last)
        and core.election.voted_for in (None, request.candidate_id)
    )
