"""JoinGroup: who may join, under which member id, and with or without a rebalance.

Three kinds of join (Kafka's ``classicGroupJoin``):

- Without a member id: a new member. From version 4 a dynamic one gets its id with MEMBER_ID_REQUIRED and must
  join again with it. So a client that retries leaves no ghosts behind (KIP-394).
- Without a member id but with an instance id that is in the group: a static member has restarted. It takes the place
  of its predecessor, which is fenced. A stable group needs only a record, and no rebalance (KIP-345).
- With a member id: a member that rejoins. It begins a rebalance if it is the leader, or if its metadata
  changed. A follower that repeats itself gets the current generation.
"""

from __future__ import annotations

from functools import partial

from minikafka.errors import ErrorCode
from minikafka.groups.answers import group_write_error
from minikafka.groups.consumer import classic_members
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.conversion import with_claims_of_now
from minikafka.groups.group import Group, GroupState, Member, size_in_bytes
from minikafka.groups.joins import Join
from minikafka.groups.membership import member_error
from minikafka.groups.memory import MEMBER_BYTES
from minikafka.groups.rebalance import (
    answer_parked_join,
    answer_parked_sync,
    current_generation,
    drop_member,
    maybe_complete_join,
    maybe_prepare_rebalance,
    metadata_record,
    prepare_rebalance,
)
from minikafka.groups.shard import Shard
from minikafka.groups.timers import MemberTimer
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

SKIP_ASSIGNMENT_FROM_VERSION = 9


