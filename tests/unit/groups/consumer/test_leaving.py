"""Members that leave, expire, or do not give partitions up."""

from __future__ import annotations

import pytest
from consumer_driver import ConsumerDriver, given

from minikafka.errors import ErrorCode
from minikafka.groups.consumer.group import ConsumerGroupState
from minikafka.groups.consumer.records import ConsumerGroupRecord, Kind, MemberState
from minikafka.groups.records import decode_record


@pytest.fixture
def driver() -> ConsumerDriver:
    """A member has all, and another one waits for its half."""
    driver = ConsumerDriver()
    driver.beat("a", rebalance_ms=20_000)
    driver.beat("b")
    driver.beat("a", 1)
    return driver


@pytest.mark.spec("G6")
def test_what_a_member_had_is_free_when_it_leaves(driver: ConsumerDriver) -> None:
    assert driver.beat("a", -1).member_epoch == -1
    assert driver.consumer().state is ConsumerGroupState.ASSIGNING
    answer = driver.beat("b", 2)
    assert (answer.member_epoch, len(given(answer) or ())) == (3, 4)
    assert driver.beat("a", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.spec("G6")
def test_who_does_not_give_partitions_up_in_time_is_removed(driver: ConsumerDriver) -> None:
    assert driver.consumer().current("a").state is MemberState.UNREVOKED_PARTITIONS
    for _ in range(4):
        driver.advance(4_900)
        assert driver.beat("a", 1).error_code == 0
    driver.advance(500)
    assert driver.beat("a", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(given(driver.beat("b", 2)) or ()) == 4


@pytest.mark.spec("G8")
def test_a_log_that_has_no_member_for_an_assignment_is_loaded(
    driver: ConsumerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A strange log may have that: nobody waits for a member that is not there."""
    monkeypatch.setattr(driver, "check", lambda: None)  # it is what our own logs never have

    def is_about_a(entry: tuple[bytes, bytes | None]) -> bool:
        record = decode_record(*entry)
        return isinstance(record, ConsumerGroupRecord) and (record.kind, record.name) == (Kind.MEMBER, "a")

    driver.log[:] = [entry for entry in driver.log if not is_about_a(entry[:2])]
    driver.failover()
    assert driver.consumer().current("a").state is MemberState.UNREVOKED_PARTITIONS
    assert list(driver.consumer().subscriptions) == ["b"]
    assert driver.beat("b", 2).error_code == 0


@pytest.mark.spec("G6")
def test_who_does_not_give_partitions_up_is_removed_soon_if_that_is_not_written(driver: ConsumerDriver) -> None:
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(20_100)
    assert driver.beat("a", 1).error_code == 0
    driver.advance(500)
    assert driver.beat("a", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.spec("G6")
def test_a_session_ends_soon_if_its_end_is_not_written(driver: ConsumerDriver) -> None:
    driver.beat("a", 1, owned=frozenset())
    driver.advance(44_900)
    driver.beat("b", 2)
    for _ in range(2):
        driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
        driver.advance(500)
        assert driver.fails is None
    assert list(driver.consumer().subscriptions) == ["a", "b"]
    driver.advance(500)
    assert list(driver.consumer().subscriptions) == ["b"]


@pytest.mark.spec("G6")
def test_a_heartbeat_saves_a_member_whose_removal_is_not_written(driver: ConsumerDriver) -> None:
    driver.beat("a", 1, owned=frozenset())
    driver.advance(20_000)
    driver.beat("b", 2)
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(25_100)
    for member in ("a", "b"):
        assert driver.beat(member, 2).error_code == 0
    driver.advance(40_000)
    assert list(driver.consumer().subscriptions) == ["a", "b"]


def test_who_gives_them_up_in_time_stays(driver: ConsumerDriver) -> None:
    driver.advance(19_000)
    keeps = frozenset(
        (topic, index) for topic, some in driver.consumer().current("a").assigned.items() for index in some
    )
    assert driver.beat("a", 1, owned=keeps).member_epoch == 2
    driver.advance(2_000)
    assert driver.beat("a", 2).error_code == 0
    assert not any(type(key).__name__ == "RevocationTimer" for key in driver.timers)


@pytest.mark.spec("G6", "G8")
def test_a_later_coordinator_waits_as_long_again(driver: ConsumerDriver) -> None:
    driver.advance(15_000)
    driver.failover()
    driver.advance(15_000)
    assert "a" in driver.consumer().subscriptions
    driver.advance(6_000)
    assert "a" not in driver.consumer().subscriptions


@pytest.mark.spec("G6")
def test_a_session_ends_without_a_heartbeat(driver: ConsumerDriver) -> None:
    driver.advance(19_000)
    driver.beat("b", 2)
    driver.advance(44_000)
    assert list(driver.consumer().subscriptions) == ["b"]
    driver.advance(2_000)
    assert driver.consumer().state is ConsumerGroupState.EMPTY
    assert not driver.consumer().owners
    assert {type(key).__name__ for key in driver.timers} <= {"RetentionTimer"}


@pytest.mark.spec("G7")
def test_a_static_member_that_does_not_come_back_is_removed() -> None:
    driver = ConsumerDriver()
    driver.beat("s", instance="i")
    driver.beat("s", -2, instance="i")
    driver.beat("b")
    assert len(driver.consumer().targets["s"]) == 1, "its part waits for it"
    driver.advance(40_000)
    driver.beat("b", 2)
    driver.advance(6_000)
    answer = driver.beat("b", 2)
    assert len(given(answer) or ()) == 4
    assert driver.beat("s", -1, instance="i").error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.spec("G7")
def test_who_leaves_for_a_while_gives_up_what_it_was_told_to() -> None:
    driver = ConsumerDriver()
    driver.beat("s", instance="i")
    driver.beat("b")
    driver.beat("s", 1, instance="i")
    driver.beat("s", -2, instance="i")
    assert len(given(driver.beat("b", 2)) or ()) == 2
    driver.advance(44_000)
    assert "s" in driver.consumer().subscriptions, "its rebalance timeout is over, and of no importance"


def test_a_group_without_members_can_be_deleted_and_is_gone_without_a_trace() -> None:
    driver = ConsumerDriver()
    driver.beat("a", regex="t.*")
    driver.resolve()
    assert driver.delete_group().error_code == ErrorCode.NON_EMPTY_GROUP
    driver.beat("a", -1)
    assert driver.delete_group().error_code == 0
    assert driver.coordinator.shard.groups == {}
    driver.failover()
    assert driver.coordinator.shard.groups == {}


def test_a_group_without_members_and_offsets_is_swept_away() -> None:
    driver = ConsumerDriver(offsets_retention_ms=50_000, offsets_retention_check_interval_ms=20_000)
    driver.beat("a")
    driver.commit({("t", 0): 7}, "a", 1, version=9)
    driver.beat("a", -1)
    driver.advance(30_000)
    assert driver.fetch(("t", 0)) == {("t", 0): 7}
    driver.advance(60_000)
    assert driver.coordinator.shard.groups == {}
