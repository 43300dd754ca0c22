"""RaftNode's rules for requests and proposals, case by case. What happens over time is in the golden scenarios."""

from __future__ import annotations

import random
from typing import Any

import pytest
from raft_simulation import RECORD, batch_spans, encode_records, leader_change

import minikafka.raft.effects as fx
from minikafka.config.kinds import voters
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch
from minikafka.raft import (
    CommittedDataLostError,
    ElectionState,
    EpochEntry,
    LogSummary,
    RaftConfig,
    RaftNode,
    Snapshot,
    VoterSet,
)
from minikafka.raft.core import Core
from minikafka.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from minikafka.raft.node import EPOCH_STEP_MAX
from minikafka.raft.role import UNKNOWN_MS

VOTERS = VoterSet(voters().parse("1@a:1,2@b:2,3@c:3"))
NONE = ErrorCode.NONE


class Prompt(RaftNode):
    """Its election state is on disk at once."""

    def _persisted(self, effects: list[fx.Effect], now_ms: int) -> list[fx.Effect]:
        for effect in of_type(effects, fx.PersistElection):
            effects = effects + self._persisted(self.on_election_durable(effect.state, now_ms), now_ms)
        return effects

    def start(self, now_ms: int) -> list[fx.Effect]:
        return self._persisted(super().start(now_ms), now_ms)

    def tick(self, now_ms: int) -> list[fx.Effect]:
        return self._persisted(super().tick(now_ms), now_ms)

    def on_request(self, token: object, message: Request, now_ms: int) -> list[fx.Effect]:
        return self._persisted(super().on_request(token, message, now_ms), now_ms)

    def on_response(self, peer: int, request_id: int, message: Response, now_ms: int) -> list[fx.Effect]:
        return self._persisted(super().on_response(peer, request_id, message, now_ms), now_ms)


def node(disk: type[RaftNode] = Prompt, **changes: Any) -> RaftNode:
    """Node 1 of three, started at time 0."""
    settings: dict[str, Any] = {
        "node_id": 1,
        "cluster_id": "c",
        "voters": VOTERS,
        "rng": random.Random(1),
        "batch_spans": batch_spans,
    }
    machine = disk(Core(**(settings | changes)))
    machine.start(0)
    return machine


def of_type(effects: list[fx.Effect], kind: type) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def ask(machine: RaftNode, request: Request, now_ms: int = 0) -> Any:
    """The answer that comes at once."""
    (answer,) = [e for e in of_type(machine.on_request("t", request, now_ms), fx.Respond) if e.token == "t"]
    return answer.message


def leader(**changes: Any) -> RaftNode:
    """Node 1, leading epoch 1 with its LeaderChange flushed and committed with node 2, at time 1000."""
    machine = node(**changes)
    won = win(machine)
    machine.on_flushed(of_type(won, fx.AppendLeaderChange)[0].end, 1000)
    machine.on_request("c", fetch(2, machine.log.end), 1000)
    return machine


def win(machine: RaftNode) -> list[fx.Effect]:
    asked = of_type(machine.tick(1000), fx.Send)
    for _ in range(2):  # pre-vote, vote
        request = next(send for send in asked if send.to == 2)
        effects = machine.on_response(2, request.request_id, VoteResponse(NONE, machine.epoch, None, True), 1000)
        asked = of_type(effects, fx.Send)
    assert machine.role == "leader"
    return effects


def follower(**changes: Any) -> tuple[RaftNode, fx.Send]:
    """Node 1, following node 2 in epoch 3, and the fetch it sent."""
    machine = node(**changes)
    effects = machine.on_request("t", BeginQuorumEpochRequest("c", 2, 3), 0)
    (sent,) = of_type(effects, fx.Send)
    return machine, sent


def fetch(
    replica: int, end: OffsetAndEpoch, epoch: int = 1, high_watermark: int = 0, wait_ms: int = 500
) -> FetchRequest:
    return FetchRequest("c", replica, epoch, end, high_watermark, wait_ms, 1000)


START = OffsetAndEpoch(0, 0)


# What is known


def test_metadata_is_known_until_a_fetch_that_brought_everything_was_sent() -> None:
    machine, sent = follower()
    assert machine.known_until_ms(5) == UNKNOWN_MS
    effects = machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, 7), 1000)
    assert machine.known_until_ms(1000) == UNKNOWN_MS, "there is more up to offset 7"
    (sent,) = of_type(effects, fx.Send)
    records = encode_records(0, [(3, leader_change(2))])
    machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, 1, records=records), 1500)
    assert machine.known_until_ms(9000) == 1000, "it was asked then"


def test_a_follower_of_a_new_leader_does_not_know_what_the_former_one_committed() -> None:
    machine, sent = follower()
    records = encode_records(0, [(2, 7), (3, leader_change(2))])
    effects = machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, 0, records=records), 1000)
    assert machine.known_until_ms(1000) == UNKNOWN_MS, "it may have committed the first record"
    effects = machine.on_flushed(of_type(effects, fx.AppendFetched)[0].end, 1100)
    (sent,) = of_type(effects, fx.Send)
    effects = machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, 1), 1200)
    assert machine.known_until_ms(1200) == UNKNOWN_MS, "and this is the high watermark of then"
    (sent,) = of_type(effects + machine.tick(1300), fx.Send)
    machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, 2), 1500)
    assert machine.known_until_ms(9000) == 1200, "by its own record the leader committed all before it"


