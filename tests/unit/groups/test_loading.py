"""Groups from the log."""

from __future__ import annotations

from groups_driver import WALL_START_MS, Driver

from minikafka.coordination.effects import SetTimer, Write
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.group import GroupState
from minikafka.groups.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from minikafka.groups.settings import CoordinatorSettings
from minikafka.groups.timers import MemberTimer


def test_a_stable_group_goes_on(driver: Driver) -> None:
    a, b = driver.stable("a", "b")
    driver.failover()
    assert driver.group().state is GroupState.STABLE
    assert driver.group().leader_id == a
    assert driver.sync(b, 2).assignment == b.encode()
    assert driver.join("b", member=b).generation_id == 2


def test_sessions_begin_anew(driver: Driver) -> None:
    (member,) = driver.stable("a")
    driver.advance(9_000)
    driver.failover()
    driver.advance(9_000)
    assert driver.heartbeat(member, 1).error_code == 0
    driver.advance(10_000)
    assert driver.group().state is GroupState.EMPTY


def test_static_members_are_known_again(driver: Driver) -> None:
    driver.stable("a", instance="i")
    driver.failover()
    answer = driver.join("a", instance="i", version=9)
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 1, True)


def test_the_last_record_counts_and_tombstones_remove(driver: Driver) -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    gone = OffsetCommitKey(group="gone", topic="t", partition=0)
    for offset in (1, 2, 3):
        driver.log.append(OffsetCommitRecord(key, OffsetCommitValue(offset=offset)).encode())
        driver.log.append(OffsetCommitRecord(gone, OffsetCommitValue(offset=offset)).encode())
    driver.log.append(OffsetCommitRecord(gone, None).encode())
    driver.wall_ms = 0
    driver.start()
    assert driver.fetch() == {("t", 0): 3}
    assert [group.group_id for group in driver.coordinator.list_groups()] == ["g"]


def test_an_empty_group_without_a_timestamp(driver: Driver) -> None:
    """As versions 0 and 1 of the record have it: its offsets then age from their commits."""
    empty = GroupMetadataValue(protocol_type="consumer", generation=4, protocol=None, leader=None)
    driver.log.append(GroupMetadataRecord(GroupMetadataKey(group="g"), empty).encode())
    driver.start()
    assert (driver.group().state, driver.group().generation_id) == (GroupState.EMPTY, 4)
    assert driver.group().empty_since_ms is None


def test_generations_go_on_after_an_empty_group(driver: Driver) -> None:
    (member,) = driver.stable("a")
    driver.leave((member, None))
    driver.failover()
    assert driver.join("b").generation_id == 3


def test_a_group_above_the_limit_rebalances() -> None:
    driver = Driver()
    driver.stable("a", "b", "c")
    driver.settings = Driver(max_size=2).settings
    driver.failover()
    assert driver.group().state is GroupState.PREPARING_REBALANCE


def test_a_leader_that_is_not_a_member_is_replaced(driver: Driver) -> None:
    driver.stable("a", "b")
    record = driver.group().persisted
    record.leader = "nobody"
    driver.log.append(GroupMetadataRecord(GroupMetadataKey(group="g"), record).encode())
    driver.failover()
    assert driver.group().leader_id == "a-1"


def test_records_carry_the_wall_clock(driver: Driver) -> None:
    driver.stable("a")
    assert driver.group().persisted.current_state_timestamp == WALL_START_MS


def test_groups_are_restored_some_at_a_time(driver: Driver) -> None:
    for number in range(25):
        driver.stable("a", group=f"g{number}")
    coordinator = GroupCoordinator(
        CoordinatorSettings(groups_per_step=10), lambda: "1", lambda: driver.wall_ms, driver.topic_id
    )
    for key, value in driver.log:
        coordinator.replay(key, value, 0)
    steps = []
    while coordinator.phase is Phase.LOADING:
        assert coordinator.describe_group("g0").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        effects = coordinator.finish_loading(0)
        steps.append(sum(isinstance(effect, SetTimer) and isinstance(effect.key, MemberTimer) for effect in effects))
    assert steps == [10, 10, 5]
    assert coordinator.describe_group("g24").group_state == "Stable"


def test_a_session_that_ends_while_others_are_restored_ends_its_generation(driver: Driver) -> None:
    (member,) = driver.stable("a", session_ms=6_000)
    driver.stable("b", group="h")
    coordinator = GroupCoordinator(
        CoordinatorSettings(groups_per_step=1), lambda: "1", lambda: driver.wall_ms, driver.topic_id
    )
    for key, value in driver.log:
        coordinator.replay(key, value, 0)
    assert coordinator.on_timer(MemberTimer("g", member), 0) == [], "nothing is restored yet"
    coordinator.finish_loading(0)
    (write,) = [effect for effect in coordinator.on_timer(MemberTimer("g", member), 6_000) if isinstance(effect, Write)]
    coordinator.on_committed(write.write_id, 6_001)
    assert coordinator.phase is Phase.LOADING
    coordinator.finish_loading(6_002)
    assert coordinator.describe_group("g").group_state == "Empty"
