"""From one generation of a group to the next.

A rebalance begins when the membership changes (:func:`maybe_prepare_rebalance`). It waits until every member has joined
again. It ends with :func:`complete_join`, which answers all joins with the new generation. Then the members fetch their
assignments (:mod:`minikafka.groups.syncing`).

An empty group waits ``group.initial.rebalance.delay.ms`` for more members, and again after each new one (KIP-134), up
to their rebalance timeout. A group with members waits at most for their longest rebalance timeout. A member that has
not joined by then is removed. Static members stay until their session ends (KIP-345).
"""

from __future__ import annotations

from minikafka.errors import ErrorCode
from minikafka.groups.group import Group, GroupState, Member
from minikafka.groups.records import GroupMetadataKey, GroupMetadataRecord, GroupMetadataValue, MemberMetadata
from minikafka.groups.shard import Shard
from minikafka.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from minikafka.wire.messages.sync_group import SyncGroupResponse


def maybe_prepare_rebalance(shard: Shard, group: Group) -> None:
    """The membership changed: begin a rebalance, or complete the running one if possible."""
    if group.is_in(GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        prepare_rebalance(shard, group)
    else:
        maybe_complete_join(shard, group)


def prepare_rebalance(shard: Shard, group: Group) -> None:
    """End the generation and wait for the members to join again."""
    fail_parked_syncs(shard, group, ErrorCode.REBALANCE_IN_PROGRESS)
    shard.end_phase(group)
    group.pending_sync.clear()
    group.assignment_in_flight = False
    delay_ms = shard.settings.initial_rebalance_delay_ms if group.is_in(GroupState.EMPTY) else 0
    group.transition_to(GroupState.PREPARING_REBALANCE)
    if delay_ms > 0:
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.new_member_joined = False
        shard.begin_phase(group, delay_ms)
    elif group.has_all_joined:
        complete_join(shard, group)
    else:
        shard.begin_phase(group, group.rebalance_timeout_ms)


def maybe_complete_join(shard: Shard, group: Group) -> None:
    """Complete the joining phase if every member has joined."""
    if group.is_in(GroupState.PREPARING_REBALANCE) and group.initial_delay_left_ms is None and group.has_all_joined:
        complete_join(shard, group)


def complete_join(shard: Shard, group: Group) -> None:
    """Begin the next generation with the members that have joined."""
    shard.end_phase(group)
    group.initial_delay_left_ms = None
    for member in [member for member in group.members.values() if not member.is_static]:
        if member.member_id not in group.awaiting_join:
            drop_member(shard, group, member.member_id)
    if group.members and not group.elect_joined_leader():
        shard.begin_phase(group, group.rebalance_timeout_ms)  # only static members, none back: their sessions decide
        return
    group.begin_generation()
    if group.is_in(GroupState.EMPTY):
        group.empty_since_ms = shard.now_ms
        shard.write(group, [metadata_record(shard, group)], lambda error: None)  # a failure loses nothing
        shard.maybe_forget(group)
    else:
        _answer_joins(shard, group)
        shard.begin_phase(group, group.rebalance_timeout_ms)


def _answer_joins(shard: Shard, group: Group) -> None:
    joined, group.awaiting_join = group.awaiting_join, {}
    for member_id, token in joined.items():
        member = group.members[member_id]
        member.is_new = False
        shard.extend_session(group, member, member.session_timeout_ms)
        shard.respond(token, current_generation(group, member))


def current_generation(group: Group, member: Member) -> JoinGroupResponse:
    """The JoinGroup answer for `member`; the leader's has the member list."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=member_list(group) if group.leader_id == member.member_id else [],
    )


def member_list(group: Group) -> list[JoinGroupResponseMember]:
    """The members with their metadata for the selected protocol."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata_for(group.protocol_name),
        )
        for member in group.members.values()
    ]


def on_phase_timer(shard: Shard, group: Group) -> None:
    """The joining or syncing phase may have timed out."""
    if group.phase_deadline_ms is None:
        return
    if shard.now_ms < group.phase_deadline_ms:
        shard.begin_phase(group, group.phase_deadline_ms - shard.now_ms)
        return
    group.phase_deadline_ms = None
    if not group.is_in(GroupState.PREPARING_REBALANCE):
        _expire_pending_syncs(shard, group)
    elif group.new_member_joined and group.initial_delay_left_ms:
        delay_ms = min(shard.settings.initial_rebalance_delay_ms, group.initial_delay_left_ms)
        group.initial_delay_left_ms -= delay_ms
        group.new_member_joined = False
        shard.begin_phase(group, delay_ms)
    else:
        complete_join(shard, group)


def _expire_pending_syncs(shard: Shard, group: Group) -> None:
    """Remove the members that joined but sent no SyncGroup."""
    for member_id in [member_id for member_id in group.members if member_id in group.pending_sync]:
        drop_member(shard, group, member_id)
    maybe_prepare_rebalance(shard, group)


def drop_member(shard: Shard, group: Group, member_id: str) -> None:
    """Remove a member and answer its parked requests. The caller handles the effect on the group."""
    answer_parked_join(shard, group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    answer_parked_sync(shard, group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    shard.end_session(group, member_id)
    group.remove(member_id)
    shard.weigh(group)


def answer_parked_join(shard: Shard, group: Group, member_id: str, error: ErrorCode) -> None:
    """Answer the member's parked JoinGroup, if any, with `error`."""
    token = group.awaiting_join.pop(member_id, None)
    if token is not None:
        shard.respond(token, JoinGroupResponse(error_code=error, member_id=member_id))


def fail_parked_joins(shard: Shard, group: Group, error: ErrorCode) -> None:
    """Answer every parked JoinGroup with `error`."""
    for member_id in list(group.awaiting_join):
        answer_parked_join(shard, group, member_id, error)


def answer_parked_sync(shard: Shard, group: Group, member_id: str, error: ErrorCode) -> None:
    """Answer the member's parked SyncGroup, if any, with `error`."""
    token = group.awaiting_sync.pop(member_id, None)
    if token is not None:
        shard.respond(token, SyncGroupResponse(error_code=error))


def fail_parked_syncs(shard: Shard, group: Group, error: ErrorCode) -> None:
    """Answer every parked SyncGroup with `error`."""
    for member_id in list(group.awaiting_sync):
        answer_parked_sync(shard, group, member_id, error)


def metadata_record(shard: Shard, group: Group, assignments: dict[str, bytes] | None = None) -> GroupMetadataRecord:
    """The record of the group's current generation; `assignments` by member id; default: the present ones."""
    return GroupMetadataRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=shard.wall_clock_ms(),
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata_for(group.protocol_name),
                    assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
                )
                for member in group.members.values()
            ],
        ),
    )