def test_a_new_leader_does_not_know_what_the_former_one_committed() -> None:
    machine = node()
    (change,) = of_type(win(machine), fx.AppendLeaderChange)
    assert machine.known_until_ms(1000) == UNKNOWN_MS
    machine.on_flushed(change.end, 1100)
    assert machine.known_until_ms(1100) == UNKNOWN_MS, "no majority has it"
    machine.on_request("c", fetch(2, machine.log.end), 1200)
    assert machine.known_until_ms(9000) == 1200


def test_a_leader_knows_what_is_committed_until_a_majority_fetched_last() -> None:
    machine = leader()
    assert machine.known_until_ms(9000) == 1000
    machine.on_request("c", fetch(2, machine.log.end), 1200)
    assert machine.known_until_ms(9000) == 1200
    machine.on_request("t", BeginQuorumEpochRequest("c", 2, 3), 1300)
    assert machine.known_until_ms(9000) == UNKNOWN_MS


def test_a_single_voter_knows_all() -> None:
    machine = node(voters=VoterSet(voters().parse("1@a:1")))
    assert machine.role == "leader"
    machine.on_flushed(machine.log.end, 60)
    assert machine.known_until_ms(70) == 70


# Who may ask what


@pytest.mark.spec("C1")
@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (VoteRequest("other", 2, 1, START, False), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (FetchRequest("other", 2, 1, START, 0, 0, 0), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (VoteRequest("c", 1, 1, START, False), ErrorCode.INVALID_REQUEST),
        (VoteRequest("c", 9, 1, START, False), ErrorCode.INCONSISTENT_VOTER_SET),
        (BeginQuorumEpochRequest("c", 9, 1), ErrorCode.INCONSISTENT_VOTER_SET),
        (EndQuorumEpochRequest("c", 9, 1, ()), ErrorCode.INCONSISTENT_VOTER_SET),
        (FetchRequest("c", 9, 0, START, 0, 0, 0), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (FetchSnapshotRequest("c", 2, 0, START, 0, 10), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_requests_that_are_refused(request_: Request, error: ErrorCode) -> None:
    machine = node()
    answer = ask(machine, request_)
    assert (answer.error_code, answer.leader_epoch, answer.leader_id) == (error, 0, None)
    assert machine.epoch == 0


LAST_EPOCH = 2**31 - 1


@pytest.mark.parametrize(
    "request_",
    [
        VoteRequest("c", 2, 2 + EPOCH_STEP_MAX, START, False),
        VoteRequest("c", 2, LAST_EPOCH, START, True),
        BeginQuorumEpochRequest("c", 2, LAST_EPOCH),
        EndQuorumEpochRequest("c", 2, LAST_EPOCH, ()),
        FetchRequest("c", 2, LAST_EPOCH, START, 0, 0, 0),
        FetchSnapshotRequest("c", 2, LAST_EPOCH, START, 0, 10),
    ],
)
def test_an_epoch_that_no_election_has_reached_is_not_believed(request_: Request) -> None:
    """Behind the last epoch there is none: one wrong message would have ended all elections, for good."""
    machine = leader()
    assert ask(machine, request_).error_code == ErrorCode.INVALID_REQUEST
    assert (machine.epoch, machine.role) == (1, "leader")
    ask(machine, VoteRequest("c", 2, 1 + EPOCH_STEP_MAX, START, False))
    assert (machine.epoch, machine.role) == (1 + EPOCH_STEP_MAX, "unattached")


def test_an_answer_from_such_an_epoch_is_as_good_as_none() -> None:
    machine, sent = follower()
    answer = FetchResponse(ErrorCode.UNKNOWN_LEADER_EPOCH, LAST_EPOCH, 2)
    machine.on_response(2, sent.request_id, answer, 10)
    assert (machine.epoch, machine.role) == (3, "follower")
    (again,) = of_type(machine.tick(machine.next_deadline_ms() or 0), fx.Send)
    assert again.message == sent.message


def test_observers_are_not_asked_for_votes() -> None:
    answer = ask(node(node_id=7), VoteRequest("c", 2, 1, START, False))
    assert (answer.error_code, answer.vote_granted) == (ErrorCode.INCONSISTENT_VOTER_SET, False)


@pytest.mark.parametrize(
    "request_",
    [
        VoteRequest("c", 2, 4, START, False),
        BeginQuorumEpochRequest("c", 2, 4),
        EndQuorumEpochRequest("c", 2, 4, (1,)),
    ],
)
def test_former_epochs_are_fenced(request_: Request) -> None:
    answer = ask(node(election=ElectionState(5, 3)), request_)
    assert (answer.error_code, answer.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 5)


def test_the_leader_fences_fetches_of_other_epochs() -> None:
    machine = leader()
    assert ask(machine, fetch(2, START, epoch=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(machine, fetch(9, START, epoch=2)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert machine.role == "leader"
    # A voter of a later epoch could never come back to ours.
    assert ask(machine, fetch(3, START, epoch=2)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (machine.role, machine.epoch) == ("unattached", 2)


def test_no_leader_outside_the_voters_is_believed() -> None:
    machine, sent = follower()
    machine.on_response(2, sent.request_id, FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, 9, 77), 5)
    assert (machine.role, machine.epoch, machine.leader) == ("unattached", 9, None)


# Votes


@pytest.mark.parametrize(
    ("last", "granted"),
    [((4, 2), True), ((3, 2), False), ((9, 1), False), ((1, 3), True)],
)
def test_a_vote_goes_to_a_log_at_least_as_complete(last: tuple[int, int], granted: bool) -> None:
    log = LogSummary.recovered(4, [EpochEntry(1, 0), EpochEntry(2, 3)])
    for pre_vote in (True, False):
        machine = node(log=log, election=ElectionState(2))
        assert ask(machine, VoteRequest("c", 2, 3, OffsetAndEpoch(*last), pre_vote)).vote_granted is granted
        assert machine.epoch == 3


def test_one_vote_in_an_epoch_however_often_asked() -> None:
    machine = node()
    for candidate, granted in [(2, True), (2, True), (3, False), (2, True)]:
        assert ask(machine, VoteRequest("c", candidate, 1, START, False)).vote_granted is granted
    assert machine.election == ElectionState(1, 2)


def test_a_vote_and_its_epoch_take_one_write() -> None:
    effects = node().on_request("t", VoteRequest("c", 2, 1, START, False), 0)
    assert [type(effect) for effect in effects] == [fx.PersistElection, fx.Respond]
    assert of_type(effects, fx.PersistElection)[0].state == ElectionState(1, 2)


def test_a_vote_is_answered_when_it_is_on_disk() -> None:
    machine = node(RaftNode)
    (write,) = machine.on_request("t", VoteRequest("c", 2, 1, START, False), 0)
    assert write == fx.PersistElection(ElectionState(1, 2))
    (answer,) = of_type(machine.on_election_durable(ElectionState(1, 2), 1000), fx.Respond)
    assert (answer.token, answer.message.vote_granted, answer.at_once) == ("t", True, True)


def test_a_vote_superseded_before_it_was_written_is_answered_with_the_later_one() -> None:
    machine = node(RaftNode)
    machine.on_request("former", VoteRequest("c", 2, 1, START, False), 0)
    machine.on_request("latter", VoteRequest("c", 3, 2, START, False), 10)
    answers = of_type(machine.on_election_durable(ElectionState(2, 3), 1000), fx.Respond)
    assert [(answer.token, answer.message.leader_epoch) for answer in answers] == [("former", 1), ("latter", 2)]


def test_the_write_of_a_former_vote_says_nothing_of_the_later_one() -> None:
    machine = node(RaftNode)
    machine.on_request("former", VoteRequest("c", 2, 1, START, False), 0)
    machine.on_request("latter", VoteRequest("c", 3, 2, START, False), 10)
    (answer,) = machine.on_election_durable(ElectionState(1, 2), 1000)
    assert isinstance(answer, fx.Respond)
    assert answer.token == "former"
    assert machine.next_deadline_ms() is None
    assert machine.on_election_durable(ElectionState(1, 2), 1000) == []


def test_no_clock_of_an_election_runs_while_the_vote_is_written() -> None:
    for request in (VoteRequest("c", 2, 1, START, False), BeginQuorumEpochRequest("c", 2, 1)):
        machine = node(RaftNode)
        machine.on_request("t", request, 0)
        assert machine.next_deadline_ms() is None
        assert machine.tick(1_000_000) == []
        machine.on_election_durable(machine.election, 1_000_000)
        due_ms = machine.next_deadline_ms()
        assert due_ms is not None
        assert due_ms >= 1_000_000


def test_who_writes_its_vote_agrees_to_no_election() -> None:
    machine = node(RaftNode)
    machine.on_request("t", VoteRequest("c", 2, 1, START, False), 0)
    assert not ask(machine, VoteRequest("c", 3, 1, START, True)).vote_granted
    machine.on_election_durable(machine.election, 10)
    assert ask(machine, VoteRequest("c", 3, 1, START, True)).vote_granted


def candidate(votes_ms: int) -> tuple[RaftNode, dict[int, int]]:
    """Node 1, standing for epoch 1 with its vote written, and the ids of its requests."""
    machine = node(RaftNode)
    (first, *_) = of_type(machine.tick(1000), fx.Send)
    effects = machine.on_response(first.to, first.request_id, VoteResponse(NONE, 0, None, True), 1000)
    machine.on_election_durable(machine.election, votes_ms)
    return machine, {send.to: send.request_id for send in of_type(effects, fx.Send)}


@pytest.mark.spec("C1")
def test_a_candidate_without_its_own_vote_on_disk_does_not_lead() -> None:
    machine = node(RaftNode)
    (first, *_) = of_type(machine.tick(1000), fx.Send)
    effects = machine.on_response(first.to, first.request_id, VoteResponse(NONE, 0, None, True), 1000)
    requests = of_type(effects, fx.Send)
    assert {(send.to, send.at_once, send.message.pre_vote) for send in requests} == {(2, True, False), (3, True, False)}
    for send in requests:
        machine.on_response(send.to, send.request_id, VoteResponse(NONE, 1, None, True), 1001)
    assert machine.role == "candidate"
    machine.on_election_durable(ElectionState(1, 1), 5000)
    assert machine.role == "leader"


def test_votes_that_come_after_the_round_count() -> None:
    machine, asked = candidate(1000)
    machine.tick(2000)
    assert machine.role == "prospective"
    (won, *_) = machine.on_response(3, asked[3], VoteResponse(NONE, 1, None, True), 2001)
    assert won == fx.BecameLeader(1, 0)
    assert machine.role == "leader"


def test_votes_of_a_former_epoch_do_not() -> None:
    machine, asked = candidate(1000)
    machine.tick(2000)
    machine.on_request("t", VoteRequest("c", 2, 2, START, False), 2000)
    machine.on_election_durable(machine.election, 2000)
    machine.tick(3000)
    assert (machine.role, machine.epoch) == ("prospective", 2)
    machine.on_response(3, asked[3], VoteResponse(NONE, 1, None, True), 3001)
    assert machine.role == "prospective"


def test_an_answer_to_an_earlier_round_does_not_take_the_place_of_the_next() -> None:
    machine, asked = candidate(1000)
    (again, *_) = [send for send in of_type(machine.tick(2000), fx.Send) if send.to == 3]
    machine.on_response(3, asked[3] - 1_000, VoteResponse(NONE, 1, None, False), 2001)
    machine.on_response(3, again.request_id, VoteResponse(NONE, 1, None, True), 2001)
    assert (machine.role, machine.epoch) == ("candidate", 2)


@pytest.mark.spec("P1")
def test_a_node_with_a_damaged_log_gives_no_votes() -> None:
    machine = node(vote_disabled=True)
    for pre_vote in (True, False):
        assert not ask(machine, VoteRequest("c", 2, 1, START, pre_vote)).vote_granted
    machine.tick(10_000)
    assert machine.role == "unattached"


LATER = OffsetAndEpoch(5, 1)


@pytest.mark.spec("P1")
def test_the_vote_of_a_new_voter_is_provisional_once_there_are_records() -> None:
    """Its disk may have been exchanged: what it acknowledged before, it does not know."""
    machine = node(is_new=True)
    for pre_vote in (True, False):
        blank = ask(machine, VoteRequest("c", 2, 1, START, pre_vote, True))
        assert (blank.vote_granted, blank.is_provisional) == (True, False), "the cluster is new"
    machine = node(is_new=True)
    for pre_vote in (True, False):
        later = ask(machine, VoteRequest("c", 2, 1, LATER, pre_vote))
        assert (later.vote_granted, later.is_provisional) == (True, True)


@pytest.mark.spec("P1")
def test_a_voter_of_old_elects_nobody_who_never_had_a_record() -> None:
    for pre_vote in (True, False):
        assert not ask(node(), VoteRequest("c", 2, 1, START, pre_vote, True)).vote_granted
        assert ask(node(), VoteRequest("c", 2, 1, START, pre_vote)).vote_granted


def blank_round(machine: RaftNode, now_ms: int) -> dict[int, int]:
    """Another round begins: the ids of its questions, which are those of a blank voter."""
    sent = [send for send in of_type(machine.tick(now_ms), fx.Send) if isinstance(send.message, VoteRequest)]
    assert all(send.message.is_blank for send in sent)
    return {send.to: send.request_id for send in sent}


@pytest.mark.spec("P1")
def test_a_first_election_needs_an_answer_of_all_voters() -> None:
    machine = node(is_new=True)
    asked = blank_round(machine, 1000)
    machine.on_response(2, asked[2], VoteResponse(NONE, 0, None, True), 1000)
    assert machine.role == "prospective", "two of three agree, and the third may have records"
    machine.on_response(3, asked[3], VoteResponse(NONE, 0, None, is_blank=True), 1000)
    assert (machine.role, machine.epoch) == ("candidate", 1), "it refuses, but has none either"


@pytest.mark.spec("P1")
def test_a_blank_voter_that_hears_of_records_is_blank_no_more() -> None:
    """By an answer, also to an earlier question; by another voter's question; by following a leader."""
    yes, no = VoteResponse(NONE, 0, None, True), VoteResponse(NONE, 0, None)
    for delay in (0, 1):
        machine = node(is_new=True)
        asked = blank_round(machine, 1000)
        machine.on_response(2, asked[2], yes, 1000)
        machine.on_response(3, asked[3] - delay, no, 1000)
        assert machine.role == "prospective"
        (again, _) = of_type(machine.tick(2000), fx.Send)
        assert not again.message.is_blank
    for heard in (VoteRequest("c", 3, 0, LATER, True), BeginQuorumEpochRequest("c", 3, 1)):
        machine = node(is_new=True)
        ask(machine, heard)
        answer = ask(machine, VoteRequest("c", 2, 1, START, True, True))
        assert answer.tells_of_records


@pytest.mark.spec("P1")
def test_a_first_election_waits_for_a_voter_that_does_not_answer_as_long_as_is_set() -> None:
    machine = node(is_new=True, config=RaftConfig(first_election_wait_ms=5000))
    began_ms, now_ms, rounds = 0, 1000, 0
    said: list[fx.WaitsForVoters] = []
    while True:
        effects = machine.tick(now_ms)
        said += of_type(effects, fx.WaitsForVoters)
        if machine.role == "candidate":
            break
        asked = {send.to: send.request_id for send in of_type(effects, fx.Send)}
        machine.on_connection_lost(3, True, now_ms)
        machine.on_response(2, asked[2], VoteResponse(NONE, 0, None, True), now_ms)
        assert machine.role == "prospective"
        rounds += 1
        now_ms = machine.next_deadline_ms() or 0
        began_ms = began_ms or now_ms
    assert machine.role == "candidate"
    assert rounds > 10
    assert said == [fx.WaitsForVoters((3,), 5000)], "once, for whom and how long"
    assert 5000 <= now_ms - began_ms <= 5300, "and the last round"


@pytest.mark.spec("P1")
def test_a_blank_candidate_that_hears_of_records_leads_by_no_majority() -> None:
    machine = node(is_new=True, config=RaftConfig(first_election_wait_ms=1))
    for now_ms in (1000, 2000, 3000):  # the second round's end is that of the wait
        asked = blank_round(machine, now_ms)
        if machine.role == "candidate":
            break
        machine.on_response(2, asked[2], VoteResponse(NONE, 0, None, True), now_ms)
    assert machine.role == "candidate"
    machine.on_response(3, asked[3], VoteResponse(NONE, 1, None), 3000)
    machine.on_response(2, asked[2], VoteResponse(NONE, 1, None, True), 3000)
    assert machine.role == "candidate"
    machine.tick(4000)
    assert machine.role == "prospective"


@pytest.mark.spec("P1")
@pytest.mark.parametrize("is_new", [True, False])
def test_provisional_votes_count_when_all_agree(is_new: bool) -> None:
    log = LogSummary.recovered(5, [EpochEntry(1, 0)])
    machine = node(log=log, election=ElectionState(1), is_new=is_new)
    asked = {send.to: send.request_id for send in of_type(machine.tick(1000), fx.Send)}
    machine.on_response(2, asked[2], VoteResponse(NONE, 1, None, True, True), 1000)
    assert machine.role == "prospective", "a majority, but one of it may have forgotten what it had"
    machine.on_response(3, asked[3], VoteResponse(NONE, 1, None, True, True), 1000)
    assert machine.role == "candidate"


@pytest.mark.spec("P1")
def test_a_round_that_provisional_votes_cannot_win_is_lost_with_the_first_refusal() -> None:
    log = LogSummary.recovered(5, [EpochEntry(1, 0)])
    machine = node(log=log, election=ElectionState(1))
    asked = {send.to: send.request_id for send in of_type(machine.tick(1000), fx.Send)}
    machine.on_response(2, asked[2], VoteResponse(NONE, 1, None, True, True), 1000)
    machine.on_connection_lost(3, True, 1000)
    assert machine._quorum.role._poll.lost


def test_votes_are_counted_once_and_for_this_round_only() -> None:
    machine = node(voters=VoterSet(voters().parse("1@a:1,2@b:2,3@c:3,4@d:4,5@e:5")))
    asked = {send.to: send.request_id for send in of_type(machine.tick(1000), fx.Send)}
    yes = VoteResponse(NONE, 0, None, True)
    for peer, request_id in [(2, asked[2]), (2, asked[2]), (3, asked[3] + 99), (4, asked[5])]:
        machine.on_response(peer, request_id, yes, 1000)
    assert machine.role == "prospective"
    machine.on_response(5, asked[5], yes, 1000)
    assert machine.role == "candidate"


def test_the_answer_to_a_vote_request_is_a_vote() -> None:
    machine = node()
    (first, *_) = of_type(machine.tick(1000), fx.Send)
    assert machine.on_response(first.to, first.request_id, BeginQuorumEpochResponse(NONE, 0, None), 1000) == []


# Starting


def test_a_lost_election_state_is_noticed() -> None:
    log = LogSummary.recovered(4, [EpochEntry(3, 0)])
    with pytest.raises(ValueError, match="quorum-state was lost; start with voting disabled"):
        node(log=log, election=ElectionState(2))
    machine = node(log=log, election=ElectionState(2), vote_disabled=True)
    assert machine.election == ElectionState(3)


def test_a_restart_never_resumes_an_epoch_it_led() -> None:
    machine = node(election=ElectionState(4, 1, 1))
    assert (machine.role, machine.epoch, machine.leader) == ("unattached", 4, None)
    machine.on_request("t", BeginQuorumEpochRequest("c", 3, 3), 0)
    # Somebody believes that we lead: we would know.
    (send,) = of_type(machine.tick(100), fx.Send) or of_type(machine.tick(600), fx.Send)[:1]
    machine.on_response(send.to, send.request_id, FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 4, 1), 600)
    assert machine.role in ("unattached", "prospective")


def test_the_leader_remembered_is_asked_first() -> None:
    for remembered in (2, 3):
        machine = RaftNode(
            Core(
                node_id=1,
                cluster_id="c",
                voters=VOTERS,
                rng=random.Random(1),
                batch_spans=batch_spans,
                election=ElectionState(4, 3, remembered),
            )
        )
        (send,) = of_type(machine.start(0), fx.Send)
        assert (send.to, send.message.max_wait_ms) == (remembered, 0)


# Proposals


def test_only_the_leader_takes_proposals() -> None:
    with pytest.raises(KafkaError, match="the leader is not known") as refused:
        node().propose([b"x"], 0)
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    with pytest.raises(KafkaError, match="the leader is node 2"):
        follower()[0].propose([b"x"], 0)


def test_a_proposal_is_one_batch_and_committed_at_its_end() -> None:
    machine = leader()
    end, effects = machine.propose([b"x", b"y"], 1000)
    (append,) = of_type(effects, fx.Append)
    assert end == 3
    assert append == fx.Append(1, 1, (b"x", b"y"))
    assert append.end == (3, 1)
    machine.on_flushed(append.end, 1000)
    assert machine.high_watermark == 1
    effects = machine.on_request("t", fetch(3, OffsetAndEpoch(3, 1)), 1000)
    assert fx.HighWatermark(3) in effects


@pytest.mark.spec("P1")
def test_no_part_of_a_batch_is_committed() -> None:
    """A voter claims to have one: its fetch is refused, and does not count."""
    machine = leader()
    end, effects = machine.propose([b"x", b"y", b"z"], 1000)
    machine.on_flushed(of_type(effects, fx.Append)[0].end, 1000)
    for inside in (2, 3):
        request = fetch(3, OffsetAndEpoch(inside, 1))
        assert ask(machine, request, 1000).error_code == ErrorCode.INVALID_REQUEST
        assert machine.high_watermark == 1
    assert ask(machine, fetch(3, OffsetAndEpoch(end, 1)), 1000).error_code == ErrorCode.NONE
    assert machine.high_watermark == end


def test_an_empty_proposal_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        leader().propose([], 1000)


def test_proposals_without_a_majority_are_bounded() -> None:
    machine = leader(config=RaftConfig(max_uncommitted_records=3))
    machine.propose([b"x", b"y"], 1000)
    with pytest.raises(KafkaError, match="2 metadata records wait for a majority") as refused:
        machine.propose([b"x", b"y"], 1000)
    assert refused.value.retriable
    machine.propose([b"z"], 1000)


# The leader's fetches


def test_one_fetch_of_a_replica_is_parked_and_an_older_one_answered() -> None:
    machine = leader()
    assert of_type(machine.on_request("a", fetch(3, machine.log.end, high_watermark=1), 1000), fx.Respond) == []
    (answer,) = of_type(machine.on_request("b", fetch(3, machine.log.end, high_watermark=1), 1001), fx.Respond)
    assert answer.token == "a"
    (answer,) = [e for e in of_type(machine.tick(1501), fx.Respond) if e.token == "b"]
    assert (answer.message.records, answer.read) == (b"", None)


def test_a_parked_fetch_waits_no_longer_than_the_leader_allows() -> None:
    machine = leader()
    machine.on_request("a", fetch(3, machine.log.end, high_watermark=1, wait_ms=60_000), 1000)
    assert machine.next_deadline_ms() == 1500


def test_a_fetch_is_answered_at_once_when_there_is_news() -> None:
    machine = leader()
    behind = machine.on_request("a", fetch(3, START, high_watermark=1), 1000)
    assert of_type(behind, fx.Respond)[0].read == fx.ReadLog(0, 1000)
    unaware = machine.on_request("b", fetch(3, machine.log.end, high_watermark=0), 1000)
    assert of_type(unaware, fx.Respond)[-1].message.high_watermark == 1
    hurried = machine.on_request("c", fetch(3, machine.log.end, high_watermark=1, wait_ms=0), 1000)
    assert of_type(hurried, fx.Respond)[-1].token == "c"


def test_parked_fetches_are_answered_when_leadership_ends() -> None:
    machine = leader()
    machine.on_request("a", fetch(3, machine.log.end, high_watermark=1), 1000)
    effects = machine.on_request("v", VoteRequest("c", 2, 2, machine.log.end, False), 1001)
    answers = {effect.token: effect.message for effect in of_type(effects, fx.Respond)}
    assert answers["a"].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answers["v"].vote_granted
    assert fx.LostLeadership(1) in effects


@pytest.mark.spec("P1")
def test_a_replica_that_lost_records_is_not_counted_for_them() -> None:
    machine = leader()
    end, effects = machine.propose([b"x"], 1000)
    machine.on_request("a", fetch(3, OffsetAndEpoch(end, 1)), 1000)
    machine.on_request("b", fetch(3, OffsetAndEpoch(1, 1)), 1001)
    effects = machine.on_flushed(OffsetAndEpoch(end, 1), 1002)
    assert of_type(effects, fx.HighWatermark) == []


def test_an_observer_finds_a_leader_whose_epoch_is_below_one_it_heard_of() -> None:
    """A candidate's epoch dies with it, and no vote of an observer brings the quorum there."""
    machine = RaftNode(Core(node_id=7, cluster_id="c", voters=VOTERS, rng=random.Random(1), batch_spans=batch_spans))
    (sent,) = of_type(machine.start(0), fx.Send)
    candidate = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 8, None)
    machine.on_response(sent.to, sent.request_id, candidate, 10)
    (sent,) = of_type(machine.tick(2000), fx.Send)
    machine.on_response(sent.to, sent.request_id, FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, 7, 2), 2010)
    assert (machine.role, machine.epoch, machine.leader) == ("follower", 7, 2)


def test_observers_are_bounded_and_forgotten() -> None:
    machine = leader(config=RaftConfig(max_observers=2))
    for observer in (10, 11):
        assert (
            of_type(machine.on_request(observer, fetch(observer, machine.log.end, high_watermark=1), 1000), fx.Respond)
            == []
        )
    assert ask(machine, fetch(12, machine.log.end, high_watermark=1), 1001).error_code == NONE
    assert [state.replica_id for state in machine.describe(1001).observers] == [10, 11]
    machine.on_request("x", fetch(2, machine.log.end, high_watermark=1), 2400)
    machine.on_request("y", fetch(12, machine.log.end, high_watermark=1), 2600)
    assert [state.replica_id for state in machine.describe(2600).observers] == [12]


def test_describe_shows_the_progress_of_replicas() -> None:
    machine = leader()
    end, _ = machine.propose([b"x"], 1100)
    machine.on_request("a", fetch(3, OffsetAndEpoch(1, 1)), 1200)
    machine.on_request("b", fetch(2, OffsetAndEpoch(end, 1)), 1300)
    info = machine.describe(1400)
    assert (info.leader_id, info.leader_epoch, info.high_watermark) == (1, 1, 1)
    assert info.voters == ((1, 2, 1400, 1400), (2, 2, 1300, 1300), (3, 1, 1200, -1))
    machine.on_request("c", fetch(3, OffsetAndEpoch(end, 1)), 1350)
    assert follower()[0].describe(0).voters == ()


def test_a_replica_that_reached_the_former_end_was_caught_up_then() -> None:
    """Semantics R17: a follower that is always one record behind is not lagging."""
    machine = leader()
    machine.on_request("a", fetch(3, OffsetAndEpoch(1, 1)), 1100)
    machine.propose([b"x"], 1150)
    machine.propose([b"y"], 1160)
    machine.on_request("b", fetch(3, OffsetAndEpoch(1, 1)), 1200)
    machine.propose([b"z"], 1250)
    machine.on_request("c", fetch(3, OffsetAndEpoch(3, 1)), 1300)
    assert machine.describe(1300).voters[2].last_caught_up_ms == 1200


# Snapshots


def test_a_snapshot_lets_the_records_before_the_former_one_go() -> None:
    machine = leader()
    for value in range(3):
        end, _ = machine.propose([bytes([value])], 1000)
        machine.on_flushed(OffsetAndEpoch(end, 1), 1000)
        machine.on_request("a", fetch(2, OffsetAndEpoch(end, 1)), 1000)
    assert machine.on_snapshot_created(Snapshot(OffsetAndEpoch(2, 1), 100)) == []
    assert machine.on_snapshot_created(Snapshot(OffsetAndEpoch(2, 1), 100)) == []
    assert machine.on_snapshot_created(Snapshot(OffsetAndEpoch(4, 1), 200)) == [fx.AdvanceLogStart(2)]
    answer = ask(machine, fetch(3, START))
    assert answer.snapshot_id == (4, 1)
    with pytest.raises(AssertionError, match="committed, flushed"):
        machine.on_snapshot_created(Snapshot(OffsetAndEpoch(9, 1), 300))

    def piece(position: int, snapshot_id: tuple[int, int] = (4, 1)) -> Any:
        request = FetchSnapshotRequest("c", 3, 1, OffsetAndEpoch(*snapshot_id), position, 50)
        return of_type(machine.on_request("s", request, 1000), fx.Respond)[-1]

    assert piece(150).read == fx.ReadSnapshot(OffsetAndEpoch(4, 1), 150, 50)
    assert (piece(150).message.size, piece(150).message.position) == (200, 150)
    assert piece(150).filled(b"xyz").data == b"xyz"
    assert piece(201).message.error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert piece(0, (2, 1)).message.error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def downloading() -> tuple[RaftNode, fx.Send]:
    machine, sent = follower()
    answer = FetchResponse(NONE, 3, 2, snapshot_id=OffsetAndEpoch(7, 2))
    (request,) = of_type(machine.on_response(2, sent.request_id, answer, 10), fx.Send)
    assert isinstance(request.message, FetchSnapshotRequest)
    return machine, request


def test_an_empty_snapshot_is_one_too() -> None:
    machine, request = downloading()
    effects = machine.on_response(2, request.request_id, FetchSnapshotResponse(NONE, 3, 2, 0, 0, b""), 20)
    assert [type(effect) for effect in effects] == [fx.WriteSnapshot, fx.InstallSnapshot, fx.HighWatermark, fx.Send]
    assert machine.log.end == (7, 2)


@pytest.mark.parametrize(
    "answer",
    [
        FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, 3, 2),
        FetchSnapshotResponse(NONE, 3, 2, 100, 50, b"x"),
        FetchSnapshotResponse(NONE, 3, 2, 100, 0, b""),
        FetchSnapshotResponse(NONE, 3, 2, 2, 0, b"xyz"),
    ],
)
def test_a_piece_that_does_not_fit_ends_the_download(answer: FetchSnapshotResponse) -> None:
    machine, request = downloading()
    assert machine.on_response(2, request.request_id, answer, 20) == []
    (again,) = of_type(machine.tick(machine.next_deadline_ms() or 0), fx.Send)
    assert isinstance(again.message, FetchRequest)


def test_a_snapshot_older_than_what_is_applied_is_not_taken() -> None:
    snapshot = Snapshot(OffsetAndEpoch(8, 2), 10)
    machine, sent = follower(log=LogSummary.recovered(9, [EpochEntry(2, 8)], 8, [snapshot]), election=ElectionState(2))
    assert machine.high_watermark == 8
    answer = FetchResponse(NONE, 3, 2, snapshot_id=OffsetAndEpoch(7, 2))
    assert machine.on_response(2, sent.request_id, answer, 10) == []


# The follower's fetches


def test_records_are_appended_and_the_next_fetch_waits_for_their_flush() -> None:
    machine, sent = follower()
    records = encode_records(0, [(2, 5), (3, 6)])
    effects = machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, 1, records=records), 10)
    assert effects == [fx.AppendFetched(0, records, OffsetAndEpoch(2, 3)), fx.HighWatermark(1)]
    assert machine.on_flushed(OffsetAndEpoch(1, 2), 11) == []
    (send,) = machine.on_flushed(OffsetAndEpoch(2, 3), 11)
    assert isinstance(send, fx.Send)
    assert send.message.end == (2, 3)


@pytest.mark.parametrize(
    "records",
    [
        b"x" * (RECORD.size - 1),
        encode_records(1, [(3, 5)]),
        encode_records(0, [(4, 5)]),
        encode_records(0, [(3, 5), (2, 6)]),
        encode_records(0, [(3, 5)]) + encode_records(2, [(3, 6)]),
    ],
)
@pytest.mark.spec("P5")
def test_records_that_do_not_continue_the_log_are_asked_for_again(records: bytes) -> None:
    machine, sent = follower()
    assert machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, 9, records=records), 10) == []
    assert (machine.log.log_end_offset, machine.high_watermark) == (0, 0)
    assert machine.next_deadline_ms() == 30
    assert of_type(machine.tick(30), fx.Send) != []


