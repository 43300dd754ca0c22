from __future__ import annotations

import random

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.replication.leader import PROPOSAL_BACKOFF_MS, LeaderState

WHERE = TopicPartition("t", 0)
LAG_MS = 100
EPOCHS = {2: 12, 3: 13, 4: 14}


def make(
    *,
    isr=(1, 2, 3),
    replicas=(1, 2, 3),
    end=10,
    start=None,
    high_watermark=0,
    min_insync=1,
    now_ms=0,
    is_eligible=lambda _replica, _epoch: True,
):
    return LeaderState(
        WHERE,
        1,
        5,
        leader_epoch_start_offset=end if start is None else start,
        replicas=replicas,
        isr=isr,
        partition_epoch=3,
        high_watermark=high_watermark,
        log_end_offset=end,
        lag_time_max_ms=LAG_MS,
        now_ms=now_ms,
        min_insync_replicas=min_insync,
        local_broker_epoch=11,
        is_eligible=is_eligible,
    )


def fetch(leader, replica_id, offset, now_ms=0, *, epoch=None, log_start_offset=0):
    return leader.on_follower_fetch(
        replica_id, epoch or EPOCHS[replica_id], offset, log_start_offset, leader.log_end_offset, now_ms
    )


def members(proposal):
    return [member.broker_id for member in proposal.new_isr]


# -- high watermark ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("R21")
def test_alone_in_the_isr_the_leaders_end_is_the_high_watermark():
    leader = make(isr=(1,))
    assert leader.high_watermark == 10
    assert leader.on_append(12, 0)
    assert leader.high_watermark == 12
    assert not leader.on_append(12, 0)


@pytest.mark.spec("R21")
def test_the_slowest_member_of_the_isr_decides():
    leader = make()
    assert not fetch(leader, 2, 10).high_watermark_moved, "nothing is known of 3 yet"
    assert fetch(leader, 3, 7).high_watermark_moved
    assert leader.high_watermark == 7
    assert fetch(leader, 3, 9) == (True, True, None, True)
    assert fetch(leader, 3, 9) == (False, False, None, True)
    assert leader.high_watermark == 9


@pytest.mark.spec("R21")
def test_an_append_does_not_outrun_followers():
    leader = make(isr=(1, 2))
    fetch(leader, 2, 10)
    assert not leader.on_append(20, 0)
    assert leader.high_watermark == 10


@pytest.mark.spec("R21")
def test_it_never_falls_even_when_a_follower_does():
    leader = make()
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    assert leader.high_watermark == 10
    assert not fetch(leader, 3, 4).high_watermark_moved
    assert leader.high_watermark == 10


@pytest.mark.spec("R21")
def test_a_replica_outside_the_isr_that_caught_up_lately_is_waited_for():
    leader = make(isr=(1,), replicas=(1, 2))
    fetch(leader, 2, 10, 0)
    assert leader.proposal_in_flight is not None
    assert leader.on_proposal_refused(leader.proposal_in_flight, ErrorCode.INELIGIBLE_REPLICA, 0) is None
    assert not leader.on_append(20, LAG_MS), "2 may still join"
    assert leader.on_append(21, LAG_MS + 1)
    assert leader.high_watermark == 21


@pytest.mark.spec("R21")
def test_the_periodic_check_ends_the_wait_for_a_replica_that_went_away():
    leader = make(isr=(1,), replicas=(1, 2))
    leader.on_proposal_refused(fetch(leader, 2, 10).proposal, ErrorCode.INELIGIBLE_REPLICA, 0)
    leader.on_append(20, 10)
    assert not leader.maybe_advance_high_watermark(LAG_MS)
    assert leader.maybe_advance_high_watermark(LAG_MS + 1)


@pytest.mark.spec("R21")
def test_while_records_wait_for_a_joining_replica_each_fetch_may_commit_them():
    """Nobody tells the leader when the wait is over, and its periodic check comes after many seconds."""
    fenced = set()
    leader = make(isr=(1, 3), is_eligible=lambda replica, _epoch: replica not in fenced)
    fetch(leader, 3, 10)
    leader.on_proposal_refused(fetch(leader, 2, 10).proposal, ErrorCode.INELIGIBLE_REPLICA, 0)
    assert leader.progress_in_sync(3) is not None
    leader.on_append(11, 1)
    fetch(leader, 3, 11, 2)
    assert leader.high_watermark == 10
    assert leader.progress_in_sync(3) is None, "its fetches are to be looked at"
    fenced.add(2)
    assert fetch(leader, 3, 11, 3).high_watermark_moved
    assert leader.progress_in_sync(3) is not None