def join_group(shard: Shard, join: Join) -> None:
    """Answer a JoinGroup, at once or when the joining phase completes."""
    request = join.request
    error = _refusal(shard, request)
    if error is not ErrorCode.NONE:
        _refuse(shard, join, error, request.member_id)
        return
    group = shard.group_or_new(request.group_id)
    if group.consumer is not None and group.is_consumer:
        if group.is_empty:
            _join_empty_consumer_group(shard, group, join)
        else:
            classic_members.join_group(shard, group, group.consumer, join)
    elif not (_has_room(shard, group, request.member_id) and _has_room_for_protocols(shard, group, join)):
        _turn_away(shard, group, join)
    elif not shard.memory.has_room_for(_more_bytes(group, join)):
        _refuse(shard, join, ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
    elif not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        _refuse(shard, join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif request.member_id:
        _join_again(shard, group, join)
    else:
        _join_first(shard, group, join)
    shard.maybe_forget(group)


def _join_empty_consumer_group(shard: Shard, group: Group, join: Join) -> None:
    """Row G9: a consumer group without members becomes a classic one, once its rows are gone."""
    if join.request.member_id:
        _refuse(shard, join, ErrorCode.UNKNOWN_MEMBER_ID, join.request.member_id)
        return
    change = Change(shard, group)
    change.remove_rows()
    change.finish(partial(_consumer_group_gone, shard, join))


def _consumer_group_gone(shard: Shard, join: Join, error: ErrorCode) -> None:
    if error is ErrorCode.NONE:
        join_group(shard, join)
    else:
        _refuse(shard, join, group_write_error(error), join.request.member_id)


def _refuse(shard: Shard, join: Join, error: ErrorCode, member_id: str) -> None:
    shard.respond(join.token, JoinGroupResponse(error_code=error, member_id=member_id))


def _refusal(shard: Shard, request: JoinGroupRequest) -> ErrorCode:
    settings = shard.settings
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if request.member_id and request.group_id not in shard.groups:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def _has_room(shard: Shard, group: Group, member_id: str) -> bool:
    """True for a member that has a place, and for a new one while the group is not full.

    While members rejoin, only those that have rejoined count. So a group above a lowered limit loses its last members.
    """
    placed = group.awaiting_join if group.is_in(GroupState.PREPARING_REBALANCE) else group.members
    others_pending = len(group.pending_members) - (member_id in group.pending_members)
    return member_id in placed or len(placed) + others_pending < shard.settings.max_size


def _has_room_for_protocols(shard: Shard, group: Group, join: Join) -> bool:
    """The metadata of all members fits into one answer. With 260 MB of it the node stood still for 13 s."""
    member = _known(group, join)
    others = group.protocols_bytes - (size_in_bytes(member.protocols) if member else 0)
    return others + size_in_bytes(join.protocols) <= shard.settings.protocols_bytes_max


def _more_bytes(group: Group, join: Join) -> int:
    """Of memory, once it has joined."""
    member, more = _known(group, join), size_in_bytes(join.protocols)
    if member is not None:
        return more - size_in_bytes(member.protocols) + len(join.caller.client_id) - len(member.client_id)
    more += len(join.caller.client_id) + len(join.request.group_instance_id or "")
    return more if join.request.member_id in group.pending_members else more + MEMBER_BYTES


def _known(group: Group, join: Join) -> Member | None:
    """The member that joins again, or whose place it takes."""
    request = join.request
    return group.members.get(request.member_id or group.static_members.get(request.group_instance_id or "", ""))


def _turn_away(shard: Shard, group: Group, join: Join) -> None:
    """The group is full: refuse the join, and give up its reserved member id."""
    member_id = join.request.member_id
    _refuse(shard, join, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if member_id in group.pending_members:
        group.pending_members.discard(member_id)
        shard.end_session(group, member_id)
        maybe_complete_join(shard, group)  # the others need not wait for it any more
    elif member_id in group.members:
        drop_member(shard, group, member_id)
        maybe_prepare_rebalance(shard, group)


# a first join


def _join_first(shard: Shard, group: Group, join: Join) -> None:
    instance_id = join.request.group_instance_id
    member_id = join.new_member_id(shard.new_member_suffix())
    if instance_id is not None and instance_id in group.static_members:
        _replace_static_member(shard, group, join, group.static_members[instance_id], member_id)
    elif join.needs_member_id:
        group.pending_members.add(member_id)
        shard.set_timer(MemberTimer(group.group_id, member_id), shard.now_ms + join.request.session_timeout_ms)
        _refuse(shard, join, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    else:
        _add_member(shard, group, join, member_id)


def _add_member(shard: Shard, group: Group, join: Join, member_id: str) -> None:
    if not group.members:
        group.protocol_type = join.request.protocol_type
    member = join.new_member(member_id)
    group.add(member)
    group.new_member_joined = True
    # It cannot heartbeat before its answer: its session is long, but ends, for the client may be gone.
    shard.extend_session(group, member, shard.settings.new_member_join_timeout_ms)
    _park_and_rebalance(shard, group, member_id, join)


def _park_and_rebalance(shard: Shard, group: Group, member_id: str, join: Join) -> None:
    """Begin or continue a rebalance that this member has joined."""
    answer_parked_join(shard, group, member_id, ErrorCode.REBALANCE_IN_PROGRESS)  # the client gave that one up
    group.awaiting_join[member_id] = join.token
    maybe_prepare_rebalance(shard, group)


# joining with a member id


def _join_again(shard: Shard, group: Group, join: Join) -> None:
    request = join.request
    if request.member_id in group.pending_members and request.group_instance_id is None:
        group.pending_members.discard(request.member_id)
        _add_member(shard, group, join, request.member_id)
        return
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        _refuse(shard, join, error, request.member_id)
        return
    member = group.members[request.member_id]
    if member.protocols == join.protocols and _knows_enough(group, member):
        shard.extend_session(group, member, member.session_timeout_ms)
        shard.respond(join.token, current_generation(group, member))
    else:
        _update(group, member, join)
        _park_and_rebalance(shard, group, member.member_id, join)


def _knows_enough(group: Group, member: Member) -> bool:
    """True when an unchanged member needs no rebalance: it missed its answer, or follows in a stable group.

    A leader rejoins a stable group because of a change that the coordinator does not see, for example a new partition.
    """
    if group.is_in(GroupState.STABLE):
        return group.leader_id != member.member_id
    return group.is_in(GroupState.COMPLETING_REBALANCE)


def _update(group: Group, member: Member, join: Join) -> None:
    protocols = with_claims_of_now(group, member.member_id, join.protocols)
    group.update(member, protocols, join.caller.client_id)
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms
    member.client_host = join.caller.client_host


# a static member that restarted


def _replace_static_member(shard: Shard, group: Group, join: Join, old_id: str, new_id: str) -> None:
    leader_before = group.leader_id
    answer_parked_join(shard, group, old_id, ErrorCode.FENCED_INSTANCE_ID)
    answer_parked_sync(shard, group, old_id, ErrorCode.FENCED_INSTANCE_ID)
    shard.end_session(group, old_id)
    member = group.replace_static_member(old_id, new_id)
    member.timer_ms = None
    member.is_new = False
    _update(group, member, join)
    shard.extend_session(group, member, member.session_timeout_ms)
    if group.is_in(GroupState.STABLE) and group.select_protocol() == group.protocol_name:
        done = partial(_static_member_written, shard, group, member, new_id, leader_before, join)
        shard.write(group, [metadata_record(shard, group)], done)
    else:
        _park_and_rebalance(shard, group, new_id, join)


def _static_member_written(
    shard: Shard, group: Group, member: Member, new_id: str, leader_before: str | None, join: Join, error: ErrorCode
) -> None:
    """The new id is committed: the restarted member continues in the place of its predecessor.

    If the group has moved on meanwhile, the join counts in the present phase. If the append of the record failed, a
    rebalance makes log and members agree again.
    """
    if error is not ErrorCode.NONE:
        _refuse(shard, join, group_write_error(error), new_id)
        if group.is_in(GroupState.STABLE):
            prepare_rebalance(shard, group)
    elif group.members.get(new_id) is not member:
        replaced = member.group_instance_id in group.static_members
        _refuse(shard, join, ErrorCode.FENCED_INSTANCE_ID if replaced else ErrorCode.UNKNOWN_MEMBER_ID, new_id)
    elif group.is_in(GroupState.PREPARING_REBALANCE):
        _park_and_rebalance(shard, group, new_id, join)
    else:
        shard.respond(join.token, _place_kept(group, member, leader_before, join.caller.version))


def _place_kept(group: Group, member: Member, leader_before: str | None, version: int) -> JoinGroupResponse:
    """The current generation, in a form that keeps a restarted leader from assigning anew.

    From version 9 the answer says "skip the assignment". Before, it names the predecessor as leader.
    """
    response = current_generation(group, member)
    if group.is_in(GroupState.STABLE) and group.leader_id == member.member_id:
        if version >= SKIP_ASSIGNMENT_FROM_VERSION:
            response.skip_assignment = True
        else:
            response.leader = leader_before or ""
            response.members = []
    return response
