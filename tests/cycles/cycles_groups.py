"""Kinds of operations about groups, offsets, producers and transactions; see ``cycles_kinds``."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from cycles_ground import TRANSACTION, Ground

from minikafka.errors import ErrorCode
from minikafka.wire.consumer_protocol import encode_assignment, encode_subscription
from minikafka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from minikafka.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest
from minikafka.wire.messages.end_txn import EndTxnRequest
from minikafka.wire.messages.heartbeat import HeartbeatRequest
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

STEADY: Final = "steady"
"""A topic that is always there, as are groups and a transactional id of this name."""
_SESSION_MS: Final = 300
_SUBSCRIPTION: Final = encode_subscription(ConsumerProtocolSubscription(topics=[STEADY]))


# -- groups ---------------------------------------------------------------------------------------------------------


def classic_groups(ground: Ground, number: int) -> None:
    """A member joins a new group, commits, and leaves or is silent; so does another in the group that stays."""
    group = f"classic-{number}"
    member, generation = _join(ground, group, f"assignor-{number}")
    ground.coordinated(group, HeartbeatRequest(group_id=group, generation_id=generation, member_id=member), 3)
    commit(ground, group, generation, member)
    if number % 2:
        _leave(ground, group, MemberIdentity(member_id=member))


def members(ground: Ground, number: int) -> None:
    """Ever new members of one group, with protocols of their own; static ones, which come back."""
    group = "members"
    member, _ = _join(ground, group, f"protocol-{number}")
    _leave(ground, group, MemberIdentity(member_id=member))
    instance = f"instance-{number}"
    _join(ground, group, f"static-{number}", instance)
    _join(ground, group, f"static-{number}", instance)
    _leave(ground, group, MemberIdentity(group_instance_id=instance))


def _join(ground: Ground, group: str, protocol: str, instance: str | None = None) -> tuple[str, int]:
    request = _joining(group, protocol, instance)
    known = ErrorCode.MEMBER_ID_REQUIRED
    request.member_id = ground.coordinated(group, request, 5, known).member_id if instance is None else ""
    joined = ground.coordinated(group, request, 5)
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance,
        assignments=[
            SyncGroupRequestAssignment(
                member_id=joined.member_id, assignment=encode_assignment(ConsumerProtocolAssignment())
            )
        ],
    )
    ground.coordinated(group, sync, 3)
    return str(joined.member_id), int(joined.generation_id)


def _joining(group: str, protocol: str, instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=_SESSION_MS,
        rebalance_timeout_ms=_SESSION_MS,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=protocol, metadata=_SUBSCRIPTION)],
    )


def _leave(ground: Ground, group: str, member: MemberIdentity) -> None:
    ground.coordinated(group, LeaveGroupRequest(group_id=group, members=[member]), 4)


def consumer_groups(ground: Ground, number: int) -> None:
    """Of KIP-848: new members of a new group and of one that stays; some leave, some are silent."""
    for group in (f"consumer-{number}", "consumers"):
        member = str(uuid4())
        instance = f"instance-{number}" if number % 3 == 0 else None
        answer = _beat(
            ground,
            group,
            member,
            0,
            instance_id=instance,
            rack_id=f"rack-{number}",
            rebalance_timeout_ms=_SESSION_MS,
            subscribed_topic_names=[STEADY, f"topic-{number}"],
            subscribed_topic_regex=f"st.*|{number}",
        )
        if number % 2:
            _beat(ground, group, member, -1 if instance is None else -2, instance_id=instance)
        else:
            commit(ground, group, answer.member_epoch, member, version=9)


def conversions(ground: Ground, number: int) -> None:
    """A classic group becomes a consumer group and, when only its classic member is left, a classic one again."""
    group = f"converted-{number}"
    _join(ground, group, "range")
    member = str(uuid4())
    _beat(ground, group, member, 0, rebalance_timeout_ms=_SESSION_MS, subscribed_topic_names=[STEADY])
    if number % 2:
        _beat(ground, group, member, -1)


def _beat(ground: Ground, group: str, member: str, epoch: int, **fields: Any) -> Any:
    if not epoch:
        fields["topic_partitions"] = []
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
    return ground.coordinated(group, request, 1)


def abandoned_joins(ground: Ground, number: int) -> None:
    """Who got a member id and never comes back; who hangs up while its join waits for others."""
    group = f"abandoned-{number}"
    _join(ground, group, f"protocol-{number}", "first")
    request = _joining(group, f"protocol-{number}")
    ground.coordinated(group, request, 5, ErrorCode.MEMBER_ID_REQUIRED)
    with ground.wire(ground.coordinator(group), f"joining-{number}") as wire:
        request.group_instance_id = "second"
        wire.send(request, 5)
        wire.send(request, 5)


def offsets(ground: Ground, number: int) -> None:
    """Committed without members: they expire, or are deleted, alone or with their group."""
    for what, group in enumerate((f"offsets-{number}", f"offsets-deleted-{number}", f"group-deleted-{number}")):
        commit(ground, group, -1)
        if what == 1:
            topic = OffsetDeleteRequestTopic(name=STEADY, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            ground.coordinated(group, OffsetDeleteRequest(group_id=group, topics=[topic]), 0)
        elif what == 2:
            ground.coordinated(group, DeleteGroupsRequest(groups_names=[group]), 1)


def commit(
    ground: Ground,
    group: str,
    generation: int,
    member: str = "",
    *,
    topic: str = STEADY,
    version: int = 4,
    retention_ms: int = 1,
) -> None:
    at = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m")
    retention = {"retention_time_ms": retention_ms} if version == 4 else {}
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[at])],
        **retention,
    )
    ground.coordinated(group, request, version, ErrorCode.STALE_MEMBER_EPOCH)


# -- producers ------------------------------------------------------------------------------------------------------


def producers(ground: Ground, number: int) -> None:
    """Idempotent ones with new ids."""
    node = 1 + number % 3
    answer = ground.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4, node)
    ground.produce(STEADY, b"i", producer_id=answer.producer_id, producer_epoch=answer.producer_epoch, base_sequence=0)


def transactions(ground: Ground, number: int) -> None:
    """Of new ids: committed, aborted, fenced, or left to time out; with offsets of new groups."""
    _transaction(ground, f"transaction-{number}", number)
    _transaction(ground, STEADY, number)


def _transaction(ground: Ground, name: str, number: int) -> None:
    begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=700)
    answer = ground.coordinated(name, begin, 4, kind=TRANSACTION)
    producer, epoch = answer.producer_id, answer.producer_epoch
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=STEADY, partitions=[0])],
    )
    ground.coordinated(name, add, 3, kind=TRANSACTION)
    ground.produce(
        STEADY,
        b"t",
        transactional_id=name,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )
    group = f"group-of-{name}-{number}"
    offsets = AddOffsetsToTxnRequest(transactional_id=name, producer_id=producer, producer_epoch=epoch, group_id=group)
    ground.coordinated(name, offsets, 3, kind=TRANSACTION)
    at = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    commit = TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name=STEADY, partitions=[at])],
    )
    ground.coordinated(group, commit, 3)
    how = number % 4
    if how < 2:
        end = EndTxnRequest(transactional_id=name, producer_id=producer, producer_epoch=epoch, committed=how == 0)
        ground.coordinated(name, end, 3, kind=TRANSACTION)
    elif how == 2:
        ground.coordinated(name, begin, 4, kind=TRANSACTION)
    if how == 0:
        ground.coordinated(group, DeleteGroupsRequest(groups_names=[group]), 1)
