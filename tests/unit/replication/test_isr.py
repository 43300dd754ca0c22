from __future__ import annotations

import pytest

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.replication.isr import REFUSED, STALE, InSyncReplicas, IsrMember, IsrProposal

WHERE = TopicPartition("t", 0)


def proposal(*broker_ids, partition_epoch=3):
    return IsrProposal(WHERE, 1, partition_epoch, tuple(IsrMember(broker_id, 1) for broker_id in broker_ids))


FENCE = proposal(1, 2)


@pytest.fixture
def in_sync():
    return InSyncReplicas({1, 2}, partition_epoch=3)


@pytest.mark.spec("R20")
def test_the_maximal_isr_is_both_while_a_proposal_is_in_flight(in_sync):
    in_sync.propose(proposal(1, 2, 3))
    assert in_sync.maximal == {1, 2, 3}
    assert in_sync.committed == {1, 2}


@pytest.mark.spec("R20")
def test_a_shrink_in_flight_still_counts_who_would_leave(in_sync):
    in_sync.propose(proposal(1))
    assert in_sync.maximal == {1, 2}


@pytest.mark.spec("R20")
def test_accepted(in_sync):
    in_sync.propose(proposal(1, 2, 3))
    in_sync.commit({1, 2, 3}, 4)
    assert (in_sync.committed, in_sync.maximal) == ({1, 2, 3}, {1, 2, 3})
    assert (in_sync.partition_epoch, in_sync.in_flight) == (4, None)


@pytest.mark.spec("R20")
@pytest.mark.parametrize("error", sorted(REFUSED))
def test_a_refusal_of_what_was_sent_once_changes_nothing(in_sync, error):
    in_sync.propose(proposal(1, 2, 3))
    assert in_sync.on_refused(error, FENCE) is None
    assert (in_sync.maximal, in_sync.in_flight) == ({1, 2}, None)


@pytest.mark.spec("R20")
@pytest.mark.parametrize("error", sorted(STALE))
def test_a_stale_proposal_waits_for_metadata_and_keeps_counting(in_sync, error):
    in_sync.propose(proposal(1, 2, 3))
    assert in_sync.on_refused(error, FENCE) is None
    assert in_sync.in_flight is not None
    assert in_sync.maximal == {1, 2, 3}
    in_sync.commit({1, 2}, 4)
    assert (in_sync.maximal, in_sync.in_flight) == ({1, 2}, None)


@pytest.mark.spec("R20")
def test_without_a_verdict_the_same_is_sent_again(in_sync):
    sent = proposal(1, 2, 3)
    in_sync.propose(sent)
    assert in_sync.on_refused(ErrorCode.NETWORK_EXCEPTION, FENCE) is sent
    assert in_sync.on_refused(ErrorCode.NOT_CONTROLLER, FENCE) is sent
    assert in_sync.maximal == {1, 2, 3}


@pytest.mark.spec("R20")
def test_a_refusal_after_no_verdict_is_fenced_before_it_is_believed(in_sync):
    in_sync.propose(proposal(1, 2, 3))
    in_sync.on_refused(ErrorCode.REQUEST_TIMED_OUT, FENCE)
    assert in_sync.on_refused(ErrorCode.INELIGIBLE_REPLICA, FENCE) is FENCE
    assert in_sync.maximal == {1, 2, 3}, "the first sending may still be committed"
    assert in_sync.on_refused(ErrorCode.NETWORK_EXCEPTION, FENCE) is FENCE
    in_sync.commit({1, 2}, 4)
    assert in_sync.maximal == {1, 2}


def test_doubt_ends_with_the_proposal(in_sync):
    in_sync.propose(proposal(1, 2, 3))
    in_sync.on_refused(ErrorCode.REQUEST_TIMED_OUT, FENCE)
    in_sync.commit({1, 2}, 4)
    in_sync.propose(proposal(1, 2, 3, partition_epoch=4))
    assert in_sync.on_refused(ErrorCode.INELIGIBLE_REPLICA, FENCE) is None


def test_one_proposal_at_a_time(in_sync):
    in_sync.propose(proposal(1))
    with pytest.raises(AssertionError):
        in_sync.propose(proposal(1, 2, 3))
