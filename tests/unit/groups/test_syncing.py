"""SyncGroup beyond the golden scenarios."""

from __future__ import annotations

import pytest
from groups_driver import Driver

from minikafka.coordination.effects import Respond
from minikafka.errors import ErrorCode


def test_who_is_left_out_gets_nothing(driver: Driver) -> None:
    joined = driver.join("a")
    assert driver.sync(joined.member_id, 1, {"stranger": b"x"}).assignment == b""


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "error"),
    [
        ("consumer", "range", ErrorCode.NONE),
        (None, None, ErrorCode.NONE),
        ("connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_the_protocol_is_checked_from_version_5(
    driver: Driver, protocol_type: str | None, protocol: str | None, error: ErrorCode
) -> None:
    member = driver.join("a").member_id
    answer = driver.sync(member, 1, {member: b"x"}, protocol_type=protocol_type, protocol=protocol)
    assert answer.error_code == error


@pytest.mark.spec("D7")
def test_the_leader_is_answered_first_though_it_comes_last(driver: Driver) -> None:
    leader, b, c = driver.stable("a", "b", "c")
    driver.join("a", member=leader)
    driver.join("b", member=b)
    driver.join("c", member=c)
    generation = driver.group().generation_id
    parked = [driver.sync(c, generation), driver.sync(b, generation)]
    driver.sync(leader, generation, {leader: b"1", b: b"2", c: b"3"}, token="leader")
    answered = [effect.token for effect in driver.effects if isinstance(effect, Respond)]
    assert answered == ["leader", *parked]


def test_a_generation_that_is_over_has_no_assignment(driver: Driver) -> None:
    (member,) = driver.stable("a")
    driver.join("b")
    assert driver.sync(member, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_too_large_for_the_log() -> None:
    driver = Driver(auto_commit=False)
    member = driver.join("a").member_id
    token = driver.sync(member, 1, {member: b"x" * 100})
    driver.failed(ErrorCode.MESSAGE_TOO_LARGE)
    assert driver.answers[token].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.spec("D7")
def test_a_session_does_not_end_while_the_assignment_is_awaited(driver: Driver) -> None:
    a, b = driver.stable("a", "b")
    driver.join("a", member=a, session_ms=6_000, rebalance_ms=60_000)
    driver.join("b", member=b, session_ms=6_000, rebalance_ms=60_000)
    parked = driver.sync(b, 3)
    for _ in range(8):
        driver.advance(5_000)
        assert driver.heartbeat(a, 3).error_code == 0
    driver.sync(a, 3, {b: b"x"})
    assert driver.answers[parked].assignment == b"x"