def test_records_that_hold_no_batch_are_asked_for_again() -> None:
    machine, sent = follower(batch_spans=lambda records: [])
    assert machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, 9, records=b"x"), 10) == []


def test_only_the_answer_to_the_last_fetch_counts() -> None:
    machine, sent = follower()
    records = encode_records(0, [(3, 5)])
    answer = FetchResponse(NONE, 3, 2, records=records)
    assert machine.on_response(2, sent.request_id + 1, answer, 10) == []
    assert machine.on_response(3, sent.request_id, answer, 10) == []
    assert machine.on_response(2, sent.request_id, answer, 10) != []
    assert machine.on_response(2, sent.request_id, answer, 10) == []


def test_failed_fetches_are_repeated_ever_more_slowly() -> None:
    machine, sent = follower()
    now_ms, waits = 10, []
    while len(waits) < 7:
        machine.on_response(2, sent.request_id, FetchResponse(ErrorCode.UNKNOWN_SERVER_ERROR, 3, 2), now_ms)
        due = machine.next_deadline_ms() or 0
        waits.append(due - now_ms)
        sends = of_type(machine.tick(due), fx.Send)
        if machine.role != "follower":
            break
        now_ms, sent = due, sends[0]
    assert waits[:5] == [20, 40, 80, 160, 320]


