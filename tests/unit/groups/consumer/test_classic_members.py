"""Requests of classic members in a consumer group: what they are refused for, and their deadlines."""

from __future__ import annotations

from typing import Any

import pytest
from classic_group import classic_group, metadata, rejoin
from consumer_driver import ConsumerDriver

from minikafka.errors import ErrorCode
from minikafka.groups.settings import MigrationPolicy

pytestmark = pytest.mark.spec("G14")


@pytest.fixture
def driver() -> ConsumerDriver:
    """A consumer group of "new" and one classic member, which has joined."""
    driver = ConsumerDriver()
    (member,) = classic_group(driver, None)
    driver.beat("new")
    rejoin(driver, member)
    return driver


def one(driver: ConsumerDriver) -> str:
    """The classic member."""
    return next(name for name, each in driver.consumer().subscriptions.items() if each.classic is not None)


def join(driver: ConsumerDriver, **how: Any) -> Any:
    return driver.join(**{"protocols": {"range": metadata()}, **how})


def test_a_new_member_is_given_an_id_and_joins_with_it(driver: ConsumerDriver) -> None:
    refused = join(driver, version=9)
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id not in driver.consumer().subscriptions
    joined = join(driver, member=refused.member_id, version=9)
    assert (joined.error_code, joined.member_id, joined.protocol_name) == (0, refused.member_id, "range")
    assert (joined.leader, joined.members) == ("", [])


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"sticky": metadata()}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"range": b"\0"}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member": "new"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member": "x", "instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member": "removed", "protocols": {"range": metadata(0)}}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_who_cannot_join(driver: ConsumerDriver, how: dict[str, Any], error: ErrorCode) -> None:
    rows = dict(driver.consumer().committed)
    assert join(driver, **how).error_code == error
    assert driver.consumer().committed == rows


def test_a_full_group_takes_nobody_else() -> None:
    full = ConsumerDriver(consumer_max_size=2)
    (member,) = classic_group(full, None)
    full.beat("new")
    assert join(full, client="more").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert rejoin(full, member)[0] == 2


def test_members_are_told_apart_by_id_generation_and_protocol(driver: ConsumerDriver) -> None:
    assert driver.heartbeat("nobody", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("new", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync("new", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync(one(driver), 1).error_code == ErrorCode.ILLEGAL_GENERATION
    assert driver.sync(one(driver), 2, protocol="sticky").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(one(driver), 2, protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    driver.beat("more")
    assert driver.sync(one(driver), 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_of_either_protocol_are_removed_by_leave_group(driver: ConsumerDriver) -> None:
    driver.beat("static", instance="i")
    left = driver.leave((one(driver), None), ("nobody", None), ("", "i"), ("x", "j"))
    assert [each.error_code for each in left.members] == [
        0,
        ErrorCode.UNKNOWN_MEMBER_ID,
        0,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(driver.consumer().subscriptions) == ["new"]
    assert driver.leave(("nobody", None), version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_join_again_in_time_is_removed(driver: ConsumerDriver) -> None:
    """It has its rebalance timeout from the first time that it is told."""
    driver.beat("more")
    member = one(driver)
    for _ in range(9):
        assert driver.heartbeat(member, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        driver.beat("more", 3)
        driver.beat("new", driver.consumer().current("new").member_epoch)
        driver.advance(7_000)
    assert member not in driver.consumer().subscriptions


def test_who_does_not_fetch_its_assignment_in_time_is_removed(driver: ConsumerDriver) -> None:
    member = one(driver)
    join(driver, member=member)
    for _ in range(9):
        driver.heartbeat(member, 2)
        driver.beat("new", 2)
        driver.advance(7_000)
    assert member not in driver.consumer().subscriptions


def test_a_session_ends_after_the_time_that_the_member_asked_for(driver: ConsumerDriver) -> None:
    member = one(driver)
    driver.advance(9_000)
    driver.heartbeat(member, 2)
    driver.advance(9_000)
    assert member in driver.consumer().subscriptions
    driver.advance(2_000)
    assert member not in driver.consumer().subscriptions


def test_a_heartbeat_notices_topics_since_nobody_leads() -> None:
    driver = ConsumerDriver(consumer_migration_policy=MigrationPolicy.UPGRADE)
    (member,) = classic_group(driver, None)
    driver.beat("new")
    rejoin(driver, member)
    driver.beat("new", -1)
    assert driver.heartbeat(member, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(driver, member) == (3, [0, 1, 2, 3])
    assert driver.heartbeat(member, 3).error_code == 0
    driver.change_topics(t=5)
    assert driver.heartbeat(member, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(driver, member) == (4, [0, 1, 2, 3, 4])


def test_an_older_member_gets_an_assignment_that_it_can_read(driver: ConsumerDriver) -> None:
    joined = join(driver, protocols={"range": metadata(version=0)})
    synced = driver.sync(joined.member_id, joined.generation_id)
    assert synced.assignment[:2] == b"\0\0"


def test_commits_name_an_epoch_in_which_the_member_has_the_partition(driver: ConsumerDriver) -> None:
    """It hears of the newest one with the answer to its JoinGroup, and has what it keeps without a break."""

    def code(member: str, generation: int, version: int = 7) -> int:
        error: int = (
            driver.commit({("t", 0): 5}, member, generation, version=version).topics[0].partitions[0].error_code
        )
        return error

    assert code(one(driver), 2) == 0, "also in a version without member epochs"
    assert code(one(driver), 3) == ErrorCode.ILLEGAL_GENERATION
    assert code(one(driver), 1) == 0
    assert code("new", 2) == ErrorCode.UNSUPPORTED_VERSION
    mine = driver.consumer().current(one(driver)).assigned
    topic = driver.some.by_name["t"].topic_id
    other = next(index for index in range(4) if index not in mine[topic])
    driver.beat("new", 2)
    for generation, error in ((2, ErrorCode.REBALANCE_IN_PROGRESS), (1, ErrorCode.ILLEGAL_GENERATION)):
        refused = driver.commit({("t", other): 5}, one(driver), generation).topics[0].partitions[0].error_code
        assert refused == error, "another member has it"
        in_transaction = driver.txn_commit({("t", other): 5}, (1, 0), one(driver), generation)
        assert in_transaction.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


def test_members_go_on_while_the_assignment_is_made() -> None:
    """One of them asks; a JoinGroup would change nothing until there is an answer."""
    driver = ConsumerDriver(assigned_at_once_max=0)
    asks, other = classic_group(driver, None, None)
    driver.beat("new")
    assert driver.heartbeat(asks, 2).error_code == driver.heartbeat(other, 2).error_code == 0
    driver.assign()
    had = {}
    for member in (asks, other):
        assert driver.heartbeat(member, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        had[member] = rejoin(driver, member)
    driver.change_topics(t=8)
    assert driver.heartbeat(asks, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(driver, asks) == had[asks]
    assert driver.heartbeat(asks, 3).error_code == driver.heartbeat(other, 3).error_code == 0
    driver.assign()
    assert driver.heartbeat(other, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(rejoin(driver, other)[1]) >= 2
