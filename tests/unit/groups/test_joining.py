"""JoinGroup beyond the golden scenarios: versions, races of static members, full groups."""

from __future__ import annotations

import pytest
from groups_driver import Driver

from minikafka.errors import ErrorCode
from minikafka.groups.group import GroupState
from minikafka.wire.codec import encode


@pytest.mark.spec("bad-input: group session timeout out of range")
@pytest.mark.parametrize(("session_ms", "error"), [(5_999, 26), (6_000, 0), (1_800_000, 0), (1_800_001, 26), (-1, 26)])
def test_the_session_timeout_has_a_range(driver: Driver, session_ms: int, error: int) -> None:
    assert driver.join("a", session_ms=session_ms).error_code == error


def test_version_0_has_one_timeout(driver: Driver) -> None:
    driver.join("a", version=0, rebalance_ms=-1, session_ms=7_000)
    assert driver.group().rebalance_timeout_ms == 7_000


@pytest.mark.parametrize("version", range(10))
def test_a_member_id_is_required_from_version_4(driver: Driver, version: int) -> None:
    answer = driver.join("a", version=version)
    assert answer.error_code == (ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else ErrorCode.NONE)
    assert answer.member_id == "a-1"


def test_a_static_member_needs_no_second_request(driver: Driver) -> None:
    assert driver.join("a", instance="i", version=5).error_code == ErrorCode.NONE


def test_an_id_given_out_is_for_dynamic_members(driver: Driver) -> None:
    given = driver.join("a", version=5).member_id
    assert driver.join("a", member=given, instance="i", version=5).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_protocol_named_twice_does_no_harm(driver: Driver) -> None:
    driver.join("a", protocols={"range": b"1"})
    request = driver.join("b", protocols={"range": b"1", "rr": b"2"})
    assert driver.join("a", member="a-1").protocol_name == "range"
    assert driver.answers[request].protocol_name == "range"


def test_the_join_that_was_given_up_is_answered(driver: Driver) -> None:
    driver.stable("a")
    first = driver.join("b")
    member = next(iter(driver.group().awaiting_join))
    second = driver.join("b", member=member)
    assert driver.answers[first].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group().awaiting_join == {member: second}


def test_who_missed_the_answer_is_told_the_generation(driver: Driver) -> None:
    first = driver.join("a")
    assert driver.group().state is GroupState.COMPLETING_REBALANCE
    again = driver.join("a", member=first.member_id)
    assert (again.generation_id, again.members) == (first.generation_id, first.members)


def test_changed_metadata_begins_a_rebalance(driver: Driver) -> None:
    _, b = driver.stable("a", "b")
    assert driver.join("b", member=b, protocols={"range": b"meta"}).error_code == 0
    driver.join("b", member=b, protocols={"range": b"changed"})
    assert driver.group().state is GroupState.PREPARING_REBALANCE


def test_a_restarted_member_that_left_meanwhile_is_unknown() -> None:
    driver = Driver()
    driver.stable("a", instance="i")
    driver.auto_commit = False
    join = driver.join("a", instance="i")
    driver.leave(("", "i"))
    driver.committed()
    assert driver.answers[join].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_member_that_restarts_again_is_fenced() -> None:
    driver = Driver()
    driver.stable("a", instance="i")
    driver.auto_commit = False
    first = driver.join("a", instance="i")
    second = driver.join("a", instance="i")
    driver.committed()
    driver.committed()
    assert driver.answers[first].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.answers[second].error_code == ErrorCode.NONE


def test_a_restart_counts_in_the_rebalance_that_began_meanwhile() -> None:
    driver = Driver()
    driver.stable("a", instance="i")
    driver.auto_commit = False
    restarted = driver.join("a", instance="i")
    joined = driver.join("b")
    driver.committed()
    assert driver.answers[restarted].generation_id == driver.answers[joined].generation_id == 2


def test_a_restart_while_parked_fences_the_parked(driver: Driver) -> None:
    driver.stable("a")
    parked = driver.join("b", instance="i")
    driver.join("b", instance="i")
    assert driver.answers[parked].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_full_group_turns_a_member_with_a_place_reserved_away() -> None:
    driver = Driver(max_size=2)
    driver.stable("a", "b")
    driver.settings = driver.settings.__class__(initial_rebalance_delay_ms=0, max_size=3)
    driver.failover()
    given = driver.join("c", version=5).member_id
    driver.settings = driver.settings.__class__(initial_rebalance_delay_ms=0, max_size=2)
    driver.coordinator.shard.settings = driver.settings
    assert driver.join("c", member=given, version=5).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not driver.group().pending_members