def test_a_leader_that_holds_no_fetches_is_not_asked_without_pause() -> None:
    machine, sent = follower()
    assert machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2), 10) == []
    assert machine.next_deadline_ms() == 30


def test_begin_quorum_epoch_has_a_lost_fetch_repeated() -> None:
    machine, _ = follower()
    effects = machine.on_request("t", BeginQuorumEpochRequest("c", 2, 3), 100)
    assert of_type(effects, fx.Send) == []
    effects = machine.on_request("t", BeginQuorumEpochRequest("c", 2, 3), 600)
    assert len(of_type(effects, fx.Send)) == 1


def test_a_truncation_below_the_high_watermark_stops_the_node() -> None:
    machine, sent = follower()
    records = encode_records(0, [(2, 5), (3, 6)])
    machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, 2, records=records), 10)
    (again,) = of_type(machine.on_flushed(OffsetAndEpoch(2, 3), 11), fx.Send)
    with pytest.raises(CommittedDataLostError, match="leader 2 of epoch 3 diverges at 1, below our high watermark 2"):
        machine.on_response(2, again.request_id, FetchResponse(NONE, 3, 2, diverging=OffsetAndEpoch(1, 2)), 12)


def test_a_divergence_that_is_none_is_not_argued_about_at_full_speed() -> None:
    machine, sent = follower()
    assert machine.on_response(2, sent.request_id, FetchResponse(NONE, 3, 2, diverging=OffsetAndEpoch(0, 0)), 10) == []
    assert machine.next_deadline_ms() == 30


