"""Rebalances beyond the golden scenarios."""

from __future__ import annotations

from groups_driver import Driver

from minikafka.errors import ErrorCode
from minikafka.groups.group import GroupState


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    driver = Driver(initial_rebalance_delay_ms=3_000)
    first = driver.join("c0", rebalance_ms=7_000)
    for number in range(1, 10):
        driver.advance(1_000)
        if driver.group().state is GroupState.PREPARING_REBALANCE:
            driver.join(f"c{number}", rebalance_ms=7_000)
    assert driver.now_ms == 9_000
    assert len(driver.answers[first].members) == 7, "3 s, 3 s again and the 1 s that was left"


def test_a_dynamic_member_that_does_not_rejoin_is_out(driver: Driver) -> None:
    a, b = driver.stable("a", "b", session_ms=30_000, rebalance_ms=5_000)
    driver.leave((b, None))
    driver.advance(5_000)
    assert driver.group().state is GroupState.EMPTY
    assert driver.heartbeat(a, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_that_are_all_away_are_waited_for_until_their_sessions_end(driver: Driver) -> None:
    driver.stable("a", instance="i", session_ms=30_000, rebalance_ms=5_000)
    driver.join("b", session_ms=6_000, rebalance_ms=5_000)
    (b,) = driver.group().awaiting_join
    driver.leave((b, None))
    driver.advance(29_000)
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    driver.advance(1_000)
    assert driver.group().state is GroupState.EMPTY


def test_a_pending_member_is_waited_for(driver: Driver) -> None:
    (member,) = driver.stable("a")
    given = driver.join("b", version=5, session_ms=6_000).member_id
    parked = driver.join("a", member=member)
    driver.advance(5_000)
    assert parked in driver.parked
    driver.join("b", member=given, version=5)
    assert driver.answers[parked].generation_id == 2
