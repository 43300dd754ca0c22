"""Target assignments that are made outside of the step: of groups that are too large for the loop."""

from __future__ import annotations

import pytest
from classic_group import classic_group, rejoin
from consumer_driver import ConsumerDriver, given

from minikafka.errors import ErrorCode
from minikafka.groups.consumer.group import ConsumerGroupState


@pytest.fixture
def large() -> ConsumerDriver:
    """Every group is too large."""
    return ConsumerDriver(assigned_at_once_max=0)


def indexes(answer: object) -> list[int]:
    return sorted(index for _, index in given(answer) or ())


@pytest.mark.spec("G2")
def test_members_go_on_while_the_assignment_is_made(large: ConsumerDriver) -> None:
    assert large.beat("a").member_epoch == 1, "an epoch to heartbeat in, and no partitions"
    assert large.beat("a", 1).member_epoch == 1
    assert len(large.assignments) == 1, "it is asked once"
    large.assign()
    answer = large.beat("a", 1)
    assert (answer.member_epoch, indexes(answer)) == (2, [0, 1, 2, 3])
    assert large.beat("b").member_epoch == 2
    assert large.beat("a", 2).error_code == 0
    assert large.consumer().state is ConsumerGroupState.ASSIGNING
    large.assign()
    assert large.consumer().targets.keys() == {"a", "b"}


@pytest.mark.spec("G2")
def test_who_leaves_meanwhile_gets_nothing(large: ConsumerDriver) -> None:
    large.beat("a")
    large.beat("b")
    large.assign()
    large.beat("a", 1)
    assert [name for name, *_ in large.assignments[0].question.members] == ["a", "b"]
    large.beat("b", -1)
    large.assign()
    assert large.consumer().targets.keys() == {"a"}
    assert len(large.consumer().targets["a"][large.topic_id("t")]) == 2
    large.beat("a", 2)
    large.assign()
    assert len(large.consumer().targets["a"][large.topic_id("t")]) == 4


@pytest.mark.spec("G2", "G7")
def test_an_answer_about_another_group_of_that_epoch_is_dropped(large: ConsumerDriver) -> None:
    """The number of its epoch alone does not tell it: a write has failed, and the next one has made the epoch again."""
    large.beat("a")
    large.assign()
    large.beat("a", 1)
    large.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    assert large.beat("b").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    epoch = large.consumer().epoch
    large.beat("c")
    assert large.consumer().epoch == epoch + 1
    large.assign()
    assert large.consumer().assignment_epoch == epoch, "it was about a and b"
    large.beat("c", 2)
    large.assign()
    assert large.consumer().targets.keys() == {"a", "c"}


@pytest.mark.spec("G2", "G7")
def test_who_takes_a_place_meanwhile_gets_its_share(large: ConsumerDriver) -> None:
    large.beat("s", instance="i")
    large.beat("a")
    large.assign()
    large.beat("s", -2, instance="i")
    large.beat("t", instance="i")
    for _ in range(3):
        while large.assignments:
            large.assign()
        for member in ("a", "t"):
            large.beat(member, large.consumer().current(member).member_epoch)
    assert sorted(len(each[large.topic_id("t")]) for each in large.consumer().targets.values()) == [2, 2]


@pytest.mark.spec("G2")
def test_members_have_an_epoch_whatever_was_asked_before(large: ConsumerDriver) -> None:
    """A question is under way about members whose join could not be written; the group stays, for its offsets."""
    large.commit({("t", 0): 7})
    large.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    assert large.beat("a").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert large.beat("b").member_epoch == 1
    assert len(large.assignments) == 1
    large.assign()
    large.beat("b", 1)
    large.assign()
    assert indexes(large.beat("b", 1)) == [0, 1, 2, 3]


def test_a_group_that_is_gone_needs_no_answer(large: ConsumerDriver) -> None:
    large.beat("a")
    large.beat("a", -1)
    large.delete_group("g")
    large.assign()
    assert "g" not in large.coordinator.shard.groups


