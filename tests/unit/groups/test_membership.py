"""Heartbeats and leaving, beyond the golden scenarios."""

from __future__ import annotations

import pytest
from groups_driver import Driver

from minikafka.errors import ErrorCode
from minikafka.groups.group import GroupState


def test_several_leave_with_one_rebalance(driver: Driver) -> None:
    a, b, c = driver.stable("a", "b", "c")
    answer = driver.leave((b, None), (c, None), ("", None), (a, "i"))
    assert [member.error_code for member in answer.members] == [0, 0, 25, 25]
    assert (driver.group().state, driver.group().generation_id) == (GroupState.PREPARING_REBALANCE, 2)


@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_the_error_is_where_the_version_has_it(driver: Driver, version: int) -> None:
    driver.stable("a")
    answer = driver.leave(("nobody", None), version=version)
    if version < 3:
        assert (answer.error_code, answer.members) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    else:
        assert (answer.error_code, answer.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


def test_nobody_leaving_is_fine(driver: Driver) -> None:
    driver.stable("a")
    assert driver.leave().members == []


def test_an_id_that_was_given_out_may_leave(driver: Driver) -> None:
    given = driver.join("a", version=5).member_id
    assert driver.leave((given, None)).members[0].error_code == 0
    assert driver.group() is None


@pytest.mark.spec("D7")
@pytest.mark.parametrize("leaves", [False, True])
def test_an_id_that_was_given_out_and_never_used_disturbs_no_generation(driver: Driver, leaves: bool) -> None:
    (member,) = driver.stable("a")
    given = driver.join("b", version=5, session_ms=10_000).member_id
    if leaves:
        assert driver.leave((given, None)).members[0].error_code == 0
    for _ in range(4):
        driver.advance(5_000)
        assert driver.heartbeat(member, 1).error_code == 0
    assert (driver.group().state, driver.group().generation_id) == (GroupState.STABLE, 1)
    assert not driver.group().pending_members


@pytest.mark.parametrize("leaves", [False, True])
def test_joins_wait_no_longer_for_an_id_that_comes_no_more(driver: Driver, leaves: bool) -> None:
    (member,) = driver.stable("a")
    given = driver.join("b", version=5, session_ms=10_000).member_id
    rejoin = driver.join("a", member=member)
    assert rejoin not in driver.answers
    if leaves:
        driver.leave((given, None))
    else:
        driver.advance(10_000)
    assert driver.answers[rejoin].generation_id == 2


def test_an_old_id_of_an_instance_cannot_make_the_new_one_leave(driver: Driver) -> None:
    (old,) = driver.stable("a", instance="i")
    driver.join("a", instance="i")
    assert driver.leave((old, "i")).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_who_leaves_while_it_waits_is_answered(driver: Driver) -> None:
    a, b = driver.stable("a", "b")
    driver.join("a", member=a)
    join = driver.join("c")
    (c,) = set(driver.group().members) - {a, b}
    driver.leave((c, None))
    assert driver.answers[join].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.join("b", member=b)
    sync = driver.sync(b, 3)
    driver.leave((b, None))
    assert driver.answers[sync].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_first_join_is_not_parked_for_ever() -> None:
    driver = Driver(new_member_join_timeout_ms=30_000)
    (member,) = driver.stable("a", rebalance_ms=100_000)
    join = driver.join("b", rebalance_ms=100_000)
    for _ in range(4):
        driver.advance(9_000)
        assert driver.heartbeat(member, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.answers[join].error_code == ErrorCode.UNKNOWN_MEMBER_ID