@pytest.mark.spec("R21")
def test_a_replica_that_may_not_join_is_not_waited_for():
    leader = make(isr=(1,), replicas=(1, 2), is_eligible=lambda replica, epoch: (replica, epoch) != (2, 12))
    assert fetch(leader, 2, 10).proposal is None
    assert leader.on_append(20, 1)
    assert leader.high_watermark == 20


@pytest.mark.spec("R20")
def test_the_maximal_isr_counts_while_an_expansion_is_in_flight():
    leader = make(isr=(1,), replicas=(1, 2))
    proposal = fetch(leader, 2, 10, 0).proposal
    leader.on_append(20, 10_000)
    assert leader.high_watermark == 10, "2 may be in the ISR by now, however long ago it was here"
    assert leader.on_proposal_accepted(proposal, (1, 2), 4, 10_000) is False
    assert fetch(leader, 2, 20, 10_001).high_watermark_moved


@pytest.mark.spec("R20")
def test_the_maximal_isr_counts_while_a_shrink_is_in_flight():
    leader = make(isr=(1, 2), replicas=(1, 2))
    fetch(leader, 2, 5, 0)
    proposal = leader.maybe_shrink(LAG_MS + 1)
    assert members(proposal) == [1]
    assert not leader.maybe_advance_high_watermark(LAG_MS + 1)
    assert leader.high_watermark == 5
    assert leader.on_proposal_accepted(proposal, (1,), 4, LAG_MS + 2)
    assert leader.high_watermark == 10


@pytest.mark.spec("P1")
def test_below_min_insync_replicas_the_high_watermark_stands_still():
    leader = make(isr=(1,), min_insync=2)
    assert leader.high_watermark == 0
    assert not leader.on_append(20, 0)
    proposal = fetch(leader, 2, 20, 0).proposal
    assert leader.high_watermark == 0
    assert leader.on_proposal_accepted(proposal, (1, 2), 4, 0)
    assert leader.high_watermark == 20


@pytest.mark.spec("P1")
def test_min_insync_replicas_counts_at_most_the_replicas():
    leader = make(isr=(1,), replicas=(1,), min_insync=2)
    assert leader.high_watermark == 10
    leader.check_enough_in_sync()


def test_a_changed_min_insync_replicas_takes_effect_at_once():
    leader = make(isr=(1,), min_insync=2)
    assert leader.set_min_insync_replicas(1, 0)
    assert leader.high_watermark == 10
    assert not leader.set_min_insync_replicas(3, 0)
    assert leader.is_under_min_isr


# -- fetches -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R17")
def test_a_fetch_of_a_stranger_changes_nothing():
    leader = make()
    outcome = leader.on_follower_fetch(9, 1, 10, 0, 10, 0)
    assert outcome == (False, False, None, False)


@pytest.mark.spec("P1")
def test_a_fetch_of_an_earlier_incarnation_is_refused():
    leader = make()
    fetch(leader, 2, 5, epoch=20)
    with pytest.raises(KafkaError) as refusal:
        fetch(leader, 2, 9, epoch=19)
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert leader._progress[2].log_end_offset == 5


@pytest.mark.spec("P1")
@pytest.mark.spec("R18")
def test_what_a_former_process_had_lets_no_replica_in():
    registered = {2: 20}
    leader = make(isr=(1,), is_eligible=lambda replica, epoch: epoch == registered.get(replica))
    registered[2] = 21  # it started again: what it had may be lost
    assert fetch(leader, 2, 10, epoch=20).proposal is None
    assert leader.high_watermark == 10, "nor is it waited for"
    proposal = fetch(leader, 2, 10, epoch=21).proposal
    assert [member for member in proposal.new_isr if member.broker_id == 2] == [(2, 21)]


