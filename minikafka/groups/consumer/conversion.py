"""A group with members changes its protocol, and none of them stops (KIP-848; row G14).

Up: a member of the newer protocol joins a classic group. In one write the classic group is removed, and each of its
members becomes one of a consumer group, in an epoch that is the generation. The partitions that it may have are its
own: those that it was assigned last, and what else it has told that it has. It goes on with JoinGroup, SyncGroup and
Heartbeat (:mod:`minikafka.groups.consumer.classic_members`).

Down: the last member of the newer protocol has gone. In one write all rows are removed, and the classic members are a
generation again, which is the epoch. It has no leader: a rebalance begins at once, or when the shard is loaded.

If the write fails, the group is what it was, as if nobody had asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.answers import group_write_error
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.records import (
    ClassicMetadata,
    ConsumerGroupRecord,
    CurrentAssignment,
    GroupEpoch,
    Kind,
    MemberState,
    Owned,
    Subscription,
    TargetMetadata,
)
from minikafka.groups.consumer.topics import Topics
from minikafka.groups.group import Group, GroupState, Member, Protocols, size_in_bytes
from minikafka.groups.rebalance import fail_parked_joins, metadata_record, prepare_rebalance
from minikafka.groups.records import GroupMetadataKey, GroupMetadataRecord
from minikafka.groups.shard import Shard
from minikafka.groups.timers import MemberTimer, RebalanceTimer
from minikafka.groups.writes import Done
from minikafka.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    version_of_metadata,
)
from minikafka.wire.errors import WireError
from minikafka.wire.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from minikafka.wire.messages.join_group import JoinGroupResponse
from minikafka.wire.messages.sync_group import SyncGroupResponse

KNOWN_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Of classic clients. What another one keeps in the assignments would be lost."""

TopicPartitions = Iterable[tuple[str, Iterable[int]]]


# up


def rows_of_classic(shard: Shard, group: Group) -> list[ConsumerGroupRecord]:
    """What the classic group will be as a consumer group, in Kafka's order. KafkaError(GROUP_ID_NOT_FOUND) if it
    cannot be one."""
    _check_upgrade(shard, group)
    try:
        members = {name: _subscription(group, member) for name, member in group.members.items()}
        assigned = dict(_last_assignments(shard.topics, group))
        pending = dict(_what_else_they_have(shard.topics, group, assigned))
    except WireError as error:
        raise _not_upgraded(group, f"its members' metadata cannot be read: {error}") from None
    epoch, now_ms = group.generation_id, shard.wall_clock_ms()
    row = partial(ConsumerGroupRecord, group_id=group.group_id)
    rows = [row(kind=Kind.MEMBER, name=name, value=wanted) for name, wanted in members.items()]
    rows.append(row(kind=Kind.GROUP, name="", value=GroupEpoch(epoch)))
    for name, owned in assigned.items():
        rows.append(row(kind=Kind.TARGET, name=name, value={each: frozenset(owned[each]) for each in owned}))
    rows.append(row(kind=Kind.TARGET_METADATA, name="", value=TargetMetadata(epoch, now_ms)))
    for name, owned in assigned.items():
        rows.append(row(kind=Kind.CURRENT, name=name, value=_current(group, name, owned, pending[name])))
    return rows


def _current(group: Group, name: str, owned: Owned, pending: Owned) -> CurrentAssignment:
    """Where a member is. Who was behind when the group went down is behind still, and has what it had since then."""
    epoch = group.generation_of(name)
    before = None if group.former is None else group.former.currents.get(name)

    def since(owned: Owned) -> Owned:
        return {
            id_: {index: (before and before.epoch_of(id_, index)) or epoch for index in owned[id_]} for id_ in owned
        }

    return CurrentAssignment(
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=MemberState.UNREVOKED_PARTITIONS if pending else MemberState.STABLE,
        assigned=since(owned),
        pending_revocation=since(pending),
    )


def _check_upgrade(shard: Shard, group: Group) -> None:
    if not shard.settings.consumer_migration_policy.allows_upgrade:
        raise _not_upgraded(group, "group.consumer.migration.policy does not allow it")
    if group.protocol_type != PROTOCOL_TYPE:
        raise _not_upgraded(group, f"its protocol type is {group.protocol_type!r}")
    if len(group.members) > shard.settings.consumer_max_size:
        raise _not_upgraded(group, f"it has {len(group.members)} members, more than group.consumer.max.size")