def test_resigning_is_for_leaders() -> None:
    assert follower()[0].resign(10) == []
    assert leader().resign(1000)[0] == fx.LostLeadership(1)


def test_the_loss_of_another_connection_is_no_concern() -> None:
    machine, _ = follower()
    before = machine.next_deadline_ms()
    assert machine.on_connection_lost(3, True, 10) == []
    assert machine.next_deadline_ms() == before
    assert leader().on_connection_lost(2, True, 1000) == []


def test_end_quorum_epoch_of_another_than_the_leader_is_no_concern() -> None:
    machine, _ = follower()
    ask(machine, EndQuorumEpochRequest("c", 3, 3, (1,)), 10)
    assert machine.role == "follower"


def test_two_machines_given_the_same_do_the_same() -> None:
    def effects(machine: RaftNode) -> list[fx.Effect]:
        return [*win(machine), *machine.propose([b"x"], 1000)[1], *machine.resign(1000), *machine.tick(5000)]

    assert effects(node(rng=random.Random(5))) == effects(node(rng=random.Random(5)))


def test_answers_that_are_no_fetch_answers_are_not_filled() -> None:
    with pytest.raises(AssertionError):
        fx.Respond("t", VoteResponse(NONE, 1, None)).filled(b"x")
    message: Message = fx.Respond("t", FetchResponse(NONE, 1, 1), fx.ReadLog(0, 9)).filled(b"x")
    assert message == FetchResponse(NONE, 1, 1, records=b"x")
