"""Consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minikafka.client.admin.base import NO_TOPIC, AdminCalls, check
from minikafka.client.consuming.coordinator import Coordinator
from minikafka.client.consuming.queries import indexes_by_topic
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, NO_NODE, OffsetAndEpoch, TopicPartition
from minikafka.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from minikafka.wire.errors import WireError
from minikafka.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
)
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from minikafka.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from minikafka.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

DEAD: Final = "Dead"
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class GroupMember(NamedTuple):
    """One member of a group and what it reads."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None
    assignment: tuple[TopicPartition, ...]
    member_epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    """What it is to read soon. This and the epoch only in a group of the newer protocol (KIP-848)."""


class GroupListing(NamedTuple):
    """A group in a list. ``group_type``: classic or consumer, for example; empty from brokers before Kafka 3.7."""

    group_id: str
    state: str
    group_type: str = ""
    protocol_type: str = ""


class GroupView(NamedTuple):
    """One group. ``state`` is Empty or Stable; for a classic group also PreparingRebalance or CompletingRebalance, for
    one of the newer protocol (KIP-848) Assigning or Reconciling."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    group_type: str = CLASSIC
    coordinator: int = NO_NODE


class GroupCalls(AdminCalls):
    """Calls about groups."""

    async def list_groups(self) -> list[GroupListing]:
        """Every group, by id: each broker is asked for those it coordinates."""

        async def attempt() -> dict[str, GroupListing]:
            found: dict[str, GroupListing] = {}
            for node_id in sorted((await self._connections.refresh([])).brokers):
                connection = await self._connections.to_node(node_id)
                answer = await connection.call(ListGroupsRequest(), ListGroupsResponse, timeout_s=self._answer_s)
                check(answer.error_code, None, f"listing the groups of broker {node_id}")
                for group in answer.groups:
                    found[group.group_id] = GroupListing(
                        group.group_id, group.group_state, group.group_type, group.protocol_type
                    )
            return found

        return sorted((await self._retrying(attempt, "listing groups")).values())

    async def describe_group(self, group_id: str) -> GroupView:
        """A group and its members. GROUP_ID_NOT_FOUND when there is none."""
        coordinator = Coordinator(self._connections, group_id)

        async def attempt() -> GroupView:
            answer = await coordinator.call(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse)
            if answer.groups[0].error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                coordinator.check(answer.groups[0].error_code, "describing it")
            return _group_view(answer.groups[0], coordinator.node_id)

        async def attempt_newer() -> GroupView:
            answer = await coordinator.call(
                ConsumerGroupDescribeRequest(group_ids=[group_id]), ConsumerGroupDescribeResponse
            )
            coordinator.check(answer.groups[0].error_code, "describing it")
            return _consumer_group_view(answer.groups[0], coordinator.node_id)

        doing = f"describing group {group_id!r}"
        found = await self._retrying(attempt, doing)
        if found.state not in (DEAD, ""):  # by version 5 and before, and since
            return found
        try:
            return await self._retrying(attempt_newer, doing)
        except KafkaError as error:
            if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise
            unseen = " among classic ones, and feature group.version is below 1: others cannot be described"
            where = unseen if error.code is ErrorCode.UNSUPPORTED_VERSION else ""
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} not found{where}") from None

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndEpoch]:
        """The committed offsets of a group; none for one that is not there."""
        coordinator = Coordinator(self._connections, group_id)

        async def attempt() -> dict[TopicPartition, OffsetAndEpoch]:
            return await coordinator.committed(None)

        return await self._retrying(attempt, f"fetching the offsets of group {group_id!r}")

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members, which need not be there. UNKNOWN_MEMBER_ID when it has some."""
        coordinator = Coordinator(self._connections, group_id)

        async def attempt() -> None:
            if offsets:
                await coordinator.commit({tp: OffsetAndEpoch(offset, NO_EPOCH) for tp, offset in offsets.items()})

        await self._retrying(attempt, f"changing the offsets of group {group_id!r}")

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets; no effect where there is none (KIP-496).

        GROUP_SUBSCRIBED_TO_TOPIC while members read one of the topics, GROUP_ID_NOT_FOUND; others may be deleted then.
        """
        coordinator = Coordinator(self._connections, group_id)
        topics = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for topic, indexes in indexes_by_topic(partitions).items()
        ]

        async def attempt() -> None:
            request = OffsetDeleteRequest(group_id=group_id, topics=topics)
            answer = await coordinator.call(request, OffsetDeleteResponse)
            coordinator.check(answer.error_code, "deleting offsets")
            for topic in answer.topics:
                for partition in topic.partitions:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    coordinator.check(partition.error_code, f"deleting its offset of {tp}")

        await self._retrying(attempt, f"deleting offsets of group {group_id!r}", final=NO_TOPIC)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group that has no members, with its offsets. NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND otherwise."""
        coordinator = Coordinator(self._connections, group_id)

        async def attempt() -> None:
            answer = await coordinator.call(DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse)
            coordinator.check(answer.results[0].error_code, "deleting it")

        await self._retrying(attempt, f"deleting group {group_id!r}")


def _group_view(group: DescribedGroup, coordinator: int) -> GroupView:
    members = []
    for member in group.members:
        partitions: tuple[TopicPartition, ...] = ()
        if group.protocol_type == PROTOCOL_TYPE and member.member_assignment:
            partitions = _read_partitions(member.member_assignment)
        members.append(
            GroupMember(member.member_id, member.client_id, member.client_host, member.group_instance_id, partitions)
        )
    protocol, assignor = group.protocol_type, group.protocol_data
    return GroupView(group.group_id, group.group_state, protocol, assignor, tuple(members), CLASSIC, coordinator)


def _consumer_group_view(group: DescribedConsumerGroup, coordinator: int) -> GroupView:
    members = tuple(
        GroupMember(
            member.member_id,
            member.client_id,
            member.client_host,
            member.instance_id,
            _partitions_in(member.assignment),
            member.member_epoch,
            _partitions_in(member.target_assignment),
        )
        for member in group.members
    )
    state, assignor = group.group_state, group.assignor_name
    return GroupView(group.group_id, state, PROTOCOL_TYPE, assignor, members, CONSUMER, coordinator)


def _partitions_in(assignment: DescribedAssignment | None) -> tuple[TopicPartition, ...]:
    topics = () if assignment is None else assignment.topic_partitions
    return tuple(TopicPartition(topic.topic_name, index) for topic in topics for index in topic.partitions)


def _read_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    try:
        topics = decode_assignment(assignment).assigned_partitions
    except WireError:
        return ()
    return tuple(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions)
