"""SyncGroup: the leader sends the assignment, and each member gets its part once it is committed.

Requests of a generation are parked until the record with the leader's assignment is committed. So an assignment that
any member has seen survives the loss of the coordinator, and two coordinators never give out different assignments for
one generation. The leader's first assignment counts: a repeated request writes no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode
from minikafka.groups.answers import group_write_error
from minikafka.groups.consumer import classic_members
from minikafka.groups.group import Group, GroupState, Member, assignments_size
from minikafka.groups.membership import member_error
from minikafka.groups.rebalance import answer_parked_sync, fail_parked_syncs, metadata_record, prepare_rebalance
from minikafka.groups.shard import Shard
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync_group(shard: Shard, request: SyncGroupRequest, token: Token) -> None:
    """Answer with the member's assignment, now or once it is committed."""
    group = shard.groups.get(request.group_id)
    if group is not None and group.consumer is not None and group.is_consumer:
        classic_members.sync_group(shard, group, group.consumer, request, token)
        return
    error = _refusal(group, request)
    if group is None or error is not ErrorCode.NONE:
        shard.respond(token, SyncGroupResponse(error_code=error))
        return
    member = group.members[request.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        shard.end_phase(group)
    if group.is_in(GroupState.STABLE):
        _answer(shard, group, member, token)
    else:
        _park(shard, group, member, request, token)


def _refusal(group: Group | None, request: SyncGroupRequest) -> ErrorCode:
    error = member_error(group, request.member_id, request.group_instance_id)
    if group is None or error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_of(request.member_id):
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(GroupState.PREPARING_REBALANCE) else ErrorCode.NONE


def _answer(shard: Shard, group: Group, member: Member, token: Token) -> None:
    shard.extend_session(group, member, member.session_timeout_ms)
    shard.respond(
        token,
        SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
        ),
    )


def _park(shard: Shard, group: Group, member: Member, request: SyncGroupRequest, token: Token) -> None:
    answer_parked_sync(shard, group, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)  # the client gave that one up
    group.awaiting_sync[member.member_id] = token
    if group.leader_id == member.member_id and not group.assignment_in_flight:
        assignments = {given.member_id: given.assignment for given in request.assignments}
        group.assignment_in_flight = True
        done = partial(_assignment_written, shard, group, group.generation_id)
        if not shard.memory.has_room_for(assignments_size(assignments.values()) - group.assignments_bytes):
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        shard.write(group, [metadata_record(shard, group, assignments)], done)


def _assignment_written(shard: Shard, group: Group, generation_id: int, error: ErrorCode) -> None:
    """The assignment of `generation_id` is committed, or its append failed and the members must retry."""
    if not group.is_in(GroupState.COMPLETING_REBALANCE) or group.generation_id != generation_id:
        return  # the group has moved on; no member has seen that assignment
    if error is not ErrorCode.NONE:
        fail_parked_syncs(shard, group, group_write_error(error))
        prepare_rebalance(shard, group)
        return
    assert group.persisted is not None
    group.assignment_in_flight = False
    for persisted in group.persisted.members:
        group.members[persisted.member_id].assignment = persisted.assignment
    group.transition_to(GroupState.STABLE)
    parked, group.awaiting_sync = group.awaiting_sync, {}
    for member_id in _leader_first(group, parked):
        _answer(shard, group, group.members[member_id], parked[member_id])


def _leader_first(group: Group, waiting: Iterable[str]) -> list[str]:
    """The leader's answer goes first: it came last only because it computed the assignment."""
    return sorted(waiting, key=lambda member_id: member_id != group.leader_id)
