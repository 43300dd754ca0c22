"""ListGroups and DescribeGroups: read-only views of the groups of this shard."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from minikafka.groups.group import Group, GroupState, Member
from minikafka.groups.shard import Shard
from minikafka.wire.consumer_protocol import PROTOCOL_TYPE
from minikafka.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from minikafka.wire.messages.list_groups import ListedGroup

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
ALL_STATES: Final[Collection[str]] = frozenset()
ALL_TYPES: Final[Collection[str]] = frozenset()


def list_groups(
    shard: Shard, states: Collection[str] = ALL_STATES, types: Collection[str] = ALL_TYPES
) -> Iterator[ListedGroup | None]:
    """The groups of these states and types, which are in upper or lower case; an empty filter passes all.

    None for each of the others: to look at one takes as long. Much may happen between two of them.
    """
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    for group in list(shard.groups.values()):
        if shard.groups.get(group.group_id) is not group:
            continue
        listed = _listed(group)
        is_wanted = (not wanted_states or listed.group_state.lower() in wanted_states) and (
            not wanted_types or listed.group_type in wanted_types
        )
        yield listed if is_wanted else None


def _listed(group: Group) -> ListedGroup:
    if group.consumer is not None and group.is_consumer:
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=PROTOCOL_TYPE,
            group_state=group.consumer.state.value,
            group_type=CONSUMER,
        )
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=CLASSIC,
    )


def describe_group(shard: Shard, group_id: str) -> DescribedGroup:
    """The group with its members. An unknown group is Dead, without an error; so is one of another protocol."""
    group = shard.groups.get(group_id)
    if group is None or group.is_consumer:
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
