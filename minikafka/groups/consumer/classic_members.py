"""Members of the classic protocol in a consumer group (KIP-848; row G14).

They have what all members have: a subscription, an epoch, an assignment. Only the requests are others:

============= =========================================================================================================
Heartbeat     the generation is the member epoch. REBALANCE_IN_PROGRESS tells the member to join again: a newer epoch,
              partitions to give up, or partitions that have become free
JoinGroup     what a full heartbeat tells. The subscription and the partitions that the member has are in the metadata
              of its first protocol. The answer is a generation without members and without a leader
SyncGroup     the assignment, as if a leader had made it
LeaveGroup    any members of the group, also those of the newer protocol
============= =========================================================================================================

A member that is told to join again has its rebalance timeout to do so, and again to fetch its assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.answers import group_write_error, identities, leave_answer
from minikafka.groups.consumer import admission, conversion, target
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.leaving import remove_members
from minikafka.groups.consumer.records import ClassicMetadata, CurrentAssignment, Kind, MemberState, Subscription
from minikafka.groups.consumer.steps import replace_static_member, step, subscribe
from minikafka.groups.consumer.topics import Topics
from minikafka.groups.group import Group, GroupState
from minikafka.groups.joins import Join
from minikafka.groups.rebalance import answer_parked_join, maybe_complete_join
from minikafka.groups.settings import MigrationPolicy
from minikafka.groups.shard import Shard
from minikafka.wire.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from minikafka.wire.errors import WireError
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from minikafka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.wire.messages.join_group import JoinGroupResponse
from minikafka.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def join_group(shard: Shard, group: Group, consumer: ConsumerGroup, join: Join) -> None:
    """Serve the JoinGroup of a member, or of a new one; the session timeout is checked."""
    try:
        _join(shard, group, consumer, join)
    except KafkaError as error:
        shard.respond(join.token, JoinGroupResponse(error_code=error.code, member_id=join.request.member_id))


def _join(shard: Shard, group: Group, consumer: ConsumerGroup, join: Join) -> None:
    told = _told(shard, consumer, join)
    if join.needs_member_id:
        member_id = join.new_member_id(shard.new_member_suffix())
        shard.respond(join.token, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
        return
    replaced = _admit(shard, consumer, join, told)
    member_id = join.request.member_id or join.new_member_id(shard.new_member_suffix())
    before = admission.subscription_of(consumer, replaced or member_id)
    wanted = _wanted(join, told, before)
    admission.check_size(shard, consumer, replaced or member_id, wanted)
    # From here on nothing is refused.
    change = Change(shard, group)
    if replaced is not None:
        replace_static_member(change, replaced, member_id)
        if before.classic is None and conversion.is_downgrade_due(shard, consumer, becomes=wanted):
            change.put(Kind.MEMBER, member_id, wanted)
            conversion.downgrade(change, partial(_went_down, shard, group, join, member_id))
            return
    subscribe(change, member_id, before, wanted)
    has = step(change, member_id, _owned(shard.topics, told), is_certain=True)
    shard.match_sessions(group)
    shard.extend_consumer_session(group, consumer, member_id)
    shard.set_rebalance_deadline(group, consumer, member_id)
    change.finish(partial(_joined, shard, join, member_id, has))


def _told(shard: Shard, consumer: ConsumerGroup, join: Join) -> ConsumerProtocolSubscription:
    """What the member tells. INCONSISTENT_GROUP_PROTOCOL for one that cannot be in the group."""
    if shard.settings.consumer_migration_policy is MigrationPolicy.DISABLED:
        raise _inconsistent("group.consumer.migration.policy does not allow classic members in a consumer group")
    known = consumer.subscriptions.get(join.request.member_id)
    has_common = any(consumer.subscribed.have_protocol(name, but=known) for name, _ in join.protocols)
    if join.request.protocol_type != PROTOCOL_TYPE or not has_common:
        raise _inconsistent("the classic members of the group have no protocol in common")
    try:
        return decode_subscription(join.protocols[0][1])
    except WireError as error:
        raise _inconsistent(f"the metadata of the member cannot be read: {error}") from None


def _inconsistent(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, why)


def _admit(shard: Shard, consumer: ConsumerGroup, join: Join, told: ConsumerProtocolSubscription) -> str | None:
    """Check the sender; the id of the static member whose place it takes, if it does.

    Who is not in the group and has partitions was removed, and does not know: it must give them up before it joins. An
    id alone is good, for ids that were given out are not remembered.
    """
    member_id, instance_id = join.request.member_id, join.request.group_instance_id
    if instance_id is not None and member_id:
        admission.check_static_member(consumer, instance_id, member_id)
    replaced = None if member_id or instance_id is None else consumer.static_members.get(instance_id)
    known = consumer.subscriptions.get(member_id)
    was_removed = known is None and member_id and any(each.partitions for each in told.owned_partitions)
    if was_removed or (known is not None and known.classic is None):
        raise admission.unknown(member_id)
    if known is None and replaced is None and len(consumer.subscriptions) >= shard.settings.consumer_max_size:
        size = len(consumer.subscriptions)
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {size} members already")
    return replaced


def _wanted(join: Join, told: ConsumerProtocolSubscription, before: Subscription) -> Subscription:
    """What the member wants from now on; ``before`` itself if that is the same."""
    wanted = Subscription(
        instance_id=join.request.group_instance_id
        if join.request.group_instance_id is not None
        else before.instance_id,
        rack_id=told.rack_id or None,
        client_id=join.caller.client_id,
        client_host=join.caller.client_host,
        topic_names=tuple(sorted(set(told.topics))),
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        classic=ClassicMetadata(join.request.session_timeout_ms, join.protocols),
    )
    return before if wanted == before else wanted


def _owned(topics: Topics, told: ConsumerProtocolSubscription) -> dict[UUID, frozenset[int]]:
    named = ((topics.named(name), indexes) for name, indexes in conversion.owned_partitions(told))
    return {topic.topic_id: frozenset(indexes) for topic, indexes in named if topic is not None}


def _went_down(shard: Shard, group: Group, join: Join, member_id: str, error: ErrorCode) -> None:
    """The group is a classic one for good: the member that made it so has joined its rebalance, if that goes on."""
    if error is not ErrorCode.NONE:
        error = group_write_error(error)
    elif member_id not in group.members:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif not group.is_in(GroupState.PREPARING_REBALANCE):
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error is not ErrorCode.NONE:
        shard.respond(join.token, JoinGroupResponse(error_code=error, member_id=member_id))
        return
    answer_parked_join(shard, group, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    group.awaiting_join[member_id] = join.token
    maybe_complete_join(shard, group)


def _joined(shard: Shard, join: Join, member_id: str, has: CurrentAssignment, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        shard.respond(join.token, JoinGroupResponse(error_code=group_write_error(error), member_id=member_id))
        return
    shard.respond(
        join.token,
        JoinGroupResponse(
            generation_id=has.member_epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=join.protocols[0][0],
            member_id=member_id,
        ),
    )


def sync_group(shard: Shard, group: Group, consumer: ConsumerGroup, request: SyncGroupRequest, token: Token) -> None:
    """Give a member its assignment, once what that comes from is committed."""
    error = _sync_error(shard, consumer, request)
    if error is not ErrorCode.NONE:
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            _await_join(shard, group, consumer, request.member_id)
        shard.respond(token, SyncGroupResponse(error_code=error))
        return
    wanted = consumer.subscriptions[request.member_id]
    assert wanted.classic is not None
    name, metadata = wanted.classic.protocols[0]
    shard.extend_consumer_session(group, consumer, request.member_id)
    shard.clear_rebalance_deadline(group, consumer, request.member_id)
    assigned = conversion.encode_owned(shard.topics, metadata, consumer.current(request.member_id).assigned)
    response = SyncGroupResponse(
        protocol_type=PROTOCOL_TYPE, protocol_name=request.protocol_name or name, assignment=assigned
    )
    shard.after_writes(group, partial(_synced, shard, token, response))


def _sync_error(shard: Shard, consumer: ConsumerGroup, request: SyncGroupRequest) -> ErrorCode:
    error = _member_error(consumer, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    classic, current = consumer.subscriptions[request.member_id].classic, consumer.current(request.member_id)
    assert classic is not None
    if request.generation_id != current.member_epoch:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, *classic.names):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # Who has to give partitions up has joined already, and joins again when it has.
    is_late = current.member_epoch < target.epoch_to_come(shard, consumer)
    must_join = is_late and current.state is not MemberState.UNREVOKED_PARTITIONS
    return ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE


def _synced(shard: Shard, token: Token, response: SyncGroupResponse, error: ErrorCode) -> None:
    failed = SyncGroupResponse(error_code=group_write_error(error))
    shard.respond(token, response if error is ErrorCode.NONE else failed)


def heartbeat(shard: Shard, group: Group, consumer: ConsumerGroup, request: HeartbeatRequest, token: Token) -> None:
    """Extend the member's session, and tell it when to join again."""
    error = _member_error(consumer, request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and request.generation_id != consumer.current(request.member_id).member_epoch:
        error = ErrorCode.ILLEGAL_GENERATION
    if error is ErrorCode.NONE:
        shard.extend_consumer_session(group, consumer, request.member_id)
        _look_at_topics(shard, group, consumer)
        if _must_join(shard, consumer, request.member_id):
            _await_join(shard, group, consumer, request.member_id)
            error = ErrorCode.REBALANCE_IN_PROGRESS
    shard.respond(token, HeartbeatResponse(error_code=error))


def _look_at_topics(shard: Shard, group: Group, consumer: ConsumerGroup) -> None:
    """No leader looks at them any more."""
    if consumer.topics_version != shard.topics_version:
        change = Change(shard, group)
        change.maybe_raise_epoch()
        change.finish(lambda error: None)


def _must_join(shard: Shard, consumer: ConsumerGroup, member_id: str) -> bool:
    current = consumer.current(member_id)
    match current.state:
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case MemberState.UNRELEASED_PARTITIONS if not _waits_for_others(shard, consumer, member_id, current):
            return True
    return current.member_epoch < target.epoch_to_come(shard, consumer)


def _waits_for_others(shard: Shard, consumer: ConsumerGroup, member_id: str, current: CurrentAssignment) -> bool:
    """True while it would get nothing new: others have all that it is still to get."""
    missing = (
        (topic_id, index)
        for topic_id, indexes in target.of_member(shard, consumer, member_id).partitions.items()
        for index in indexes.difference(current.assigned.get(topic_id, {}))
    )
    return any(consumer.owner_of(topic_id, index) is not None for topic_id, index in missing)


def _await_join(shard: Shard, group: Group, consumer: ConsumerGroup, member_id: str) -> None:
    if consumer.sessions[member_id].rebalance_deadline_ms is None:
        shard.set_rebalance_deadline(group, consumer, member_id)


def _member_error(consumer: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """NONE for a classic member."""
    try:
        if instance_id is not None:
            admission.check_static_member(consumer, instance_id, member_id)
    except KafkaError as error:
        return error.code
    known = consumer.subscriptions.get(member_id)
    return ErrorCode.NONE if known is not None and known.classic is not None else ErrorCode.UNKNOWN_MEMBER_ID


def leave_group(
    shard: Shard, group: Group, consumer: ConsumerGroup, request: LeaveGroupRequest, version: int, token: Token
) -> None:
    """Remove the named members; answer when that is committed."""
    leaving = identities(request, version)
    found = [_leaving_member(consumer, identity) for identity in leaving]
    known = list(dict.fromkeys(each for each in found if isinstance(each, str)))
    done = partial(_left, shard, leaving, found, version, token)
    if known:
        remove_members(shard, group, known, done)
    else:
        done(ErrorCode.NONE)


def _leaving_member(consumer: ConsumerGroup, identity: MemberIdentity) -> str | ErrorCode:
    """The member's id, or why there is none."""
    instance_id, member_id = identity.group_instance_id, identity.member_id
    if instance_id is not None:
        holder = consumer.static_members.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return holder if member_id in ("", holder) else ErrorCode.FENCED_INSTANCE_ID
    return member_id if member_id in consumer.subscriptions else ErrorCode.UNKNOWN_MEMBER_ID


def _left(
    shard: Shard,
    leaving: list[MemberIdentity],
    found: Sequence[str | ErrorCode],
    version: int,
    token: Token,
    error: ErrorCode,
) -> None:
    errors = [each if isinstance(each, ErrorCode) else group_write_error(error) for each in found]
    shard.respond(token, leave_answer(leaving, errors, version))
