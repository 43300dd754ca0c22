"""ConsumerGroupHeartbeat: joining, staying, being fenced; and groups that change their protocol."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_driver import ConsumerDriver, Owned, given

from minikafka.errors import ErrorCode
from minikafka.groups.consumer.group import ConsumerGroupState
from minikafka.groups.consumer.records import MemberState
from minikafka.groups.records import GroupMetadataRecord, decode_record
from minikafka.wire.versioned import Record


@pytest.fixture
def driver() -> ConsumerDriver:
    """Topic t with four partitions, u without."""
    return ConsumerDriver()


def parts(owned: Owned | None) -> list[int] | None:
    """Partitions of a topic."""
    return None if owned is None else sorted(index for _, index in owned)


def stable(driver: ConsumerDriver, *names: str, **fields: Any) -> dict[str, Owned]:
    """Members that have their partitions."""
    owned: dict[str, Owned] = {}
    for name in names:
        driver.beat(name, **fields)
    for _ in range(3):
        for name in names:
            epoch = driver.consumer().current(name).member_epoch
            answer = driver.beat(name, epoch, owned=owned.get(name, frozenset()))
            owned[name] = given(answer) or owned.get(name, frozenset())
    assert driver.consumer().state is ConsumerGroupState.STABLE
    return owned


@pytest.mark.spec("G1", "G3")
def test_a_second_member_gets_partitions_when_the_first_has_given_them_up(driver: ConsumerDriver) -> None:
    first = driver.beat("a")
    assert (first.member_epoch, parts(given(first)), first.heartbeat_interval_ms) == (1, [0, 1, 2, 3], 5_000)
    all_four = given(first)
    assert parts(given(driver.beat("a", 1, owned=all_four))) is None
    second = driver.beat("b")
    assert (second.member_epoch, parts(given(second))) == (2, [])
    assert driver.consumer().state is ConsumerGroupState.RECONCILING

    told = driver.beat("a", 1)
    assert (told.member_epoch, parts(given(told))) == (1, [0, 1])
    assert parts(given(driver.beat("b", 2))) is None, "the first still has them"
    assert driver.consumer().current("a").state is MemberState.UNREVOKED_PARTITIONS

    assert driver.beat("a", 1, owned=given(told)).member_epoch == 2
    assert parts(given(driver.beat("b", 2))) == [2, 3]
    assert driver.consumer().state is ConsumerGroupState.STABLE


@pytest.mark.spec("G1")
def test_nothing_is_told_before_it_is_committed() -> None:
    driver = ConsumerDriver(auto_commit=False)
    token = driver.beat("a")
    repeated = driver.beat("a", 1, owned=frozenset())
    assert {token, repeated} == driver.parked, "the second writes nothing, and waits for the first"
    driver.committed()
    assert driver.answers[token].member_epoch == driver.answers[repeated].member_epoch == 1


@pytest.mark.spec("G1")
def test_a_write_that_fails_is_taken_back(driver: ConsumerDriver) -> None:
    driver.beat("a")
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.beat("b").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(driver.consumer().subscriptions) == ["a"]
    assert driver.consumer().epoch == 1
    assert driver.beat("b").member_epoch == 2

    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.beat("b", -1)
    assert driver.beat("b", 2).error_code == 0, "it is still a member, and its session goes on"
    driver.advance(44_000)
    driver.beat("b", 2)
    driver.advance(2_000)
    assert list(driver.consumer().subscriptions) == ["b"]


def test_too_many_writes_are_refused() -> None:
    driver = ConsumerDriver(auto_commit=False, writes_in_flight_max=1)
    driver.beat("a")
    assert driver.beat("b").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(driver.consumer().subscriptions) == ["a"]


@pytest.mark.spec("G5")
def test_the_epoch_before_is_let_pass_for_who_has_nothing_else(driver: ConsumerDriver) -> None:
    owned = stable(driver, "a", "b")
    now = driver.consumer().current("a").member_epoch
    driver.beat("c")
    told = driver.beat("a", now, owned=owned["a"])
    moved = given(told) or owned["a"]
    assert driver.beat("a", now, owned=moved).member_epoch == now + 1, "and that answer is lost"
    assert driver.beat("a", now, owned=moved).member_epoch == now + 1
    assert driver.beat("a", now).member_epoch == now + 1, "it tells nothing, so nothing is free by it"
    assert driver.beat("a", now, owned=owned["b"]).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat("a", now + 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat("a", now - 1, owned=frozenset()).error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.spec("G5")
def test_an_assignment_is_told_until_the_member_says_that_it_has_it(driver: ConsumerDriver) -> None:
    """librdkafka goes on as if nothing had been when an answer is lost."""
    all_four = given(driver.beat("a"))
    driver.beat("a", 1, owned=all_four)
    driver.beat("b")
    assert parts(given(driver.beat("a", 1))) == [0, 1], "and that answer is lost"
    told = given(driver.beat("a", 1))
    assert parts(told) == [0, 1]
    assert parts(given(driver.beat("a", 1, owned=told))) is None
    assert parts(given(driver.beat("b", 2))) == [2, 3], "and that answer is lost"
    driver.failover()
    assert parts(given(driver.beat("b", 2))) == [2, 3]
    assert driver.beat("a", 1).member_epoch == 2, "that answer was lost, too"


@pytest.mark.spec("G3")
def test_a_member_that_has_not_begun_says_what_it_has_until_it_is_believed() -> None:
    """librdkafka has not found topic u yet, and wants v instead: until it begins, it tells everything each time."""
    driver = ConsumerDriver(topics={"u": 3, "v": 3})
    driver.beat("a", names=["u"])
    everything: dict[str, Any] = {"owned": frozenset(), "names": ["v"], "rebalance_ms": 300_000}
    driver.beat("b", names=["u"])
    told = driver.beat("a", 1, **everything)
    assert (told.member_epoch, given(told)) == (1, frozenset()), "it may be about to begin with u"
    assert parts(given(driver.beat("b", 2, names=["u"]))) is None
    told = driver.beat("a", 1, **everything)
    assert (told.member_epoch, parts(given(told))) == (3, [0, 1, 2])
    assert parts(given(driver.beat("b", 2))) == [0, 1, 2]


@pytest.mark.spec("G3", "G6")
def test_who_says_nothing_may_still_begin_with_what_it_was_told() -> None:
    """librdkafka hears of fewer partitions while it waits for the application to begin with more: it says nothing, and
    begins with them later. One that has not found them says as little. Apache Kafka waits, too."""
    driver = ConsumerDriver(topics={"t": 1, "u": 1})
    had = given(driver.beat("a", names=["t"]))
    driver.beat("a", 1, owned=had)
    more = given(driver.beat("a", 1, names=["t", "u"]))
    assert more is not None
    assert len(more) == 2
    driver.beat("b", names=["u"])
    for _ in range(60):
        assert driver.beat("a", 2, names=["t"]).member_epoch == 2
        assert not given(driver.beat("b", 3))
        driver.advance(4_900)
    assert given(driver.beat("a", 2, owned=more)) == had, "now it has begun, and is to end"
    driver.advance(6_100)
    assert driver.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID, "five minutes are over"
    assert given(driver.beat("b", 3)) == more - had


@pytest.mark.spec("G5")
def test_a_member_that_was_fenced_joins_again_under_its_id(driver: ConsumerDriver) -> None:
    driver.beat("a")
    again = driver.beat("a")
    assert (again.member_epoch, parts(given(again))) == (1, [0, 1, 2, 3])


def test_a_full_request_is_answered_in_full(driver: ConsumerDriver) -> None:
    owned = given(driver.beat("a"))
    full = driver.beat("a", 1, owned=owned, names=["t"], rebalance_ms=300_000)
    assert parts(given(full)) == [0, 1, 2, 3]
    assert given(driver.beat("a", 1, owned=owned)) is None


def test_a_member_without_an_id_gets_one_in_version_0(driver: ConsumerDriver) -> None:
    assert driver.beat("", version=0).member_id == "1"
    assert driver.beat("", version=1).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),  # no instance id
        ({"epoch": 1, "member": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack": ""}, ErrorCode.INVALID_REQUEST),
        ({"assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_refusals_without_a_group(driver: ConsumerDriver, fields: dict[str, Any], error: ErrorCode) -> None:
    assert driver.beat(**fields).error_code == error
    assert driver.coordinator.shard.groups == {}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member": "x", "epoch": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member": "x", "epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member": "x", "epoch": 1, "instance": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member": "x", "epoch": 1, "instance": "i"}, ErrorCode.FENCED_INSTANCE_ID),
        ({"member": "x", "epoch": -2, "instance": "i"}, ErrorCode.FENCED_INSTANCE_ID),
        ({"member": "x", "instance": "i"}, ErrorCode.UNRELEASED_INSTANCE_ID),
        ({"member": "x", "names": ["t" * 300]}, ErrorCode.GROUP_MAX_SIZE_REACHED),
        ({"member": "x"}, ErrorCode.NONE),
    ],
)
@pytest.mark.spec("G5", "G6")
def test_refusals_of_a_group(fields: dict[str, Any], error: ErrorCode) -> None:
    driver = ConsumerDriver(subscriptions_bytes_max=2_600)
    driver.beat("s", instance="i")
    before = list(driver.log)
    assert driver.beat(**fields).error_code == error
    assert error is ErrorCode.NONE or driver.log == before


@pytest.mark.spec("G6")
def test_a_full_group_takes_nobody_else() -> None:
    driver = ConsumerDriver(consumer_max_size=2)
    driver.beat("a")
    driver.beat("b")
    assert driver.beat("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.beat("c", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("a").error_code == 0


@pytest.mark.spec("G6")
def test_members_of_all_groups_have_a_bound_together(driver: ConsumerDriver) -> None:
    driver.beat("a", names=["t" * 200] * 3)
    memory = driver.coordinator.shard.memory
    memory.limit_bytes = memory.held_bytes + 1_200
    assert driver.beat("b", names=["t" * 200] * 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.beat("a", 1).error_code == 0
    assert driver.beat("b").error_code == 0


@pytest.mark.spec("G6", "G7")
def test_a_static_member_that_is_back_has_the_room_that_it_had() -> None:
    driver = ConsumerDriver(subscriptions_bytes_max=1_500)
    driver.beat("s", instance="i")
    memory = driver.coordinator.shard.memory
    memory.limit_bytes = memory.held_bytes
    driver.beat("s", -2, instance="i")
    assert driver.beat("x", names=["u"], instance="i").error_code == 0


@pytest.mark.parametrize("member", ["x", "s"])
@pytest.mark.spec("G2", "G7")
def test_who_joins_tells_all_that_it_wants(driver: ConsumerDriver, member: str) -> None:
    """The expression of its predecessor stayed with a static member for ever."""
    driver.beat("s", regex="t.*", instance="i", rack="r", assignor="range")
    driver.beat("s", -2, instance="i")
    driver.beat(member, names=["u"], instance="i")
    wants = driver.consumer().subscriptions[member]
    assert (wants.topic_names, wants.topic_regex, wants.rack_id, wants.server_assignor) == (("u",), "", None, None)


@pytest.mark.parametrize("member", ["x", "s"])
@pytest.mark.spec("G7")
def test_a_static_member_that_is_back_goes_on_where_it_was(driver: ConsumerDriver, member: str) -> None:
    driver.beat("s", instance="i")
    driver.beat("other")
    epoch = driver.consumer().epoch
    assert driver.beat("s", -2, instance="i").member_epoch == -2
    held = driver.consumer().current("s").assigned
    back = driver.beat(member, instance="i")
    assert back.error_code == 0
    assert {(topic, index) for topic, some in held.items() for index in some} >= (given(back) or frozenset())
    assert driver.consumer().epoch == epoch, "the group has not changed"
    assert driver.consumer().static_members == {"i": member}
    if member != "s":
        assert driver.beat("s", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert driver.beat("s", 1, instance="i").error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.spec("G2")
def test_topics_that_come_grow_and_go_are_seen_with_the_next_heartbeat(driver: ConsumerDriver) -> None:
    driver.beat("a", names=["t", "u"])
    assert driver.beat("a", 1).member_epoch == 1
    driver.change_topics(x=3)
    assert driver.beat("a", 1).member_epoch == 1, "it is none of the group's"
    driver.change_topics(u=2)
    assert len(given(driver.beat("a", 1)) or ()) == 6
    driver.change_topics(t=5)
    assert len(given(driver.beat("a", 2)) or ()) == 7
    driver.change_topics(u=0)
    left = given(driver.beat("a", 3))
    assert parts(left) == [0, 1, 2, 3, 4]
    assert driver.beat("a", 3, owned=left).member_epoch == 4


@pytest.mark.spec("G4")
def test_members_vote_for_the_assignor(driver: ConsumerDriver) -> None:
    def chosen() -> str:
        return str(driver.coordinator.describe_consumer_group("g").assignor_name)

    driver.beat("a")
    assert chosen() == "uniform", "the first of the broker's"
    driver.beat("b", assignor="range")
    assert chosen() == "range"
    driver.beat("c", assignor="uniform")
    driver.beat("d", assignor="uniform")
    assert chosen() == "uniform"


@pytest.mark.spec("G8")
def test_a_later_coordinator_goes_on_from_the_records() -> None:
    driver = ConsumerDriver(auto_commit=True)
    owned = stable(driver, "a", "b", instance=None)
    before = driver.coordinator.describe_consumer_group("g")
    driver.failover()
    assert driver.coordinator.describe_consumer_group("g") == before
    for name in ("a", "b"):
        epoch = driver.consumer().current(name).member_epoch
        answer = driver.beat(name, epoch, owned=owned[name])
        assert (answer.error_code, answer.member_epoch, given(answer)) == (0, epoch, None)
    driver.advance(46_000)
    assert driver.consumer().subscriptions == {}, "their sessions began anew, and are over"


def test_while_loading_members_are_told_to_come_again(driver: ConsumerDriver) -> None:
    driver.run(driver.coordinator.resign(driver.now_ms))
    assert driver.beat("a").error_code == ErrorCode.NOT_COORDINATOR


# groups that change their protocol


@pytest.mark.spec("G9")
def test_an_empty_classic_group_becomes_a_consumer_group(driver: ConsumerDriver) -> None:
    (member,) = driver.stable("a")
    driver.commit({("t", 0): 7}, member, 1)
    assert driver.beat("b").error_code == ErrorCode.GROUP_ID_NOT_FOUND, "it has a member"
    driver.leave((member, None))
    driver.join("late", version=5)
    assert driver.beat("b").member_epoch == 1
    written = [decode_record(entry.key, entry.value) for entry in driver.log if isinstance(entry, Record)]
    assert any(isinstance(record, GroupMetadataRecord) and record.value is None for record in written)
    assert driver.fetch(("t", 0)) == {("t", 0): 7}
    driver.failover()
    assert driver.beat("b", 1).error_code == 0
    assert [group.group_type for group in driver.coordinator.list_groups()] == ["consumer"]


@pytest.mark.spec("G9")
def test_a_consumer_group_without_members_becomes_a_classic_one(driver: ConsumerDriver) -> None:
    driver.beat("a")
    assert driver.join("b").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join("b", member="a").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.heartbeat("a", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.beat("a", -1)
    assert driver.join("b", member="a").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.join("b").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.join("b").generation_id == 1
    assert [group.group_type for group in driver.coordinator.list_groups()] == ["classic"]
    driver.sync("b-1", 1, {"b-1": b"x"})
    driver.failover()
    assert [group.group_type for group in driver.coordinator.list_groups()] == ["classic"]
