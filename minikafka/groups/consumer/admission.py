"""Who may be a member of a consumer group: what a heartbeat is refused for, before it changes anything.

| error | when |
|---|---|
| INVALID_REQUEST | a field is missing that a join needs, or is empty |
| UNSUPPORTED_ASSIGNOR | the broker does not have the assignor |
| GROUP_ID_NOT_FOUND | no such group, or a classic one that does not become a consumer group |
| GROUP_MAX_SIZE_REACHED | the group is full, or its subscriptions are too large |
| COORDINATOR_NOT_AVAILABLE | the members of all groups of the node are too large |
| UNKNOWN_MEMBER_ID | no such member: its session has ended, or it has left |
| FENCED_MEMBER_EPOCH | a member with another epoch: it gives all up, and joins again |
| UNRELEASED_INSTANCE_ID | another member has the instance id, and has not left |
| FENCED_INSTANCE_ID | another member has taken the instance id over |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.consumer.group import LEAVE_GROUP_STATIC, ConsumerGroup
from minikafka.groups.consumer.reconciliation import ToldOwned
from minikafka.groups.consumer.records import CurrentAssignment, MemberState, Subscription
from minikafka.groups.consumer.subscribed import Subscribed, size_in_bytes
from minikafka.groups.group import Group
from minikafka.groups.records import GroupMetadataKey, GroupMetadataRecord, GroupRecord
from minikafka.groups.shard import Shard
from minikafka.groups.timers import MemberTimer
from minikafka.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JOIN: Final = 0
MEMBER_ID_FROM_CLIENT_SINCE: Final = 1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Refuse what no group could serve."""
    epoch = request.member_epoch
    if epoch < LEAVE_GROUP_STATIC:
        raise _invalid(f"the member epoch is {epoch}; it must be {LEAVE_GROUP_STATIC} or more")
    if not request.member_id and (version >= MEMBER_ID_FROM_CLIENT_SINCE or epoch not in (JOIN, LEAVE_GROUP_STATIC)):
        raise _invalid("the member id is empty")
    if request.instance_id == "" or request.rack_id == "":
        raise _invalid("instance id and rack id must be null or not empty")
    if epoch == LEAVE_GROUP_STATIC and request.instance_id is None:
        raise _invalid(f"member epoch {LEAVE_GROUP_STATIC} is for static members, and there is no instance id")
    if epoch == JOIN:
        _check_join(request)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        names = ", ".join(assignors)
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"assignor {request.server_assignor!r} is not supported; there are {names}"
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("a member that joins must tell its rebalance timeout")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("a member that joins must tell that it has no partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("a member that joins must tell topic names or a regular expression")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)


def consumer_group(shard: Shard, group_id: str, *, joins: bool) -> Group:
    """The group; who joins makes it, of nothing or of a classic group (rows G9 and G14)."""
    group = shard.groups.get(group_id)
    if group is not None and group.is_consumer:
        return group
    if group is None or (group.is_empty and group.persisted is None and not group.writes_in_flight):
        if not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"consumer group {group_id!r} not found")
    elif not joins:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} is not a consumer group")
    return shard.group_or_new(group_id)


def forget_classic(shard: Shard, group: Group) -> list[GroupRecord]:
    """An empty classic group becomes a consumer group: the record that removes it."""
    if group.is_consumer:
        return []
    for member_id in sorted(group.pending_members):
        shard.cancel_timer(MemberTimer(group.group_id, member_id))
    group.pending_members.clear()
    group.generation_id, group.protocol_type, group.empty_since_ms = 0, None, None
    if group.persisted is None and not group.writes_in_flight:
        return []
    return [GroupMetadataRecord(GroupMetadataKey(group=group.group_id), None)]


def admit(
    shard: Shard,
    consumer: ConsumerGroup | None,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    told: ToldOwned,
) -> str | None:
    """Check the sender; the id of the static member whose place it takes, if it does (rows G6 and G7)."""
    joins = request.member_epoch == JOIN
    members = {} if consumer is None else consumer.subscriptions
    if joins and len(members) >= shard.settings.consumer_max_size and member_id not in members:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(members)} members already")
    if consumer is None:
        return None
    if request.instance_id is not None:
        holder = consumer.static_members.get(request.instance_id)
        if joins and holder is not None and holder != member_id:
            # A classic member that is stopped does not say so: its session would have to end.
            is_classic = consumer.subscriptions[holder].classic is not None
            if not is_classic and consumer.current(holder).member_epoch != LEAVE_GROUP_STATIC:
                raise KafkaError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"instance id {request.instance_id!r} is used by member {holder}, which has not left",
                )
            return holder
        if not joins:
            check_static_member(consumer, request.instance_id, member_id)
    if member_id in members:
        check_epoch(consumer.current(member_id), request.member_epoch, told)
    elif not joins:
        raise unknown(member_id)
    return None


def check_static_member(consumer: ConsumerGroup, instance_id: str, member_id: str) -> None:
    """Refuse a member id that is not the one of the instance id."""
    holder = consumer.static_members.get(instance_id)
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has instance id {instance_id!r}")
    if holder != member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"instance id {instance_id!r} is used by member {holder}")


def unknown(member_id: str) -> KafkaError:
    """The refusal of a member that is not there."""
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in the group")


def check_epoch(current: CurrentAssignment, epoch: int, told: ToldOwned) -> None:
    """Row G5: fence another epoch than the member's own, and a member in a state that a newer Kafka has written.

    The epoch before is let pass for a member that has nothing but what it was assigned: the answer with the new epoch
    may be lost. So is one that does not tell what it has: nothing is free by that, and it is told what it may have.
    (librdkafka does not tell; Apache Kafka fences it.) So is a member that joins again: it has given all up.
    """
    if current.state is MemberState.UNKNOWN and (told is None or any(told.values())):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH, "the state of the member is unknown; it must give up its partitions"
        )
    if epoch in (JOIN, current.member_epoch):
        return
    if epoch == current.previous_member_epoch and current.member_epoch > epoch and _may_have_only(current, told):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member is in epoch {current.member_epoch}, and not in {epoch}; it must give up its partitions and rejoin",
    )


def _may_have_only(current: CurrentAssignment, told: ToldOwned) -> bool:
    if told is None:
        return True
    return all(indexes <= current.assigned.get(topic_id, {}).keys() for topic_id, indexes in told.items())


def subscription_of(consumer: ConsumerGroup | None, member_id: str) -> Subscription:
    """What the member wants so far."""
    found = None if consumer is None else consumer.subscriptions.get(member_id)
    return Subscription() if found is None else found


def check_size(shard: Shard, consumer: ConsumerGroup | None, member_id: str, wanted: Subscription) -> None:
    """The subscriptions of a group are bounded together, as the metadata of a classic group is."""
    subscribed = Subscribed() if consumer is None else consumer.subscribed
    before = None if consumer is None else consumer.subscriptions.get(member_id)
    if subscribed.size_with(member_id, before, wanted) > shard.settings.subscriptions_bytes_max:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the subscriptions of the group's members are too large")
    more = size_in_bytes(member_id, wanted) - (0 if before is None else size_in_bytes(member_id, before))
    if not shard.memory.has_room_for(more):
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the members of all groups take too much memory")