def _not_upgraded(group: Group, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"classic group {group.group_id!r} does not become a consumer group: {why}"
    )


def _metadata(group: Group, member: Member) -> bytes:
    return member.metadata_for(group.protocol_name) or member.protocols[0][1]


def _subscription(group: Group, member: Member) -> Subscription:
    classic = ClassicMetadata(member.session_timeout_ms, member.protocols)
    wanted = decode_subscription(_metadata(group, member))
    return Subscription(
        instance_id=member.group_instance_id,
        rack_id=wanted.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(set(wanted.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=classic,
    )


def _last_assignments(topics: Topics, group: Group) -> Iterator[tuple[str, Owned]]:
    """By member, the partitions that exist; the first of two members has what a strange leader gave to both."""
    taken: set[tuple[UUID, int]] = set()
    for name, member in group.members.items():
        assignment = decode_assignment(member.assignment) if member.assignment else ConsumerProtocolAssignment()
        if assignment.user_data and group.protocol_name not in KNOWN_ASSIGNORS:
            raise _not_upgraded(group, f"assignor {group.protocol_name!r} keeps data in its assignments")
        partitions = ((each.topic, each.partitions) for each in assignment.assigned_partitions)
        yield name, _free(topics, partitions, taken, group.generation_id)


def _what_else_they_have(topics: Topics, group: Group, assigned: Mapping[str, Owned]) -> Iterator[tuple[str, Owned]]:
    """What members told to have when they joined, and nobody was assigned: they are to say that they gave it up."""
    taken = {(topic_id, index) for owned in assigned.values() for topic_id in owned for index in owned[topic_id]}
    for name, member in group.members.items():
        subscription = decode_subscription(_metadata(group, member))
        yield name, _free(topics, owned_partitions(subscription), taken, group.generation_id)


def _free(topics: Topics, partitions: TopicPartitions, taken: set[tuple[UUID, int]], epoch: int) -> Owned:
    """Those that exist and are not taken; they are taken then."""
    owned: dict[UUID, dict[int, int]] = {}
    for name, indexes in partitions:
        topic = topics.named(name)
        for index in indexes if topic is not None else ():
            assert topic is not None
            if 0 <= index < topic.partitions and (topic.topic_id, index) not in taken:
                taken.add((topic.topic_id, index))
                owned.setdefault(topic.topic_id, {})[index] = epoch
    return owned


def owned_partitions(subscription: ConsumerProtocolSubscription) -> TopicPartitions:
    """What a classic member says that it has."""
    return ((each.topic, each.partitions) for each in subscription.owned_partitions)


def upgrade(change: Change, rows: Iterable[ConsumerGroupRecord]) -> None:
    """Put the rows in the place of the classic group.

    Who waits in a JoinGroup or a SyncGroup is told to join again, once that is committed.
    """
    shard, group = change.shard, change.group
    shard.cancel_timer(RebalanceTimer(group.group_id))
    for member_id in sorted(group.pending_members):
        shard.end_session(group, member_id)
    taken = group.take_membership()
    for member_id, token in taken["awaiting_join"].items():
        change.followers.append(partial(_tell, shard, token, JoinGroupResponse(member_id=member_id)))
    for token in taken["awaiting_sync"].values():
        change.followers.append(partial(_tell, shard, token, SyncGroupResponse()))
    change.undo = partial(_stay_classic, change, taken)
    change.add(GroupMetadataRecord(GroupMetadataKey(group=group.group_id), None))
    for row in rows:
        change.put(row.kind, row.name, row.value)
    change.consumer.topics_version = -1  # what it was in an earlier life does not count
    shard.match_sessions(group)


def _tell(shard: Shard, token: Token, response: JoinGroupResponse | SyncGroupResponse, error: ErrorCode) -> None:
    is_leader = error in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
    response.error_code = ErrorCode.REBALANCE_IN_PROGRESS if is_leader else group_write_error(error)
    shard.respond(token, response)


def _stay_classic(change: Change, taken: dict[str, Any]) -> None:
    """Who waits goes on to wait, and who was given an id may still come."""
    shard, group = change.shard, change.group
    change.followers.clear()
    group.put_back(taken)
    for member in group.members.values():
        shard.arm_session(group, member)
    for member_id in sorted(group.pending_members):
        pending_ms = shard.settings.min_session_timeout_ms
        shard.set_timer(MemberTimer(group.group_id, member_id), shard.now_ms + pending_ms)
    if group.phase_deadline_ms is not None:
        shard.set_timer(RebalanceTimer(group.group_id), group.phase_deadline_ms)


# down


def is_downgrade_due(shard: Shard, consumer: ConsumerGroup, becomes: Subscription | None = None) -> bool:
    """True when all members are classic ones, and may be a classic group.

    ``becomes``: what a member of the newer protocol wants, which is about to be a classic one.
    """
    count = len(consumer.subscriptions)
    if not 0 < consumer.subscribed.classic + (becomes is not None) == count <= shard.settings.max_size:
        return False
    if not shard.settings.consumer_migration_policy.allows_downgrade:
        return False
    members = (each for each in (*consumer.subscriptions.values(), becomes) if each is not None)
    protocols = (each.classic.protocols for each in members if each.classic is not None)
    return sum(map(size_in_bytes, protocols)) <= shard.settings.protocols_bytes_max


def downgrade(change: Change, done: Done) -> None:
    """Put a classic group in the place of the rows, and let it rebalance."""
    shard, group, consumer = change.shard, change.group, change.consumer
    members = [_member(name, wanted) for name, wanted in consumer.subscriptions.items()]
    had = {name: consumer.current(name) for name in consumer.subscriptions}
    epoch, former = consumer.epoch, consumer.snapshot()
    for name in list(consumer.sessions):
        shard.end_consumer_session(group, name)
    change.remove_rows()
    group.generation_id, group.protocol_type, group.state = epoch, PROTOCOL_TYPE, GroupState.STABLE
    for member in members:
        member.assignment = _assignment(shard.topics, member, had[member.member_id])
        group.add(member)
        shard.extend_session(group, member, member.session_timeout_ms)
    group.protocol_name, group.former = group.select_protocol(), former
    record = metadata_record(shard, group)
    assert record.value is not None
    record.value.leader = None
    change.add(record)
    change.undo = partial(_stay_consumer, shard, group)
    prepare_rebalance(shard, group)
    change.finish(done)


def _member(member_id: str, wanted: Subscription) -> Member:
    assert wanted.classic is not None
    return Member(
        member_id=member_id,
        group_instance_id=wanted.instance_id,
        client_id=wanted.client_id,
        client_host=wanted.client_host,
        rebalance_timeout_ms=wanted.rebalance_timeout_ms,
        session_timeout_ms=wanted.classic.session_timeout_ms,
        protocols=wanted.classic.protocols,
    )


def _assignment(topics: Topics, member: Member, current: CurrentAssignment) -> bytes:
    """All that the member may have, also what it was to give up."""
    return encode_owned(topics, member.protocols[0][1], current.assigned, current.pending_revocation)


def encode_owned(topics: Topics, metadata: bytes, *parts: Owned) -> bytes:
    """An assignment for a member with this metadata, in the version that it knows. Deleted topics are left out."""
    found: dict[str, list[int]] = {}
    for owned in parts:
        for topic_id, indexes in owned.items():
            topic = topics.with_id(topic_id)
            if topic is not None:
                found.setdefault(topic.name, []).extend(indexes)
    partitions = [AssignmentTopicPartition(topic=name, partitions=sorted(found[name])) for name in sorted(found)]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=partitions), version_of_metadata(metadata))


def with_claims_of_now(group: Group, member_id: str, protocols: Protocols) -> Protocols:
    """What a member tells when it joins. Where the group has just gone down, it may be in an earlier epoch than others,
    and has its partitions all the same; but assignors believe only who was in the newest generation."""
    if group.generation_of(member_id) == group.generation_id:
        return protocols
    return tuple((name, _claimed_in(group.generation_id, metadata)) for name, metadata in protocols)


def _claimed_in(generation_id: int, metadata: bytes) -> bytes:
    try:
        told = decode_subscription(metadata)
    except WireError:
        return metadata
    if told.generation_id < 0:  # none, or the client does not say
        return metadata
    told.generation_id = generation_id
    return encode_subscription(told, version_of_metadata(metadata))


def _stay_consumer(shard: Shard, group: Group) -> None:
    """The rows are back, and so are the sessions."""
    shard.end_phase(group)
    fail_parked_joins(shard, group, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    sessions = {} if group.consumer is None else group.consumer.sessions
    for member_id in [name for name in group.members if name not in sessions]:  # one that has joined in vain
        shard.end_session(group, member_id)
    group.take_membership()
