"""ListGroups and DescribeGroups: read-only views of the groups of this shard."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from minikafka.groups.group import Group, GroupState, Member
from minikafka.groups.shard import Shard
from minikafka.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from minikafka.wire.messages.list_groups import ListedGroup

CLASSIC: Final = "classic"
ALL_STATES: Final = frozenset(GroupState)


def wanted_states(states: Collection[str], types: Collection[str]) -> frozenset[GroupState]:
    """The states of groups that pass these filters, in upper or lower case; an empty one passes all."""
    if types and CLASSIC not in {kind.lower() for kind in types}:
        return frozenset()
    names = {state.lower() for state in states}
    return frozenset(state for state in GroupState if not names or state.value.lower() in names)


def list_groups(shard: Shard, states: Collection[GroupState] = ALL_STATES) -> list[ListedGroup]:
    """The groups in one of `states`."""
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=CLASSIC,
        )
        for group in shard.groups.values()
        if group.state in states
    ]


def describe_group(shard: Shard, group_id: str) -> DescribedGroup:
    """The group with its members. An unknown group is Dead, without an error."""
    group = shard.groups.get(group_id)
    if group is None:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if group.is_in(GroupState.STABLE) else "",
        members=[_described(group, member) for member in group.members.values()],
    )


def _described(group: Group, member: Member) -> DescribedGroupMember:
    """Metadata and assignment only if the group is stable: otherwise they belong to no generation."""
    stable = group.is_in(GroupState.STABLE)
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata_for(group.protocol_name) if stable else b"",
        member_assignment=member.assignment if stable else b"",
    )