@pytest.mark.spec("P1")
@pytest.mark.spec("R20")
def test_a_proposal_names_the_process_that_fetched_last():
    leader = make(isr=(1, 2))
    fetch(leader, 2, 10, epoch=20)
    fetch(leader, 2, 10, epoch=21)
    assert members(fetch(leader, 3, 10, epoch=30).proposal) == [1, 2, 3]
    assert [member.broker_epoch for member in leader.proposal_in_flight.new_isr] == [11, 21, 30]


def test_a_fetch_beyond_the_end_is_refused():
    leader = make()
    with pytest.raises(KafkaError) as refusal:
        fetch(leader, 2, 11)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


# -- expanding ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R18")
def test_a_replica_that_reached_the_high_watermark_and_the_epoch_is_proposed():
    leader = make(isr=(1, 2), high_watermark=6, start=8)
    assert fetch(leader, 3, 5).proposal is None
    assert fetch(leader, 3, 7).proposal is None, "below the start of this leader epoch"
    assert fetch(leader, 3, 8).proposal is None, "2 has not said yet what it knows"
    fetch(leader, 2, 8)
    proposal = fetch(leader, 3, 8).proposal
    assert proposal.new_isr == ((1, 11), (2, 12), (3, 13))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 3)
    assert leader.proposal_in_flight is proposal


@pytest.mark.spec("R18")
def test_one_below_the_high_watermark_is_not_proposed():
    leader = make(isr=(1, 2), start=0)
    fetch(leader, 2, 10)
    assert leader.high_watermark == 10
    assert fetch(leader, 3, 9).proposal is None
    assert members(fetch(leader, 3, 10).proposal) == [1, 2, 3]


@pytest.mark.spec("R20")
def test_one_proposal_at_a_time():
    leader = make(isr=(1,))
    assert fetch(leader, 2, 10).proposal is not None
    assert fetch(leader, 3, 10).proposal is None
    assert leader.maybe_shrink(10_000) is None


def test_after_a_refusal_there_is_a_pause():
    leader = make(isr=(1, 2))
    fetch(leader, 2, 10)
    leader.on_proposal_refused(fetch(leader, 3, 10, 0).proposal, ErrorCode.INELIGIBLE_REPLICA, 0)
    assert fetch(leader, 3, 10, PROPOSAL_BACKOFF_MS - 1).proposal is None
    assert fetch(leader, 3, 10, PROPOSAL_BACKOFF_MS).proposal is not None


def test_metadata_ends_the_pause():
    leader = make(isr=(1, 2))
    fetch(leader, 2, 10)
    leader.on_proposal_refused(fetch(leader, 3, 10, 0).proposal, ErrorCode.INELIGIBLE_REPLICA, 0)
    leader.on_metadata((1,), 4, (1, 2, 3), 1)
    assert members(fetch(leader, 3, 10, 1).proposal) == [1, 3]


# -- shrinking ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R19")
def test_who_lags_is_proposed_away_but_never_the_leader():
    leader = make()
    leader.on_append(20, 0)
    fetch(leader, 2, 20, 50)
    fetch(leader, 3, 9, 50)
    assert leader.maybe_shrink(LAG_MS) is None, "the ISR has the benefit of the doubt from the election on"
    assert members(leader.maybe_shrink(LAG_MS + 1)) == [1, 2]


@pytest.mark.spec("R19")
def test_a_replica_at_the_leaders_end_stays_however_long_nothing_was_fetched():
    leader = make(isr=(1, 2), replicas=(1, 2))
    fetch(leader, 2, 10, 0)
    assert leader.maybe_shrink(1_000_000) is None


@pytest.mark.spec("R19")
def test_all_followers_may_leave():
    assert members(make().maybe_shrink(LAG_MS + 1)) == [1]


# -- verdicts and metadata ---------------------------------------------------------------------------------------------


@pytest.mark.spec("R20")
def test_an_answer_that_metadata_has_overtaken_changes_nothing():
    leader = make(isr=(1, 2))
    fetch(leader, 2, 10)
    proposal = fetch(leader, 3, 10).proposal
    leader.on_metadata((1,), 5, (1, 2, 3), 0)
    assert leader.on_proposal_accepted(proposal, (1, 2, 3), 4, 0) is False
    assert (leader.isr, leader.partition_epoch) == ((1,), 5)
    assert leader.on_proposal_refused(proposal, ErrorCode.NETWORK_EXCEPTION, 0) is None


