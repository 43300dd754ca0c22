"""Who leads and who is in sync as brokers come and go, and proposals of leaders (rows C4, R20)."""

from __future__ import annotations

from itertools import permutations
from typing import Any
from uuid import UUID

import controller_requests as ask
import pytest

from minikafka.errors import ErrorCode, KafkaError


@pytest.mark.spec("C4")
def test_leaders_come_from_the_isr_in_the_order_of_the_assignment(cluster: Any) -> None:
    cluster.create("t", (3, 1, 2))
    cluster.propose((3, 2, 1))
    cluster.fence(3)
    assert cluster.partition().leader == 1
    cluster.propose((1,))
    cluster.fence(1)
    partition = cluster.partition()
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1,), (1,))
    cluster.heartbeat(3)
    assert cluster.partition().leader == -1, "outside of ISR and ELR nobody leads"


@pytest.mark.spec("C4")
def test_a_new_isr_raises_the_partition_epoch_and_a_new_leader_the_leader_epoch_too(cluster: Any) -> None:
    cluster.create("t", (1, 2))
    assert (cluster.partition().leader_epoch, cluster.partition().partition_epoch) == (0, 0)
    cluster.fence(2)
    assert (cluster.partition().leader_epoch, cluster.partition().partition_epoch) == (0, 1)
    cluster.fence(1)
    assert (cluster.partition().leader_epoch, cluster.partition().partition_epoch) == (1, 2)
    cluster.heartbeat(1)
    assert (cluster.partition().leader_epoch, cluster.partition().partition_epoch) == (2, 3)


@pytest.mark.spec("R20")
@pytest.mark.parametrize("isr", [(1,), (2, 1), (1, 3), (3, 2, 1)])
def test_a_valid_proposal(cluster: Any, isr: tuple[int, ...]) -> None:
    cluster.create("t", (1, 2, 3))
    result = cluster.propose(isr)
    assert result.error_code == ErrorCode.NONE
    assert (result.leader_id, result.leader_epoch, result.isr) == (1, 0, sorted(isr))
    assert result.partition_epoch == cluster.partition().partition_epoch == 1
    assert cluster.partition().isr == tuple(result.isr)


