"""The life of a shard: what it answers before, while and after it serves; timers; writes."""

from __future__ import annotations

from typing import Any

import pytest
from groups_driver import Driver

from minikafka.coordination.effects import Respond, SetTimer, Write
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.joins import Caller
from minikafka.groups.settings import CoordinatorSettings
from minikafka.groups.timers import MemberTimer, RebalanceTimer, RetentionTimer, WriteTimer
from minikafka.wire.errors import WireError
from minikafka.wire.messages.heartbeat import HeartbeatRequest
from minikafka.wire.messages.join_group import JoinGroupRequest
from minikafka.wire.messages.leave_group import LeaveGroupRequest
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_delete import OffsetDeleteRequest
from minikafka.wire.messages.offset_fetch import OffsetFetchRequestGroup
from minikafka.wire.messages.sync_group import SyncGroupRequest

CALLER = Caller("c", "/127.0.0.1", 5)
SYNC_GROUP, HEARTBEAT = 1, 2
"""Their places in what `everything` answers."""
TOPICS = [OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=3)])]


def everything(coordinator: GroupCoordinator, group: str) -> list[int]:
    """The error code of every request that names one group."""
    asked = [
        coordinator.join_group(JoinGroupRequest(group_id=group), CALLER, "t", 0),
        coordinator.sync_group(SyncGroupRequest(group_id=group), "t", 0),
        coordinator.heartbeat(HeartbeatRequest(group_id=group), "t", 0),
        coordinator.leave_group(LeaveGroupRequest(group_id=group), 3, "t", 0),
        coordinator.offset_delete(OffsetDeleteRequest(group_id=group), "t", 0),
        coordinator.delete_group(group, "t", 0),
        coordinator.offset_commit(OffsetCommitRequest(group_id=group, topics=TOPICS), 7, "t", 0),
    ]
    answers: list[Any] = [effect.response for (effect,) in asked if isinstance(effect, Respond)]
    errors = [answer.error_code for answer in answers[:-1]] + [answers[-1].topics[0].partitions[0].error_code]
    return [*errors, coordinator.fetch_offsets(OffsetFetchRequestGroup(group_id=group)).error_code]


def new_coordinator() -> GroupCoordinator:
    return GroupCoordinator(CoordinatorSettings(), lambda: "1", lambda: 0, lambda name: None)


def test_while_loading_clients_are_told_to_wait() -> None:
    coordinator = new_coordinator()
    errors = everything(coordinator, "g")
    assert errors.pop(HEARTBEAT) == ErrorCode.NONE, "aiokafka ends for good with COORDINATOR_LOAD_IN_PROGRESS here"
    assert errors.pop(SYNC_GROUP) == ErrorCode.REBALANCE_IN_PROGRESS, "and here"
    assert errors == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 6
    assert coordinator.describe_group("g").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not list(coordinator.list_groups())
    assert coordinator.on_timer(RetentionTimer(), 0) == []
    assert coordinator.on_topics_deleted(0) == []


def test_after_resigning_clients_are_sent_away() -> None:
    coordinator = new_coordinator()
    coordinator.finish_loading(0)
    coordinator.resign(0)
    assert coordinator.phase is Phase.RESIGNED
    assert everything(coordinator, "g") == [ErrorCode.NOT_COORDINATOR] * 8
    assert coordinator.on_committed(0, 0) == []
    assert coordinator.on_write_failed(0, ErrorCode.KAFKA_STORAGE_ERROR, 0) == []


@pytest.mark.spec("bad-input: empty group id")
def test_an_empty_group_id_is_refused() -> None:
    coordinator = new_coordinator()
    coordinator.finish_loading(0)
    assert everything(coordinator, "") == [ErrorCode.INVALID_GROUP_ID] * 8


def test_a_damaged_log_is_an_error() -> None:
    coordinator = new_coordinator()
    with pytest.raises(WireError):
        coordinator.replay(b"\0\1\0", b"", 0)
    assert not coordinator.replay(b"\0\12", b"", 0), "records of other kinds of groups are skipped"