@pytest.fixture
def slow() -> ConsumerDriver:
    """Ten seconds between two assignments."""
    return ConsumerDriver(consumer_assignment_interval_ms=10_000, topics={"t": 4, "u": 2})


@pytest.mark.spec("G15")
def test_all_changes_of_an_interval_are_in_the_next_assignment(slow: ConsumerDriver) -> None:
    assert indexes(slow.beat("a")) == [0, 1, 2, 3]
    slow.advance(4_000)
    for member in ("b", "c"):
        joined = slow.beat(member)
        assert (joined.member_epoch, given(joined)) == (1, frozenset())
    slow.advance(5_999)
    assert slow.beat("b", 1).member_epoch == 1
    assert (slow.consumer().epoch, slow.consumer().assignment_epoch) == (3, 1)
    assert slow.consumer().state is ConsumerGroupState.ASSIGNING
    slow.advance(1)
    assert slow.beat("b", 1).member_epoch == 3
    assert sorted(len(each[slow.topic_id("t")]) for each in slow.consumer().targets.values()) == [1, 1, 2]
    slow.beat("d")
    assert slow.consumer().assignment_epoch == 3, "the next interval has begun"


@pytest.mark.spec("G15")
def test_nobody_is_given_a_topic_that_it_wants_no_more(slow: ConsumerDriver) -> None:
    t, u = slow.topic_id("t"), slow.topic_id("u")
    first = given(slow.beat("a", names=["t", "u"]))
    slow.advance(10_000)
    slow.beat("b", names=["t", "u"])
    slow.beat("b", 2, names=["u"])
    kept = given(slow.beat("a", 1, owned=first))
    slow.beat("a", 1, owned=kept)
    free = given(slow.beat("b", 2))
    assert {topic_id for topic_id, _ in free or ()} == {u}, "not t, which is free, too"
    told = given(slow.beat("a", 2, owned=kept, names=["u"]))
    assert {topic_id for topic_id, _ in told or ()} <= {u}
    assert slow.consumer().current("a").pending_revocation.keys() == {t}
    slow.beat("a", 2, owned=told)
    assert slow.consumer().is_reconciled("a")
    assert (slow.consumer().epoch, slow.consumer().assignment_epoch) == (4, 2)


@pytest.mark.spec("G15")
def test_with_an_expression_that_is_not_resolved_a_member_keeps_what_it_has(slow: ConsumerDriver) -> None:
    slow.beat("a")
    assert indexes(slow.beat("a", 1, names=[], regex="u")) == [0, 1, 2, 3]
    slow.resolve()
    assert given(slow.beat("a", 1)) == frozenset()


@pytest.mark.spec("G15")
def test_a_write_that_fails_takes_the_interval_with_it(slow: ConsumerDriver) -> None:
    slow.beat("a")
    slow.advance(10_000)
    slow.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    assert slow.beat("b").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert slow.beat("b").member_epoch == 2


@pytest.mark.spec("G15")
def test_classic_members_are_told_to_join_when_that_changes_something() -> None:
    driver = ConsumerDriver(consumer_assignment_interval_ms=10_000)
    (member,) = classic_group(driver, None)
    driver.beat("a")
    assert rejoin(driver, member, 0, 1, 2, 3)[0] == 1
    generation = rejoin(driver, member, 0, 1)[0]
    driver.beat("b")
    assert driver.consumer().epoch > driver.consumer().assignment_epoch == generation
    assert driver.heartbeat(member, generation).error_code == 0
    assert driver.sync(member, generation).error_code == 0
    driver.advance(9_000)
    assert driver.heartbeat(member, generation).error_code == 0
    driver.advance(1_000)
    assert driver.heartbeat(member, generation).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_small_groups_do_not_wait() -> None:
    driver = ConsumerDriver(assigned_at_once_max=5)
    assert indexes(driver.beat("a")) == [0, 1, 2, 3]
    assert not driver.assignments
    driver.beat("b")
    assert driver.assignments
