"""A member of a group whose coordinator refuses, moves, and rebalances."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from scripted_cluster import HANG, HANG_UP, ScriptedCluster, commit_answer, until

from minikafka.client import CommitFailedError, Consumer
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.wire.api import ApiKey
from minikafka.wire.consumer_protocol import encode_assignment, encode_subscription
from minikafka.wire.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from minikafka.wire.messages.leave_group import LeaveGroupRequest
from minikafka.wire.messages.offset_commit import OffsetCommitRequest
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOBODY = frozenset[TopicPartition]()

Make = Callable[..., Any]


@pytest.fixture
async def member(cluster: ScriptedCluster) -> AsyncIterator[Make]:
    """Makes members of group ``g`` that read ``t`` and have joined; they are closed at the end."""
    made = []
    for index in (0, 1):
        records = [Record(-1, 0, None, b"%d" % n) for n in range(9)]
        cluster.partition(index).append(bytes(build_batch(records)))

    async def make(*topics: str, joined: bool = True, **settings: Any) -> Consumer:
        consumer = Consumer(
            cluster.servers,
            *(topics or ("t",)),
            group_id="g",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=5,
            **settings,
        )
        made.append(consumer)
        await consumer.start()
        if joined:
            await until(lambda: consumer.assignment)
        return consumer

    yield make
    for consumer in made:
        await consumer.close()


async def rejoined(cluster: ScriptedCluster, consumer: Consumer, generation: int) -> None:
    await until(lambda: cluster.group.generation == generation and consumer.assignment)


async def test_a_member_joins_and_shares(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member()
    assert consumer.assignment == {T0, T1}
    first, second = cluster.asked(JoinGroupRequest)
    assert (first.member_id, second.member_id) == ("", "member-1")
    assert [protocol.name for protocol in second.protocols] == ["range", "roundrobin"]
    (sync,) = cluster.asked(SyncGroupRequest)
    assert [share.member_id for share in sync.assignments] == ["member-1"]
    await until(lambda: len(cluster.asked(HeartbeatRequest)) > 2)
    assert cluster.asked(HeartbeatRequest)[-1].generation_id == 1


async def test_the_leader_divides_among_all(cluster: ScriptedCluster, member: Make) -> None:
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=["t"]))
    cluster.group.other_members = [JoinGroupResponseMember(member_id="other", metadata=metadata)]
    consumer = await member()
    assert consumer.assignment == {T0}
    (sync,) = cluster.asked(SyncGroupRequest)
    assert {share.member_id for share in sync.assignments} == {"member-1", "other"}


async def test_a_follower_gets_what_the_leader_says(cluster: ScriptedCluster, member: Make) -> None:
    share = AssignmentTopicPartition(topic="t", partitions=[1])
    cluster.group.leader = "other"
    cluster.group.assignment = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[share]))
    assert (await member()).assignment == {T1}
    assert cluster.asked(SyncGroupRequest)[0].assignments == []


async def test_before_a_rebalance_offsets_are_committed_in_the_old_generation(
    cluster: ScriptedCluster, member: Make
) -> None:
    consumer = await member()
    records = await consumer.poll(30_000, 3)
    tp = TopicPartition("t", records[0].partition)
    polling = asyncio.ensure_future(consumer.poll(30_000, 1))
    await polling
    next_poll = asyncio.ensure_future(read_until_empty(consumer))
    cluster.group.must_rebalance = True
    await rejoined(cluster, consumer, 2)
    next_poll.cancel()
    commit = cluster.asked(OffsetCommitRequest)[0]
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (1, "member-1")
    assert cluster.committed[tp].offset >= 3
    assert cluster.asked(JoinGroupRequest)[-1].member_id == "member-1"


async def read_until_empty(consumer: Consumer) -> None:
    while await consumer.poll(30_000, 1):
        pass


async def test_a_rebalance_waits_until_the_user_is_done(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member()
    await consumer.poll(30_000, 3)
    cluster.group.must_rebalance = True
    beats = len(cluster.asked(HeartbeatRequest))
    await until(lambda: len(cluster.asked(HeartbeatRequest)) > beats + 3)
    assert cluster.group.generation == 1, "the user still works on three records"
    assert consumer.assignment == {T0, T1}
    assert await consumer.poll() == []
    assert consumer.assignment == NOBODY
    await rejoined(cluster, consumer, 2)
    assert sorted(offset for offset, _ in cluster.committed.values()) == [0, 3]


async def test_nothing_is_read_twice_after_a_planned_rebalance(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member()
    seen: list[tuple[int, int]] = []
    while len(seen) < 18:
        seen += [(record.partition, record.offset) for record in await consumer.poll(30_000, 2)]
        cluster.group.must_rebalance = len(seen) in (4, 10)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, "member-2"), (ErrorCode.ILLEGAL_GENERATION, "member-1")]
)
async def test_a_member_that_was_thrown_out_has_lost_its_share(
    cluster: ScriptedCluster, member: Make, code: ErrorCode, member_id: str
) -> None:
    consumer = await member()
    await consumer.poll(30_000, 3)
    cluster.next_only(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=code))
    await rejoined(cluster, consumer, 2)
    assert cluster.group.member_id == member_id
    assert not cluster.asked(OffsetCommitRequest), "its partitions may be somebody else's"


async def test_a_coordinator_that_moves_does_not_end_the_generation(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member()
    not_here = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    loading = HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    found = len(cluster.asked(FindCoordinatorRequest))
    cluster.next_only(ApiKey.HEARTBEAT, not_here, HANG_UP, loading)
    beats = len(cluster.asked(HeartbeatRequest))
    await until(lambda: len(cluster.asked(HeartbeatRequest)) > beats + 4)
    assert len(cluster.asked(FindCoordinatorRequest)) >= found + 2
    assert cluster.group.generation == 1
    assert consumer.assignment == {T0, T1}


async def test_a_member_whose_identity_was_taken_ends(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member(group_instance_id="me")
    cluster.next_only(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    await until(lambda: not consumer.assignment)
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID: group 'g': sending a heartbeat failed"):
        await consumer.poll(30_000)


async def test_a_group_that_refuses(cluster: ScriptedCluster, member: Make) -> None:
    cluster.on(ApiKey.JOIN_GROUP, lambda node, request: JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    consumer = await member(joined=False)
    with pytest.raises(KafkaError, match="INVALID_GROUP_ID: group 'g': joining failed"):
        await consumer.poll(30_000)


async def test_joining_goes_on_until_it_succeeds(cluster: ScriptedCluster, member: Make) -> None:
    cluster.next_only(
        ApiKey.JOIN_GROUP,
        JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        HANG_UP,
        JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR),
        None,
        JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID),
    )
    cluster.next_only(ApiKey.SYNC_GROUP, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), HANG_UP)
    assert (await member()).assignment == {T0, T1}


@pytest.mark.parametrize("protocol", ["sticky", None])
async def test_an_assignor_that_was_not_offered(cluster: ScriptedCluster, member: Make, protocol: Any) -> None:
    cluster.group.protocol = protocol
    consumer = await member(joined=False)
    with pytest.raises(KafkaError, match="INCONSISTENT_GROUP_PROTOCOL: the group chose the assignor"):
        await consumer.poll(30_000)


async def test_a_subscription_that_cannot_be_read(cluster: ScriptedCluster, member: Make) -> None:
    cluster.group.other_members = [JoinGroupResponseMember(member_id="other", metadata=b"?")]
    consumer = await member(joined=False)
    with pytest.raises(KafkaError, match="INCONSISTENT_GROUP_PROTOCOL: cannot read the subscription of member 'other'"):
        await consumer.poll(30_000)


async def test_an_assignment_that_cannot_be_read(cluster: ScriptedCluster, member: Make) -> None:
    cluster.group.assignment = b"?"
    consumer = await member(joined=False)
    with pytest.raises(KafkaError, match="INCONSISTENT_GROUP_PROTOCOL: cannot read the assignment"):
        await consumer.poll(30_000)


async def test_a_user_who_stays_away_gives_up_its_share(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member(max_poll_interval_ms=30)
    await consumer.poll(30_000, 1)
    await until(lambda: cluster.asked(LeaveGroupRequest))
    await until(lambda: not consumer.assignment)
    assert cluster.group.generation == 1
    assert cluster.asked(LeaveGroupRequest)[0].members[0].reason == ("no poll within max_poll_interval_ms")
    assert await consumer.poll(30_000, 1)
    assert cluster.group.member_id == "member-2"


async def test_a_user_who_stays_away_does_not_hold_up_a_rebalance(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member(max_poll_interval_ms=60)
    await consumer.poll(30_000, 1)
    cluster.group.must_rebalance = True
    await until(lambda: cluster.asked(LeaveGroupRequest))
    assert consumer.assignment == NOBODY


async def test_closing_commits_and_leaves(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member()
    records = await consumer.poll(30_000, 3)
    await consumer.close()
    assert cluster.committed[TopicPartition("t", records[0].partition)] == OffsetAndEpoch(3, 0)
    (leave,) = cluster.asked(LeaveGroupRequest)
    assert leave.members[0].member_id == "member-1"


async def test_a_static_member_does_not_leave(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member(group_instance_id="me")
    await consumer.close()
    assert not cluster.asked(LeaveGroupRequest)
    for request_type in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest):
        assert all(request.group_instance_id == "me" for request in cluster.asked(request_type))


async def test_a_coordinator_that_hangs_does_not_keep_from_closing(
    cluster: ScriptedCluster, member: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.client.consuming.membership.LEAVE_TIMEOUT_S", 0.02)
    monkeypatch.setattr("minikafka.client.consuming.commits.LAST_COMMIT_TIMEOUT_S", 0.02)
    consumer = await member()
    await consumer.poll(30_000, 1)
    for key in (ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP, ApiKey.HEARTBEAT):
        cluster.on(key, lambda node_id, request: HANG)
    await consumer.close()


async def test_while_it_joins_other_calls_are_answered(cluster: ScriptedCluster, member: Make) -> None:
    """A coordinator parks joins, and answers a connection's requests in order."""
    cluster.on(ApiKey.JOIN_GROUP, lambda node_id, request: HANG)
    consumer = await member(joined=False)
    await until(lambda: cluster.asked(JoinGroupRequest))
    assert await consumer.committed(T0) is None