def test_resigning_answers_all_and_cancels_every_timer(driver: Driver) -> None:
    a, b = driver.stable("a", "b")
    driver.auto_commit = False
    commit = driver.commit({("t", 0): 1}, a, 2)
    join = driver.join("c")
    driver.join("d", group="other", version=5)
    driver.sync(b, 2)
    lone = driver.join("e", group="third")
    sync = driver.sync(lone.member_id, 1, group="third")
    driver.failover(0)  # asserts that no timer and no parked request is left
    assert driver.answers[commit].topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert driver.answers[join].error_code == ErrorCode.NOT_COORDINATOR
    assert driver.answers[sync].error_code == ErrorCode.NOT_COORDINATOR


def test_resigning_begins_no_rebalance_and_writes_nothing(driver: Driver) -> None:
    driver.auto_commit = False
    one = driver.join("a")
    driver.sync(one.member_id, 1, {one.member_id: b"x"})
    effects = driver.coordinator.resign(0)
    assert not any(isinstance(effect, (Write, SetTimer)) for effect in effects)


@pytest.mark.parametrize(
    "key",
    [MemberTimer("g", "nobody"), MemberTimer("no", "a"), RebalanceTimer("no"), RebalanceTimer("g"), WriteTimer(99)],
)
def test_a_timer_that_was_cancelled_just_now_does_no_harm(driver: Driver, key: Any) -> None:
    driver.stable("a")
    assert driver.coordinator.on_timer(key, 0) == []


def test_a_timer_that_fires_early_is_set_again(driver: Driver) -> None:
    driver.stable("a")
    driver.join("b")
    timers = dict(driver.timers)
    for key in timers:
        if isinstance(key, (MemberTimer, RebalanceTimer)):
            driver.run(driver.coordinator.on_timer(key, driver.now_ms))
    assert driver.timers == timers


def test_heartbeats_touch_no_timer(driver: Driver) -> None:
    (member,) = driver.stable("a")
    driver.advance(1_000)
    driver.heartbeat(member, 1)
    assert [type(effect) for effect in driver.effects] == [Respond]


def test_writes_under_way_are_bounded() -> None:
    driver = Driver(auto_commit=False, writes_in_flight_max=2)
    driver.commit({("t", 0): 1})
    driver.commit({("t", 0): 2})
    refused = driver.commit({("t", 0): 3})
    assert refused.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.committed()
    driver.commit({("t", 0): 4})
    driver.committed()
    driver.committed()
    assert driver.fetch() == {("t", 0): 4}


def test_an_assignment_is_refused_when_too_much_is_under_way() -> None:
    driver = Driver(auto_commit=False, writes_in_flight_max=1)
    one = driver.join("a")
    driver.commit({("t", 0): 1}, group="other")
    refused = driver.sync(one.member_id, 1, {one.member_id: b"x"})
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.coordinator.describe_group("g").group_state == "PreparingRebalance"


def test_a_group_that_was_only_asked_for_is_forgotten(driver: Driver) -> None:
    driver.join("a", protocol_type="")
    driver.heartbeat("x", 1)
    driver.commit({}, group="empty")
    driver.commit({("t", 0): 1}, metadata="x" * 5_000, group="refused")
    assert not list(driver.coordinator.list_groups())


def test_a_group_whose_last_record_was_refused_is_forgotten_too() -> None:
    driver = Driver(auto_commit=False, writes_in_flight_max=1)
    member = driver.join("a").member_id
    driver.commit({("t", 0): 1}, group="other")
    driver.leave((member, None))
    assert driver.group() is None

    driver = Driver(auto_commit=False, writes_in_flight_max=1, initial_rebalance_delay_ms=3_000)
    driver.join("a")
    (member,) = driver.group().members
    driver.commit({("t", 0): 1}, group="other")
    driver.leave((member, None))
    driver.advance(3_000)
    assert driver.group() is None
