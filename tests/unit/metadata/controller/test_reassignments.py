"""Partitions move from brokers to brokers (rows A2-A4); the golden scenario has the plain course."""

from __future__ import annotations

from typing import Any

import controller_requests as ask
import pytest

from minikafka.errors import ErrorCode


@pytest.fixture
def five(cluster: Any) -> Any:
    cluster.join(4, 5)
    cluster.create("t", (1, 2, 3))
    return cluster


@pytest.mark.spec("A2")
@pytest.mark.parametrize(
    ("replicas", "code", "problem"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "t-0: replicas is empty"),
        ((4, 4), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "duplicate broker in replicas"),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9 is not registered"),
        ((1, 5), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 5 is not alive"),
        ((1, 4), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 4 is stopping"),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "t-0 is not being reassigned"),
    ],
)
def test_what_is_refused_changes_nothing(five: Any, replicas: Any, code: ErrorCode, problem: str) -> None:
    five.fence(5)
    five.heartbeat(4, want_shut_down=True, at=0)
    before = five.image
    result = five.reassign(replicas)
    assert result.error_code == code
    assert problem in result.error_message
    assert five.image == before


@pytest.mark.spec("A2")
def test_partitions_are_refused_each_for_itself(five: Any) -> None:
    five.create("u", (1, 2))
    wishes = (
        ask.wish("t", (0, (4, 5, 1)), (7, (1,))),
        ask.wish("__cluster_metadata", (0, (1,))),
        ask.wish("nope", (0, None)),
        ask.wish("u", (0, (1,)), (0, (2,))),
    )
    response = five.ask(ask.reassign(*wishes))
    assert [[one.error_code for one in topic.partitions] for topic in response.responses] == [
        [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.INVALID_TOPIC_EXCEPTION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.INVALID_REQUEST] * 2,
    ]
    assert five.partition().is_reassigning
    assert not five.partition(topic="u").is_reassigning


@pytest.mark.spec("A2")
def test_another_replication_factor_is_refused_where_it_is_not_allowed(five: Any) -> None:
    result = five.reassign((1, 2), allow_replication_factor_change=False)
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert five.reassign((4, 2, 1), allow_replication_factor_change=False).error_code == ErrorCode.NONE
    assert five.reassign((1, 2)).error_code == ErrorCode.NONE


@pytest.mark.spec("A3")
@pytest.mark.parametrize("killed_before", ["nothing", "catching up", "completion", "the leader is heard"])
def test_a_controller_that_dies_is_carried_on_from(five: Any, killed_before: str) -> None:
    five.reassign((4, 5))
    if killed_before == "catching up":
        five.fail_over()
        five.wait(500, 1, 2, 3, 4, 5)
    five.propose((1, 2, 3, 4))
    if killed_before in ("completion", "the leader is heard"):
        five.fail_over()
    if killed_before == "completion":
        five.wait(500, 1, 2, 3, 4, 5)
    answer = five.propose((1, 2, 3, 4, 5))
    assert (answer.error_code, answer.isr) == (ErrorCode.NONE, [4, 5, 1, 2, 3]), (
        "told of what it proposed, not of the rest"
    )
    if killed_before == "the leader is heard":
        assert five.partition().is_reassigning, "nobody in the target is known to be there"
        five.heartbeat(4)
    partition = five.partition()
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((4, 5), (4, 5), 4, 1)
    assert not partition.is_reassigning


@pytest.mark.spec("A3")
def test_the_leader_cannot_propose_again_before_it_has_the_new_assignment(five: Any) -> None:
    five.reassign((1, 4))
    answer = five.propose((1, 2, 3, 4))
    assert five.partition().replicas == (1, 4)
    assert answer.partition_epoch == five.partition().partition_epoch - 1
    again = five.propose((1,), partition_epoch=answer.partition_epoch, leader_epoch=answer.leader_epoch)
    assert again.error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.spec("A4")
def test_cancelling_brings_back_what_was_there(five: Any) -> None:
    five.reassign((4, 5))
    five.propose((1, 2, 3, 4))
    five.reassign((5, 3))
    assert five.partition().replicas == (5, 3, 1, 2)
    assert set(five.partition().isr) == {1, 2, 3}, "4 was only being added"
    assert five.reassign(None).error_code == ErrorCode.NONE
    partition = five.partition()
    assert set(partition.replicas) == set(partition.isr) == {1, 2, 3}
    assert not partition.is_reassigning


@pytest.mark.spec("A4")
@pytest.mark.spec("P1")
def test_the_only_replica_with_the_records_is_not_taken_away(five: Any) -> None:
    five.reassign((4, 5))
    five.propose((1, 4))
    five.propose((1, 4, 2))
    five.propose((1, 4))
    five.fence(1, 2, 3)
    assert (five.partition().isr, five.partition().leader) == ((4,), 4)
    result = five.reassign(None)
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "only on [4]" in result.error_message


@pytest.mark.spec("A4")
@pytest.mark.spec("P2")
@pytest.mark.parametrize("target", [None, (1, 2, 3), (5, 1)])
def test_as_many_replicas_as_the_minimum_keep_the_records(five: Any, target: tuple[int, ...] | None) -> None:
    """Else one machine that loses power takes what was acknowledged (seed 310410 of the partition schedules)."""
    five.alter("t", min_insync_replicas="2")
    five.reassign((4, 5))
    five.propose((1, 4))
    result = five.reassign(target)
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "only on [4, 1], of which [1] would stay" in result.error_message
    assert five.partition().replicas == (4, 5, 1, 2, 3)
    five.propose((1, 4, 2))
    assert five.reassign(target).error_code == ErrorCode.NONE
    assert set(five.partition().isr) == {1, 2}


@pytest.fixture
def short(five: Any) -> Any:
    """Broker 3 is dead for good, and in the ELR; 2 left the ISR before, and cannot come back (row R26)."""
    five.alter("t", min_insync_replicas="2")
    five.fence(2)
    five.fence(3)
    five.heartbeat(2)
    assert (five.partition().isr, five.partition().elr) == ((1,), (3,))
    return five


@pytest.mark.spec("R26")
def test_another_broker_in_the_place_of_a_dead_one_ends_the_wait_for_it(short: Any) -> None:
    assert short.reassign((1, 2)).error_code == ErrorCode.NONE
    assert short.partition().elr == (3,), "it is let go only when 2 is in sync, and 2 waits for it"
    assert short.reassign((1, 2, 4)).error_code == ErrorCode.NONE
    assert short.propose((1, 4)).error_code == ErrorCode.NONE
    assert (set(short.partition().isr), short.partition().elr) == ({1, 4}, ())


@pytest.mark.spec("R26")
def test_a_dead_broker_that_is_unregistered_is_waited_for_no_more(short: Any) -> None:
    assert short.reassign((1, 2)).error_code == ErrorCode.NONE
    assert short.partition().is_reassigning, "it may have what was acknowledged, and come back"
    short.ask(ask.unregister(3))
    partition = short.partition()
    assert (partition.replicas, partition.isr, partition.elr, partition.is_reassigning) == ((1, 2), (1,), (), False)
    assert short.propose((1, 2)).error_code == ErrorCode.NONE


@pytest.mark.spec("A3")
def test_a_dead_replica_that_counts_for_nothing_goes_at_once(five: Any) -> None:
    five.propose((1, 3))
    five.fence(3)
    assert (five.partition().isr, five.partition().elr) == ((1,), ())
    before = five.partition()
    assert five.reassign((1, 2)).error_code == ErrorCode.NONE
    after = five.partition()
    assert (after.replicas, after.isr, after.is_reassigning) == ((1, 2), (1,), False), "2 may catch up later"
    assert after.leader_epoch > before.leader_epoch


@pytest.mark.spec("A3")
def test_who_is_in_sync_goes_only_when_those_that_stay_are(five: Any) -> None:
    five.propose((1, 3))
    assert five.reassign((1, 2)).error_code == ErrorCode.NONE
    assert five.partition().is_reassigning, "2 is there, and will be in sync soon"
    five.propose((1, 2, 3))
    assert (five.partition().replicas, five.partition().isr) == ((1, 2), (1, 2))


@pytest.mark.spec("A3")
def test_a_new_replica_is_waited_for_whoever_is_dead(five: Any) -> None:
    five.fence(3)
    assert five.reassign((1, 2, 4)).error_code == ErrorCode.NONE
    assert five.partition().is_reassigning
    five.fence(4)
    assert five.partition().is_reassigning
    assert five.reassign(None).error_code == ErrorCode.NONE
    assert not five.partition().is_reassigning
    assert set(five.partition().replicas) == {1, 2, 3}


@pytest.mark.spec("R26")
def test_a_lower_minimum_ends_the_wait_for_a_dead_broker(short: Any) -> None:
    short.alter("t", min_insync_replicas="1")
    assert (short.partition().isr, short.partition().elr) == ((1,), ())


@pytest.mark.spec("A3")
def test_fewer_replicas_and_another_order_need_nobody_to_catch_up(five: Any) -> None:
    five.reassign((3, 2, 1))
    assert (five.partition().replicas, five.partition().leader) == ((3, 2, 1), 1)
    five.reassign((3,))
    partition = five.partition()
    assert (partition.replicas, partition.isr, partition.leader, partition.is_reassigning) == ((3,), (3,), 3, False)


def test_a_broker_is_not_given_more_replicas_than_it_can_keep_open(five: Any) -> None:
    five.controller._state.replicas_per_broker_max = 1
    five.create("u", (4,))
    assert five.reassign((4, 2, 3)).error_code == ErrorCode.POLICY_VIOLATION


@pytest.mark.spec("C5")
def test_new_partitions_count_the_replicas_after_the_reassignment(five: Any) -> None:
    five.reassign((4, 5))
    five.ask(ask.extend(ask.more("t", 2)))
    assert len(five.partition(1).replicas) == 2