async def test_offsets_are_not_committed_between_generations(cluster: ScriptedCluster, member: Make) -> None:
    cluster.on(ApiKey.JOIN_GROUP, lambda node_id, request: HANG)
    consumer = await member(joined=False)
    with pytest.raises(CommitFailedError, match="commit failed: this consumer has no assignment in its group"):
        await consumer.commit({T0: 1})


async def thrown_out(cluster: ScriptedCluster, consumer: Consumer) -> None:
    """Its partitions were somebody else's for a while; it has some again, in another generation."""
    generation = cluster.group.generation
    cluster.next_only(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    await rejoined(cluster, consumer, generation + 1)


@pytest.mark.parametrize("offsets", [None, {T0: 3}])
async def test_who_was_thrown_out_and_is_back_commits_nothing_of_before(
    cluster: ScriptedCluster, member: Make, offsets: dict[TopicPartition, int] | None
) -> None:
    consumer = await member(enable_auto_commit=False)
    assert await consumer.poll(30_000, 3)
    await thrown_out(cluster, consumer)
    await consumer.position(T0)  # it begins at 0 again
    with pytest.raises(CommitFailedError, match="the group rebalanced since"):
        await consumer.commit(offsets)
    assert not cluster.asked(OffsetCommitRequest)
    records = await consumer.poll(30_000, 2)
    await consumer.commit()
    (commit,) = cluster.asked(OffsetCommitRequest)
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (2, "member-2")
    assert cluster.committed[TopicPartition("t", records[0].partition)].offset == 2


@pytest.mark.parametrize("offsets", [None, {T0: 3}])
async def test_who_was_thrown_out_and_is_not_back_commits_nothing(
    cluster: ScriptedCluster, member: Make, offsets: dict[TopicPartition, int] | None
) -> None:
    consumer = await member(enable_auto_commit=False)
    assert await consumer.poll(30_000, 3)
    cluster.on(ApiKey.JOIN_GROUP, lambda node_id, request: HANG)
    cluster.next_only(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    await until(lambda: not consumer.assignment)
    with pytest.raises(CommitFailedError, match="this consumer has no assignment in its group now"):
        await consumer.commit(offsets)
    assert not cluster.asked(OffsetCommitRequest)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
async def test_who_does_not_know_yet_that_it_was_thrown_out_hears_it_from_its_commit(
    cluster: ScriptedCluster, member: Make, code: ErrorCode
) -> None:
    consumer = await member(enable_auto_commit=False)
    assert await consumer.poll(30_000, 3)
    cluster.on(ApiKey.OFFSET_COMMIT, lambda node_id, request: commit_answer(request, code))
    with pytest.raises(CommitFailedError, match="does not know this member in generation 1") as raised:
        await consumer.commit()
    assert raised.value.code is code
    assert len(cluster.asked(OffsetCommitRequest)) == 1


async def test_a_commit_under_way_does_not_go_into_the_next_generation(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member(enable_auto_commit=False)
    assert await consumer.poll(30_000, 3)
    cluster.on(ApiKey.OFFSET_COMMIT, lambda node_id, request: commit_answer(request, ErrorCode.NOT_COORDINATOR))
    committing = asyncio.ensure_future(consumer.commit())
    await until(lambda: cluster.asked(OffsetCommitRequest))
    await thrown_out(cluster, consumer)
    with pytest.raises(CommitFailedError, match="generation 1 of these records has ended"):
        await committing
    commits = cluster.asked(OffsetCommitRequest)
    assert {(commit.generation_id_or_member_epoch, commit.member_id) for commit in commits} == {(1, "member-1")}


async def test_who_has_committed_everything_need_not_know_of_a_rebalance(
    cluster: ScriptedCluster, member: Make
) -> None:
    consumer = await member(enable_auto_commit=False)
    assert await consumer.poll(30_000, 3)
    await consumer.commit()
    before = dict(cluster.committed)
    cluster.on(ApiKey.JOIN_GROUP, lambda node_id, request: HANG)
    cluster.next_only(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    await until(lambda: not consumer.assignment)
    await consumer.commit()
    assert cluster.committed == before


async def test_what_the_consumer_committed_itself_at_a_rebalance_is_no_failure(
    cluster: ScriptedCluster, member: Make
) -> None:
    consumer = await member()
    assert await consumer.poll(30_000, 18)
    cluster.group.must_rebalance = True
    while cluster.group.generation == 1:
        await consumer.poll(20)
    await rejoined(cluster, consumer, 2)
    await consumer.commit()


async def test_who_commits_itself_has_nothing_committed_for_it_at_a_rebalance(
    cluster: ScriptedCluster, member: Make
) -> None:
    consumer = await member(enable_auto_commit=False)
    assert await consumer.poll(30_000, 3)
    cluster.group.must_rebalance = True
    while cluster.group.generation == 1:
        await consumer.poll(20)
    await rejoined(cluster, consumer, 2)
    assert not cluster.asked(OffsetCommitRequest)


async def test_new_partitions_are_divided_too(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member()
    cluster.partitions[TopicPartition("t", 2)] = type(cluster.partition(0))(leader=1)
    consumer._metadata.request_refresh()
    await until(lambda: len(consumer.assignment) == 3)
    assert cluster.group.generation == 2


async def test_a_leader_that_is_back_assigns_nothing_and_notices_new_partitions(
    cluster: ScriptedCluster, member: Make
) -> None:
    """Nobody noticed them, until somebody came or went."""
    share = AssignmentTopicPartition(topic="t", partitions=[0, 1])
    cluster.group.keeps_assignment = True
    cluster.group.assignment = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[share]))
    consumer = await member(group_instance_id="me")
    assert consumer.assignment == {T0, T1}
    assert cluster.asked(SyncGroupRequest)[0].assignments == []
    cluster.group.keeps_assignment, cluster.group.assignment = False, None
    cluster.partitions[TopicPartition("t", 2)] = type(cluster.partition(0))(leader=1)
    consumer._metadata.request_refresh()
    await until(lambda: len(consumer.assignment) == 3)
    assert cluster.group.generation == 2


async def test_a_topic_may_be_created_later(cluster: ScriptedCluster, member: Make) -> None:
    consumer = await member("late", joined=False)
    await until(lambda: cluster.group.generation == 1)
    assert consumer.assignment == NOBODY
    cluster.create_topic("late", leaders=[1])
    await until(lambda: consumer.assignment == {TopicPartition("late", 0)})


async def test_another_subscription(cluster: ScriptedCluster, member: Make) -> None:
    cluster.create_topic("u", leaders=[1])
    consumer = await member()
    await consumer.subscribe("u")
    await until(lambda: consumer.assignment == {TopicPartition("u", 0)})
    assert cluster.group.generation == 2
