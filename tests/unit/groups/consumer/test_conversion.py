"""Groups with members change their protocol, up and down; who asks in vain changes nothing."""

from __future__ import annotations

import pytest
from classic_group import assignment, classic_group, metadata, partitions, rejoin
from consumer_driver import ConsumerDriver, given

from minikafka.errors import ErrorCode
from minikafka.groups.consumer.records import ConsumerGroupRecord, Kind, MemberState
from minikafka.groups.group import GroupState
from minikafka.groups.records import GroupMetadataRecord, decode_record
from minikafka.groups.settings import MigrationPolicy
from minikafka.wire.consumer_protocol import decode_subscription, encode_subscription
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolSubscription, SubscriptionTopicPartition

pytestmark = pytest.mark.spec("G14")


def kinds(driver: ConsumerDriver, since: int) -> list[tuple[str, bool]]:
    """What the log has from there on: the kind of each record, and whether it has a value."""
    found = []
    for entry in driver.log[since:]:
        record = decode_record(*entry)
        assert record is not None
        name = record.kind.name if isinstance(record, ConsumerGroupRecord) else type(record).__name__
        found.append((name, record.value is not None))
    return found


def code_of_commit(driver: ConsumerDriver, member: str, generation: int, partition: int) -> int:
    """The error of an offset of this partition."""
    error: int = driver.commit({("t", partition): 7}, member, generation).topics[0].partitions[0].error_code
    return error