@pytest.mark.spec("R20")
def test_metadata_that_the_answer_has_overtaken_changes_nothing():
    leader = make(isr=(1, 2))
    fetch(leader, 2, 10)
    leader.on_proposal_accepted(fetch(leader, 3, 10).proposal, (1, 2, 3), 4, 0)
    assert leader.on_metadata((1, 2, 3), 4, (1, 2, 3), 0) is False
    assert leader.on_metadata((1, 2), 3, (1, 2, 3), 0) is False
    assert leader.isr == (1, 2, 3)


@pytest.mark.spec("R20")
def test_without_a_verdict_the_proposal_is_to_be_sent_again():
    leader = make(isr=(1, 2))
    fetch(leader, 2, 10)
    proposal = fetch(leader, 3, 10).proposal
    assert leader.on_proposal_refused(proposal, ErrorCode.REQUEST_TIMED_OUT, 0) is proposal
    fence = leader.on_proposal_refused(proposal, ErrorCode.INELIGIBLE_REPLICA, 0)
    assert members(fence) == [1, 2]
    assert leader._isr.maximal == {1, 2, 3}
    leader.on_proposal_accepted(fence, (1, 2), 4, 0)
    assert leader._isr.maximal == {1, 2}


def test_metadata_that_removes_a_follower_lets_the_high_watermark_go_on():
    leader = make(is_eligible=lambda replica, _epoch: replica != 3)
    fetch(leader, 2, 10)
    assert leader.on_metadata((1, 2), 4, (1, 2, 3), 0)
    assert leader.high_watermark == 10


def test_a_reassignment_adds_and_forgets_replicas():
    leader = make()
    fetch(leader, 2, 10)
    leader.on_metadata((1, 2, 3), 4, (1, 2, 3, 4), 0)
    assert leader._progress[4].log_end_offset == -1
    assert leader._progress[2].log_end_offset == 10
    leader.on_metadata((1, 2), 5, (1, 2), 0)
    assert 4 not in leader._progress
    assert leader.on_follower_fetch(4, 14, 10, 0, 10, 0).is_assigned is False


@pytest.mark.spec("A3")
@pytest.mark.spec("R18")
@pytest.mark.spec("R21")
def test_a_replica_that_is_being_added_fetches_and_counts_only_when_it_caught_up():
    leader = make(replicas=(1, 2, 4), isr=(1, 2))
    outcome = fetch(leader, 4, 3)
    assert (outcome.is_assigned, outcome.proposal) == (True, None)
    fetch(leader, 2, 10)
    assert leader.high_watermark == 10, "one that is far behind is not waited for"
    assert members(fetch(leader, 4, 10).proposal) == [1, 2, 4]
    leader.on_append(12, 0)
    fetch(leader, 2, 12)
    assert leader.high_watermark == 10, "from here on it is"
    fetch(leader, 4, 12)
    assert leader.high_watermark == 12


@pytest.mark.spec("A3")
@pytest.mark.spec("R21")
def test_a_replica_that_was_taken_away_is_neither_waited_for_nor_let_in():
    leader = make(replicas=(1, 2, 3, 4), isr=(1, 2, 3, 4))
    for replica_id in (2, 3):
        fetch(leader, replica_id, 10)
    assert leader.high_watermark == 0
    assert leader.on_metadata((1, 2, 3), 4, (1, 2, 3), 0), "the one it waited for is gone"
    assert leader.high_watermark == 10
    assert fetch(leader, 4, 10).is_assigned is False
    assert leader.maybe_expand(4, 0) is None


# -- acks --------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R23")
def test_too_small_an_isr_refuses_an_append():
    with pytest.raises(KafkaError) as refusal:
        make(isr=(1,), min_insync=2).check_enough_in_sync()
    assert refusal.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "min.insync.replicas=2" in refusal.value.message


