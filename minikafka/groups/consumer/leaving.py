"""Members that go: by their own wish, because their session has ended, or because they do not give partitions up.

A static member may go for a while (epoch -2): it keeps its partitions until its session ends (row G7). Any other one is
removed, and the group epoch rises: the next heartbeat of any member makes a target assignment without it (row G6). A
removal that cannot be written is tried again soon: others wait for what the member has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.answers import group_write_error
from minikafka.groups.consumer import conversion
from minikafka.groups.consumer.admission import check_static_member, unknown
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.group import LEAVE_GROUP_STATIC, ConsumerGroup, Session
from minikafka.groups.consumer.records import NO_PARTITIONS, Kind, MemberState
from minikafka.groups.group import Group
from minikafka.groups.shard import Shard
from minikafka.groups.timers import RevocationTimer
from minikafka.groups.writes import Done
from minikafka.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

REMOVAL_RETRY_MS: Final = 500
"""As Apache Kafka's."""


def leave(shard: Shard, request: ConsumerGroupHeartbeatRequest, token: Token) -> None:
    """Serve a heartbeat with epoch -1 or -2."""
    group = shard.groups.get(request.group_id)
    if group is None or group.consumer is None or not group.is_consumer:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"consumer group {request.group_id!r} not found")
    member_id = request.member_id
    if request.instance_id is not None:
        check_static_member(group.consumer, request.instance_id, member_id)
    elif member_id not in group.consumer.subscriptions:
        raise unknown(member_id)
    response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
    done = partial(_left, shard, token, response)
    if request.member_epoch == LEAVE_GROUP_STATIC:
        _leave_for_a_while(shard, group, group.consumer, member_id, done)
    else:
        remove_members(shard, group, [member_id], done)


def _left(shard: Shard, token: Token, response: ConsumerGroupHeartbeatResponse, error: ErrorCode) -> None:
    failed = ConsumerGroupHeartbeatResponse(error_code=group_write_error(error))
    shard.respond(token, response if error is ErrorCode.NONE else failed)


def _leave_for_a_while(shard: Shard, group: Group, consumer: ConsumerGroup, member_id: str, done: Done) -> None:
    """It has stopped consuming: what it was to give up is free, and its old epochs are worth nothing."""
    current = consumer.current(member_id)
    change = Change(shard, group)
    left = replace(
        current,
        member_epoch=LEAVE_GROUP_STATIC,
        state=MemberState.STABLE if current.state is MemberState.UNREVOKED_PARTITIONS else current.state,
        assigned={topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in current.assigned.items()},
        pending_revocation=NO_PARTITIONS,
    )
    change.put(Kind.CURRENT, member_id, left)
    shard.clear_rebalance_deadline(group, consumer, member_id)
    change.finish(done)


def remove_members(shard: Shard, group: Group, member_ids: Sequence[str], done: Done) -> None:
    """Remove members and raise the group epoch; if only classic ones are left, they are a classic group."""
    change = Change(shard, group)
    for member_id in member_ids:
        change.remove_member(member_id)
    if conversion.is_downgrade_due(shard, change.consumer):
        conversion.downgrade(change, done)
        return
    change.drop_unused_regexes()
    change.raise_epoch()
    change.finish(done)


def on_session_timer(shard: Shard, group: Group, consumer: ConsumerGroup, member_id: str) -> None:
    """A session may have ended."""
    session = consumer.sessions[member_id]
    if shard.now_ms < session.session_deadline_ms:
        shard.arm_session(group, session)
    else:
        remove_members(shard, group, [member_id], partial(_end_session_soon, shard, group, member_id))


def _end_session_soon(shard: Shard, group: Group, member_id: str, error: ErrorCode) -> None:
    """A removal that failed gave the member another session; a heartbeat in the next moment still saves it."""
    session = _session(group, member_id)
    if error is not ErrorCode.NONE and session is not None:
        shard.extend_session(group, session, REMOVAL_RETRY_MS)


def on_revocation_timer(shard: Shard, group: Group, consumer: ConsumerGroup, member_id: str) -> None:
    """The rebalance timeout of a member may be over, and it still has what it was told to give up."""
    session = consumer.sessions.get(member_id)
    if session is None or session.rebalance_deadline_ms is None:
        return
    if shard.now_ms < session.rebalance_deadline_ms:
        shard.set_timer(RevocationTimer(group.group_id, member_id), session.rebalance_deadline_ms)
    else:
        remove_members(shard, group, [member_id], partial(_end_revocation_soon, shard, group, member_id))


def _end_revocation_soon(shard: Shard, group: Group, member_id: str, error: ErrorCode) -> None:
    session = _session(group, member_id)
    if error is not ErrorCode.NONE and session is not None:
        shard.extend_rebalance(group, session, REMOVAL_RETRY_MS)


def _session(group: Group, member_id: str) -> Session | None:
    return None if group.consumer is None else group.consumer.sessions.get(member_id)