def test_a_stable_group_goes_up_member_by_member_and_nobody_loses_a_partition() -> None:
    driver = ConsumerDriver()
    one, two = classic_group(driver, None, None)
    before = len(driver.log)
    answer = driver.beat("new")
    assert (answer.error_code, answer.member_epoch, given(answer)) == (0, 3, frozenset())
    consumer = driver.consumer()
    assert (consumer.epoch, consumer.assignment_epoch) == (3, 3)
    assert [consumer.current(name).member_epoch for name in (one, two)] == [2, 2]
    topic = driver.some.by_name["t"].topic_id
    assert [sorted(consumer.current(name).assigned[topic]) for name in (one, two)] == [[0, 1], [2, 3]]
    written = kinds(driver, before)
    assert written[0] == ("GroupMetadataRecord", False), "the classic group goes with the same write"
    assert driver.group().persisted is None

    for member in (one, two):
        assert driver.heartbeat(member, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(one, 1).error_code == ErrorCode.ILLEGAL_GENERATION
    assert code_of_commit(driver, one, 2, 0) == 0
    assert rejoin(driver, one)[0] == 3
    assert driver.heartbeat(one, 3).error_code == 0
    kept = sorted(driver.consumer().current(one).assigned[topic])
    assert code_of_commit(driver, one, 2, kept[0]) == code_of_commit(driver, one, 3, kept[0]) == 0
    assert code_of_commit(driver, one, 2, 2) == ErrorCode.ILLEGAL_GENERATION, "another one has it"
    assert rejoin(driver, two)[0] == 3
    answer = driver.beat("new", 3)
    assert sum(len(rejoin(driver, each)[1]) for each in (one, two)) + len(given(answer) or ()) == 4


def test_a_cooperative_member_keeps_what_it_goes_on_with() -> None:
    driver = ConsumerDriver()
    (one,) = classic_group(driver, None)
    driver.beat("new")
    generation, kept = rejoin(driver, one, 0, 1, 2, 3)
    assert (generation, len(kept)) == (1, 2), "it is told what it may keep, in its epoch"
    assert driver.consumer().current(one).state is MemberState.UNREVOKED_PARTITIONS
    assert driver.heartbeat(one, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert given(driver.beat("new", 2, owned=frozenset())) in (None, frozenset())
    assert rejoin(driver, one, *kept) == (2, kept)
    answer = given(driver.beat("new", 2, owned=frozenset()))
    assert sorted(kept + partitions(answer)) == [0, 1, 2, 3]
    assert driver.heartbeat(one, 2).error_code == 0


def test_what_a_member_told_to_have_beside_its_assignment_is_not_free() -> None:
    """It has not heard of the newest assignment."""
    driver = ConsumerDriver()
    joined = driver.join(protocols={"cooperative-sticky": metadata(2, 3)})
    driver.sync(joined.member_id, 1, {joined.member_id: assignment(0)})
    driver.beat("new")
    current = driver.consumer().current(joined.member_id)
    topic = driver.some.by_name["t"].topic_id
    assert (current.assigned, current.pending_revocation) == ({topic: {0: 1}}, {topic: {2: 1, 3: 1}})
    assert {2, 3}.isdisjoint(partitions(given(driver.beat("new", 2, owned=frozenset(), names=["t"], rebalance_ms=1))))
    rejoin(driver, joined.member_id, 0)
    driver.beat("new", 2, owned=frozenset())
    assert sorted(driver.consumer().owners[topic]) == [0, 1, 2, 3]


def test_the_last_one_that_leaves_takes_the_group_down() -> None:
    driver = ConsumerDriver()
    (one,) = classic_group(driver, None)
    driver.beat("new")
    rejoin(driver, one)
    before = len(driver.log)
    assert driver.beat("new", -1).error_code == 0
    group = driver.group()
    assert (group.state, group.generation_id, list(group.members)) == (GroupState.PREPARING_REBALANCE, 2, [one])
    written = kinds(driver, before)
    assert written[-1] == ("GroupMetadataRecord", True)
    assert not any(has_value for _, has_value in written[:-1])
    assert driver.heartbeat(one, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    joined = driver.join(member=one, protocols={"range": metadata()})
    assert (joined.generation_id, joined.leader) == (3, one)
    assert driver.sync(one, 3, {one: assignment(0, 1, 2, 3)}).error_code == 0


def test_who_is_behind_when_the_group_goes_down_keeps_what_it_has() -> None:
    """It has not heard of the last epoch: in its own it commits what it has, and is told to join."""
    driver = ConsumerDriver()
    one, two = classic_group(driver, None, None)
    driver.beat("new")
    rejoin(driver, one)
    driver.beat("new", -1)
    group = driver.group()
    assert (group.generation_id, group.generation_of(one), group.generation_of(two)) == (3, 3, 2)
    assert driver.heartbeat(two, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.sync(two, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of_commit(driver, two, 2, 2) == code_of_commit(driver, one, 3, 0) == 0
    assert code_of_commit(driver, two, 2, 0) == ErrorCode.REBALANCE_IN_PROGRESS, "another one has it"
    assert driver.txn_commit({("t", 3): 5}, (1, 0), two, 2).topics[0].partitions[0].error_code == 0
    for member, generation in ((two, 3), (one, 4), ("new", 3)):
        assert code_of_commit(driver, member, generation, 2) != 0
    driver.join(member=two, protocols={"range": metadata(2, 3)})
    driver.join(member=one, protocols={"range": metadata(0, 1)})
    assert group.generation_of(two) == group.generation_id == 4
    assert driver.heartbeat(two, 2).error_code == code_of_commit(driver, two, 2, 2) == ErrorCode.ILLEGAL_GENERATION


def test_the_leader_believes_who_is_behind_when_the_group_goes_down() -> None:
    """A cooperative assignor gives away what somebody has by an older generation than others."""
    driver = ConsumerDriver()
    one, two = classic_group(driver, None, None)
    driver.beat("new")
    rejoin(driver, one)
    driver.beat("new", -1)

    def told(generation: int, *partitions: int) -> bytes:
        has = [SubscriptionTopicPartition(topic="t", partitions=list(partitions))]
        return encode_subscription(
            ConsumerProtocolSubscription(topics=["t"], owned_partitions=has, generation_id=generation)
        )

    for member, tells in ((one, told(3, 0, 1)), (two, told(2, 2, 3))):
        driver.join(member=member, protocols={"range": tells})
    joined = {name: decode_subscription(each.protocols[0][1]) for name, each in driver.group().members.items()}
    assert [joined[name].generation_id for name in (one, two)] == [3, 3]
    assert [each.partitions for each in joined[two].owned_partitions] == [[2, 3]]


def test_who_is_behind_when_the_group_goes_down_and_up_again_keeps_what_it_has() -> None:
    """It was taken for one that had heard of the last epoch, and had its partitions since then only."""
    driver = ConsumerDriver()
    one, two = classic_group(driver, None, None)
    driver.beat("new")
    rejoin(driver, one)
    driver.beat("new", -1)
    driver.beat("newer")
    current = driver.consumer().current(two)
    assert (current.member_epoch, set(current.assigned[driver.some.named("t").topic_id].values())) == (2, {2})
    assert driver.consumer().current(one).member_epoch == 3
    assert code_of_commit(driver, two, 2, 2) == code_of_commit(driver, one, 3, 0) == 0
    assert driver.heartbeat(two, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(driver, two)[1]


def test_a_group_that_has_gone_down_rebalances_when_its_coordinator_moves() -> None:
    """The partitions of who left are nobody's."""
    driver = ConsumerDriver()
    (one,) = classic_group(driver, None)
    driver.beat("new")
    rejoin(driver, one)
    driver.beat("new", -1)
    driver.failover()
    assert driver.group().generation_id == 2
    assert driver.heartbeat(one, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_coordinator_that_moves_on_the_way_changes_nothing() -> None:
    driver = ConsumerDriver()
    one, two = classic_group(driver, "i", None)
    driver.beat("new")
    rejoin(driver, one, instance="i")
    rows = dict(driver.consumer().committed)
    driver.failover()
    assert driver.consumer().committed == rows
    assert driver.heartbeat(two, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(9_000)
    assert driver.heartbeat(two, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(9_000)
    assert list(driver.consumer().subscriptions) == [two, "new"], "each has the session timeout that it asked for"


def test_a_write_that_fails_leaves_the_group_what_it_was() -> None:
    """Also who waits in a JoinGroup goes on to wait."""
    driver = ConsumerDriver()
    one, two = classic_group(driver, None, None)
    waits = driver.join(member=one, protocols={"range": metadata()})
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.beat("new").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waits not in driver.answers
    assert driver.heartbeat(two, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(9_000)
    driver.heartbeat(two, 2)
    driver.advance(9_000)
    joined = driver.join(member=two, protocols={"range": metadata()})
    assert (joined.generation_id, driver.answers[waits].generation_id) == (3, 3)

    driver = ConsumerDriver()
    (one,) = classic_group(driver, None)
    driver.beat("new")
    rejoin(driver, one)
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.beat("new", -1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (driver.group().is_consumer, driver.group().members) == (True, {})
    assert driver.heartbeat(one, 2).error_code == 0
    driver.advance(50_000)
    assert not driver.consumer().subscriptions, "sessions end"


def test_ids_that_were_given_out_are_forgotten_only_if_the_group_goes_up() -> None:
    driver = ConsumerDriver()
    (one,) = classic_group(driver, None)
    given_out = driver.join("late", protocols={"range": metadata()}, version=9).member_id
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.beat("new")
    assert driver.group().pending_members == {given_out}
    driver.beat("new")
    driver.failover()  # and no timer is left
    joined = driver.join("late", member=given_out, protocols={"range": metadata()}, version=9)
    assert (joined.error_code, joined.member_id) == (0, given_out)
    assert one in driver.consumer().subscriptions


def test_who_waits_is_told_to_join_again() -> None:
    driver = ConsumerDriver(auto_commit=False)
    waits = driver.join(protocols={"range": metadata()}, token="joins")
    assert waits.generation_id == 1
    synced = driver.join("other", protocols={"range": metadata()}, token="other joins")
    beat = driver.beat("new", token="beats")
    assert (synced, beat) == ("other joins", "beats"), "both wait"
    driver.committed()
    assert driver.answers["other joins"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.answers["beats"].member_epoch == 2
    driver.failover()


def test_a_target_assignment_that_comes_late_is_not_one_of_the_classic_group() -> None:
    """It was asked for while the group was a consumer group."""
    driver = ConsumerDriver(assigned_at_once_max=0)
    (one,) = classic_group(driver, None)
    driver.beat("new")
    assert driver.assignments
    driver.beat("new", -1)
    driver.assign()
    assert not driver.group().is_consumer
    assert driver.heartbeat(one, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_static_members_go_up_and_down_in_their_places() -> None:
    driver = ConsumerDriver()
    one, two = classic_group(driver, "i", "j")
    answer = driver.beat("new", instance="i")
    assert partitions(given(answer)) == [0, 1], "a classic member that stops does not say so"
    assert driver.heartbeat(one, 2, instance="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert rejoin(driver, two, instance="j")[1] == [2, 3]
    back = driver.join(instance="i", protocols={"range": metadata()}, token="back")
    assert back == "back", "it waits for the others: the group is a classic one"
    driver.join(member=two, instance="j", protocols={"range": metadata()})
    assert driver.answers["back"].generation_id == 4
    assert driver.beat("new", 3, instance="i").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_the_last_static_member_that_takes_the_group_down_is_told_once_that_is_written() -> None:
    driver = ConsumerDriver(auto_commit=False)
    driver.beat("new", instance="i", token="beats")
    driver.committed()
    back = driver.join(instance="i", protocols={"range": metadata()}, token="back")
    assert (back, driver.group().state) == ("back", GroupState.PREPARING_REBALANCE), "it waits for the log"
    driver.committed()
    assert (driver.answers["back"].error_code, driver.answers["back"].generation_id) == (0, 2)

    driver = ConsumerDriver()
    driver.beat("new", instance="i")
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = driver.join(instance="i", protocols={"range": metadata()})
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(driver.consumer().subscriptions) == ["new"]
    driver.fails = None
    assert driver.join(instance="i", protocols={"range": metadata()}).generation_id == 2


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_the_policy_decides(policy: MigrationPolicy) -> None:
    driver = ConsumerDriver(consumer_migration_policy=policy)
    (one,) = classic_group(driver, None)
    error = driver.beat("new").error_code
    assert error == (0 if policy.allows_upgrade else ErrorCode.GROUP_ID_NOT_FOUND)
    assert driver.heartbeat(one, 1).error_code == (ErrorCode.REBALANCE_IN_PROGRESS if policy.allows_upgrade else 0)

    driver = ConsumerDriver(consumer_migration_policy=policy)
    driver.beat("new")
    joined = driver.join(protocols={"range": metadata()})
    is_disabled = policy is MigrationPolicy.DISABLED
    assert joined.error_code == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_disabled else 0)
    driver.beat("new", -1)
    group = driver.group()
    assert bool(group.members) is policy.allows_downgrade
    assert group.is_consumer is not policy.allows_downgrade


def test_groups_that_cannot_go_up() -> None:
    strange = ConsumerDriver()
    strange.stable("a", protocol_type="connect")
    assert strange.beat("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    unreadable = ConsumerDriver()
    unreadable.stable("a", protocols={"range": b"\0"})
    assert unreadable.beat("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    custom = ConsumerDriver()
    joined = custom.join(protocols={"ours": metadata()})
    custom.sync(joined.member_id, 1, {joined.member_id: assignment(0, user_data=b"state")})
    refused = custom.beat("new")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "keeps data in its assignments" in refused.error_message
    large = ConsumerDriver(consumer_max_size=1)
    classic_group(large, None, None)
    assert large.beat("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for driver in (strange, unreadable, custom, large):
        assert driver.group().state is GroupState.STABLE


def test_a_leader_may_assign_what_is_not_there_or_twice() -> None:
    driver = ConsumerDriver()
    joined = driver.join(protocols={"range": metadata()})
    other = driver.join("o", protocols={"range": metadata()})
    joined = driver.join(member=joined.member_id, protocols={"range": metadata()})
    second = driver.answers[other].member_id
    shares = {joined.member_id: assignment(0, 0, 9, -1), second: assignment(0, 1)}
    driver.sync(joined.member_id, 2, shares)
    driver.sync(second, 2)
    assert driver.beat("new").error_code == 0
    topic = driver.some.by_name["t"].topic_id
    owned = [driver.consumer().current(name).assigned for name in (joined.member_id, second)]
    assert owned == [{topic: {0: 2}}, {topic: {1: 2}}]


def test_kinds_of_rows_are_in_kafkas_order() -> None:
    driver = ConsumerDriver()
    classic_group(driver, None)
    before = len(driver.log)
    driver.beat("new")
    rows = [decode_record(*entry) for entry in driver.log[before:]]
    assert isinstance(rows[0], GroupMetadataRecord)
    converted = [row.kind for row in rows[1:6] if isinstance(row, ConsumerGroupRecord)]
    assert converted == [Kind.MEMBER, Kind.GROUP, Kind.TARGET, Kind.TARGET_METADATA, Kind.CURRENT]