@pytest.mark.spec("R20")
@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ((2,), {"by": 1}, ErrorCode.INVALID_REQUEST),
        ((2, 4), {}, ErrorCode.INVALID_REQUEST),
        ((2, 2), {}, ErrorCode.INVALID_REQUEST),
        ((3,), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((2, 1), {}, ErrorCode.INELIGIBLE_REPLICA),
        ((2,), {"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ((2,), {"leader_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ((2,), {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ((2,), {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ((2,), {"partition": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((2,), {"topic_id": UUID(int=9)}, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_a_refused_proposal_changes_nothing(
    cluster: Any, isr: tuple[int, ...], changes: dict[str, Any], code: ErrorCode
) -> None:
    cluster.join(4)
    cluster.create("t", (1, 2, 3))
    cluster.fence(1)
    before = cluster.image
    assert "by" in changes or cluster.partition().leader == 2
    by = changes.pop("by", None)
    if by is not None:
        cluster.heartbeat(by)
        before = cluster.image
        changes["by"] = by
    result = cluster.propose(isr, **changes)
    assert result.error_code == code
    assert result.error_message
    assert cluster.image == before


@pytest.mark.spec("R20")
def test_proposals_of_a_batch_stand_each_for_itself_and_the_second_of_a_partition_is_too_old(cluster: Any) -> None:
    cluster.create("t", (1, 2, 3), (1, 2, 3))
    topic_id = cluster.image.topics_by_name["t"].topic_id
    changes = tuple(
        ask.proposal(topic_id, index, 0, 0, tuple(ask.member(one, cluster.epochs.get(one, 0)) for one in isr))
        for index, isr in ((0, (1, 2)), (0, (1, 3)), (1, (1, 9)), (1, (1,)))
    )
    response = cluster.ask(ask.propose(1, cluster.epochs[1], *changes))
    assert [result.error_code for result in ask.proposed(response)] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]
    assert (cluster.partition(0).isr, cluster.partition(1).isr) == ((1, 2), (1,))


@pytest.mark.spec("R20")
def test_a_proposal_that_changes_nothing_voids_those_on_their_way(cluster: Any) -> None:
    cluster.create("t", (1, 2, 3))
    assert cluster.propose((1, 2, 3)).error_code == ErrorCode.NONE
    assert cluster.propose((1, 2), partition_epoch=0).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.partition().isr == (1, 2, 3)


@pytest.mark.spec("R20")
def test_a_rebooted_follower_is_not_let_in_on_its_old_fetches(cluster: Any) -> None:
    """KIP-903: the leader proposes by what the process before had fetched."""
    cluster.create("t", (1, 2))
    stale = ask.member(2, cluster.epochs[2])
    cluster.fence(2)
    cluster.register(2)
    cluster.heartbeat(2)
    leader = ask.member(1, cluster.epochs[1])
    for member in (stale, ask.member(2)):
        assert cluster.propose((leader, member)).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.propose((1, 2)).error_code == ErrorCode.NONE
    assert cluster.propose((leader, ask.member(2))).error_code == ErrorCode.NONE, "it is in already"


@pytest.mark.spec("R20")
def test_a_stopping_replica_is_not_let_in(cluster: Any) -> None:
    cluster.create("t", (1, 2))
    cluster.heartbeat(2, want_shut_down=True)
    assert cluster.partition().isr == (1,)
    result = cluster.propose((1, 2))
    assert (result.error_code, result.error_message) == (ErrorCode.INELIGIBLE_REPLICA, "broker 2 is stopping")


@pytest.mark.spec("R20")
def test_a_replaced_leader_proposes_nothing(cluster: Any) -> None:
    cluster.create("t", (1, 2))
    stale = cluster.epochs[1]
    cluster.fence(1)
    cluster.register(1)
    with pytest.raises(KafkaError) as raised:
        cluster.ask(ask.propose(1, stale))
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.spec("P1")
@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
@pytest.mark.parametrize("returned", [1, 2, 3])
def test_after_a_crash_of_all_whoever_returns_serves(cluster: Any, order: tuple[int, ...], returned: int) -> None:
    """kill -9 of all at once: every ISR member has what was acknowledged, in whatever order they return."""
    cluster.create("t", (1, 2, 3))
    cluster.fail_over()
    back = order[:returned]
    for broker_id in back:
        cluster.register(broker_id)
        everybody = {*cluster.partition().isr, *cluster.partition().elr}
        assert everybody == {1, 2, 3}, "nobody is known to be there who could do without the others"
    for broker_id in back:
        cluster.heartbeat(broker_id)
    cluster.wait(3100, *back)
    partition = cluster.partition()
    assert partition.leader in back
    assert set(partition.isr) <= set(back)


@pytest.mark.spec("P1")
def test_a_returning_broker_leaves_the_isr_when_another_member_is_there(cluster: Any) -> None:
    cluster.create("t", (1, 2, 3))
    cluster.create("alone", (1,))
    cluster.fence(1)
    cluster.register(1)
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))
    alone = cluster.partition(topic="alone")
    assert (alone.leader, alone.isr, alone.elr) == (-1, (), (1,)), "the only member stays eligible"
    cluster.heartbeat(1)
    assert cluster.partition(topic="alone").leader == 1


@pytest.mark.spec("C4")
def test_unclean_election_waits_for_a_member_that_may_be_there(cluster: Any) -> None:
    configs = (("unclean.leader.election.enable", "true"),)
    cluster.create("t", (1, 2, 3), configs=configs)
    cluster.propose((1, 2))
    cluster.fail_over()
    cluster.fence(1)
    cluster.heartbeat(3)
    assert cluster.partition().leader == -1, "broker 2 was live when the other controller went"
    cluster.wait(3100, 3)
    assert (cluster.partition().leader, cluster.partition().isr) == (3, (3,))