@pytest.mark.spec("R23")
@pytest.mark.spec("D4")
def test_the_high_watermark_passes_what_the_isr_has_while_it_is_large_enough():
    leader = make(isr=(1, 2), min_insync=2)
    assert leader.high_watermark == 0
    fetch(leader, 2, 10)
    assert leader.high_watermark == 10
    leader.on_metadata((1,), 4, (1, 2, 3), 0)
    assert leader.is_under_min_isr


@pytest.mark.spec("R23")
def test_who_waits_while_the_isr_becomes_too_small_is_told_at_once():
    leader = make(isr=(1, 2), min_insync=2)
    shrink = leader.maybe_shrink(LAG_MS + 1)
    assert not leader.is_under_min_isr, "while that is in flight nothing is settled"
    assert not leader.on_proposal_accepted(shrink, (1,), 4, LAG_MS + 1)
    assert leader.high_watermark == 0
    assert leader.is_under_min_isr


# -- views -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R25")
def test_the_preferred_read_replica_is_in_the_rack_in_sync_and_furthest():
    leader = make(replicas=(1, 2, 3, 4))
    fetch(leader, 2, 7)
    fetch(leader, 3, 9, log_start_offset=5)
    assert leader.preferred_read_replica(6, {2, 3}) == 3
    assert leader.preferred_read_replica(4, {2, 3}) == 2, "3 has it no longer"
    assert leader.preferred_read_replica(8, {2}) is None
    assert leader.preferred_read_replica(8, {4}) is None


# -- the naive twin ----------------------------------------------------------------------------------------------------


class NaiveHighWatermark:
    """Row R21 word for word, from the whole history of fetches."""

    def __init__(self, leader, min_insync):
        self.leader, self.min_insync = leader, min_insync
        self.fetches = {2: [], 3: []}
        self.caught_up_ms = {replica: [0] if replica in leader.isr else [] for replica in self.fetches}
        self.value = 0

    def on_fetch(self, replica, offset, now_ms):
        history = self.fetches[replica]
        if offset >= self.leader.log_end_offset:
            self.caught_up_ms[replica].append(now_ms)
        elif history and offset >= history[-1][1]:
            self.caught_up_ms[replica].append(history[-1][2])
        history.append((offset, self.leader.log_end_offset, now_ms))

    def evaluate(self, now_ms):
        if len(self.leader.isr) >= min(self.min_insync, 3):
            ends = [self.leader.log_end_offset]
            for replica, history in self.fetches.items():
                end = history[-1][0] if history else -1
                lately = any(now_ms - time_ms <= LAG_MS for time_ms in self.caught_up_ms[replica])
                if replica in self.leader._isr.maximal or lately or end == self.leader.log_end_offset:
                    ends.append(end)
            self.value = max(self.value, min(ends))
        return self.value


@pytest.mark.spec("R21")
@pytest.mark.parametrize("seed", range(60))
def test_the_high_watermark_agrees_with_its_naive_twin(seed):
    rng = random.Random(seed)
    min_insync = rng.choice((1, 2))
    leader = make(end=0, min_insync=min_insync)
    twin = NaiveHighWatermark(leader, min_insync)
    ends, now_ms = {2: 0, 3: 0}, 0
    for _ in range(150):
        now_ms += rng.choice((0, 1, 5, 40))
        action = rng.randrange(8)
        proposal = leader.proposal_in_flight
        if action < 2:
            leader.on_append(leader.log_end_offset + rng.randrange(1, 4), now_ms)
        elif action < 5:
            replica = rng.choice((2, 3))
            ends[replica] = rng.randrange(ends[replica], leader.log_end_offset + 1)
            twin.on_fetch(replica, ends[replica], now_ms)
            fetch(leader, replica, ends[replica], now_ms)
        elif action == 5:
            leader.maybe_shrink(now_ms)
        elif proposal is not None and action == 6:
            leader.on_proposal_accepted(proposal, members(proposal), proposal.partition_epoch + 1, now_ms)
        elif proposal is not None:
            leader.on_proposal_refused(proposal, rng.choice(list(ErrorCode)), now_ms)
        leader.maybe_advance_high_watermark(now_ms)
        assert leader.high_watermark == twin.evaluate(now_ms)
