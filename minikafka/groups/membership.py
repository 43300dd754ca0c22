"""Heartbeat, LeaveGroup and sessions: who is still a member."""

from __future__ import annotations

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode
from minikafka.groups.answers import identities, leave_answer
from minikafka.groups.consumer import classic_members
from minikafka.groups.group import Group, GroupState
from minikafka.groups.rebalance import drop_member, maybe_complete_join, maybe_prepare_rebalance
from minikafka.groups.shard import Shard
from minikafka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity


def member_error(group: Group | None, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """NONE for a member; FENCED_INSTANCE_ID when a newer member has its instance id (KIP-345)."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group_instance_id is not None:
        current = group.static_members.get(group_instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if current == member_id else ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def heartbeat(shard: Shard, request: HeartbeatRequest, token: Token) -> None:
    """Extend the member's session; during a rebalance, tell it to rejoin."""
    group = shard.groups.get(request.group_id)
    if group is not None and group.consumer is not None and group.is_consumer:
        classic_members.heartbeat(shard, group, group.consumer, request, token)
        return
    error = member_error(group, request.member_id, request.group_instance_id)
    if group is not None and error is ErrorCode.NONE:
        if request.generation_id != group.generation_of(request.member_id):
            error = ErrorCode.ILLEGAL_GENERATION
        else:
            member = group.members[request.member_id]
            shard.extend_session(group, member, member.session_timeout_ms)
            if group.is_in(GroupState.PREPARING_REBALANCE):
                error = ErrorCode.REBALANCE_IN_PROGRESS
    shard.respond(token, HeartbeatResponse(error_code=error))


def leave_group(shard: Shard, request: LeaveGroupRequest, version: int, token: Token) -> None:
    """Remove the named members (KIP-345: several, also by instance id alone), then rebalance once."""
    group = shard.groups.get(request.group_id)
    if group is not None and group.consumer is not None and group.is_consumer:
        classic_members.leave_group(shard, group, group.consumer, request, version, token)
        return
    leaving = identities(request, version)
    size = 0 if group is None else len(group.members)
    errors = [_leave(shard, group, identity) for identity in leaving]
    shard.respond(token, leave_answer(leaving, errors, version))
    if group is not None and len(group.members) < size:
        _membership_shrank(shard, group)
    elif group is not None:
        _pending_shrank(shard, group)


def _leave(shard: Shard, group: Group | None, identity: MemberIdentity) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member_id = identity.member_id
    if not member_id and identity.group_instance_id is not None:
        member_id = group.static_members.get(identity.group_instance_id, "")
    if member_id in group.pending_members:
        group.pending_members.discard(member_id)
        shard.end_session(group, member_id)
        return ErrorCode.NONE
    error = member_error(group, member_id, identity.group_instance_id)
    if error is ErrorCode.NONE:
        drop_member(shard, group, member_id)
    return error


def on_member_timer(shard: Shard, group: Group, member_id: str) -> None:
    """A session may have ended, or a pending member has not joined in time."""
    if member_id in group.pending_members:
        group.pending_members.discard(member_id)
        _pending_shrank(shard, group)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    parked = member_id in group.awaiting_sync or (member_id in group.awaiting_join and not member.is_new)
    if parked:  # it waits for our answer
        member.session_deadline_ms = shard.now_ms + member.session_timeout_ms
    if shard.now_ms < member.session_deadline_ms:
        shard.arm_session(group, member)
    else:
        drop_member(shard, group, member_id)
        _membership_shrank(shard, group)


def _membership_shrank(shard: Shard, group: Group) -> None:
    """Rebalance among the remaining members; forget a group that never had a generation."""
    if group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        maybe_prepare_rebalance(shard, group)
    else:
        maybe_complete_join(shard, group)
    shard.maybe_forget(group)


def _pending_shrank(shard: Shard, group: Group) -> None:
    """A pending member does not come: complete joins that waited for it. A running generation is untouched."""
    maybe_complete_join(shard, group)
    shard.maybe_forget(group)