def test_joins_do_not_wait_for_who_was_turned_away() -> None:
    driver = Driver(max_size=2)
    (member,) = driver.stable("a")
    given = driver.join("b", version=5).member_id
    rejoin = driver.join("a", member=member)
    assert rejoin not in driver.answers, "it waits for who was given an id"
    driver.coordinator.shard.settings = driver.settings.__class__(initial_rebalance_delay_ms=0, max_size=1)
    assert driver.join("b", member=given, version=5).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.answers[rejoin].generation_id == 2


def test_members_whose_metadata_is_too_much_together_are_turned_away() -> None:
    """The group's leader is told of all of it in one answer."""
    driver = Driver(protocols_bytes_max=1000)
    (member,) = driver.stable("a")
    too_large, small = {"range": bytes(700)}, {"range": bytes(100)}
    assert driver.join("b", protocols=too_large).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.join("b", protocols={f"{n}": b"" for n in range(7)}).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.group().state is GroupState.STABLE
    assert driver.join("a", member=member, protocols=too_large).generation_id == 2, "its own metadata counts once"
    assert driver.join("a", member=member, protocols=small).generation_id == 3


def test_members_of_all_groups_have_a_bound_together() -> None:
    """Each group had one. 19,000 groups with a member of 100 KB each took 500 MB of a node in six seconds."""
    driver = Driver()
    memory, large, small = driver.coordinator.shard.memory, {"range": bytes(3000)}, {"range": bytes(10)}
    memory.limit_bytes = 9_500
    (member,) = driver.stable("a", group="first", protocols=large)
    held_bytes = memory.held_bytes
    refused = driver.join("b", group="second", protocols=large)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.group("second") is None
    assert memory.held_bytes == held_bytes
    assert driver.join("b", group="second", protocols=small).error_code == 0
    assert driver.join("c", group="third", version=5).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.join("a", group="first", member=member, protocols=large).error_code == 0, "it goes on"
    larger = driver.join("a", group="first", member=member, protocols={"range": bytes(6000)})
    assert larger.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.join("d" * 5000, group="fourth", protocols=small).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.leave((member, None), group="first")
    assert driver.join("c", group="third", protocols=small).error_code == 0


def test_what_is_assigned_and_what_groups_leave_behind_is_counted() -> None:
    """A leader may give each member of each of its groups 8 MiB, and leave groups without number in the log."""
    driver = Driver()
    memory = driver.coordinator.shard.memory
    first = driver.join("a", group="first")
    held_bytes, memory.limit_bytes = memory.held_bytes, 20_000
    refused = driver.sync(first.member_id, 1, {first.member_id: bytes(18_000)}, group="first")
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = driver.join("a", group="first", member=first.member_id)
    given = {first.member_id: bytes(10_000)}
    assert not driver.sync(first.member_id, again.generation_id, given, group="first").error_code
    assert 19_000 > memory.held_bytes - held_bytes + 500 >= 10_000
    driver.failover()
    memory = driver.coordinator.shard.memory
    assert memory.held_bytes > 10_000
    driver.leave((first.member_id, None), group="first")
    assert 0 < memory.held_bytes < 2_000, "its last record"
    driver.delete_group("first")
    assert not memory.held_bytes


def test_what_a_coordinator_loads_is_let_in_and_what_it_gives_up_is_free() -> None:
    driver = Driver()
    driver.stable("a", "b", protocols={"range": bytes(3000)})
    former = driver.coordinator
    assert former.shard.memory.held_bytes > 6_000
    driver.failover()
    assert driver.coordinator.shard.memory.held_bytes > 6_000
    former.resign(driver.now_ms)
    assert former.shard.memory.held_bytes == 0


def test_a_restarted_static_member_needs_no_more_room() -> None:
    driver = Driver(protocols_bytes_max=1000)
    large = {"range": bytes(800)}
    first = driver.join("a", instance="i", protocols=large)
    driver.sync(first.member_id, 1, {first.member_id: b"all"})
    assert driver.join("a", instance="i", protocols=large).error_code == ErrorCode.NONE


def test_members_that_are_gone_leave_their_room() -> None:
    driver = Driver(protocols_bytes_max=1000)
    for _ in range(3):
        joined = driver.join("a", protocols={"range": bytes(800)})
        assert joined.error_code == ErrorCode.NONE
        driver.leave((joined.member_id, None))


@pytest.mark.parametrize("instance", [None, "i" * 32_767])
def test_every_member_can_be_told_of_one_with_a_long_name(driver: Driver, instance: str | None) -> None:
    (member,) = driver.stable("a")
    driver.join("\u4e2d" * 10_922, instance=instance)
    answer = driver.join("a", member=member)
    encode(answer, 5)
    assert len(answer.members) == 2
