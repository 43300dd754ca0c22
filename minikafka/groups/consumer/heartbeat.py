"""ConsumerGroupHeartbeat: a member joins, tells what it wants and has, and is told what it gets (KIP-848).

One request serves for everything. Its member epoch says what it is about: 0 joins (or joins again), -1 and -2 leave
(:mod:`minikafka.groups.consumer.leaving`), any other one is that of a member. What has not changed is left out, in
requests and in answers; a request that leaves nothing out asks for an answer that does not either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import UUID

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.answers import group_write_error
from minikafka.groups.consumer import admission, leaving, regexes, target
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.reconciliation import Target, ToldOwned, reconcile
from minikafka.groups.consumer.records import CurrentAssignment, Kind, MemberState, Owned, Subscription
from minikafka.groups.joining import Caller
from minikafka.groups.shard import Shard
from minikafka.groups.timers import RevocationTimer
from minikafka.wire.messages.consumer_group_heartbeat import (
    AssignedTopicPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
)

JOIN: Final = 0


@dataclass(frozen=True, slots=True)
class Beat:
    """A request with its sender and the token of its response."""

    request: ConsumerGroupHeartbeatRequest
    caller: Caller
    token: Token

    @property
    def told(self) -> ToldOwned:
        """The partitions that the member says it has."""
        topics = self.request.topic_partitions
        return None if topics is None else {each.topic_id: frozenset(each.partitions) for each in topics}

    @property
    def is_full(self) -> bool:
        """True when nothing is left out: the member wants to be told its assignment, changed or not."""
        request = self.request
        subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None

    def subscription(self, before: Subscription) -> Subscription:
        """What the member wants from now on."""
        request, names = self.request, self.request.subscribed_topic_names
        changed = replace(
            before,
            instance_id=before.instance_id if request.instance_id is None else request.instance_id,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            topic_names=before.topic_names if names is None else tuple(sorted(set(names))),
            server_assignor=before.server_assignor if request.server_assignor is None else request.server_assignor,
            classic=None,
        )
        if request.rebalance_timeout_ms != -1:
            changed = replace(changed, rebalance_timeout_ms=request.rebalance_timeout_ms)
        if request.subscribed_topic_regex is not None:
            changed = replace(changed, topic_regex=request.subscribed_topic_regex)
        return before if changed == before else changed


def consumer_group_heartbeat(shard: Shard, beat: Beat) -> None:
    """Answer a heartbeat, once all that it tells is committed."""
    try:
        admission.check_request(beat.request, beat.caller.version, shard.settings.consumer_assignors)
        if beat.request.member_epoch < JOIN:
            leaving.leave(shard, beat.request, beat.token)
        else:
            _serve(shard, beat)
    except KafkaError as error:
        group = shard.groups.get(beat.request.group_id)
        if group is not None:
            shard.maybe_forget(group)
        shard.respond(beat.token, ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))


def _serve(shard: Shard, beat: Beat) -> None:
    request = beat.request
    group = admission.consumer_group(shard, request.group_id, joins=request.member_epoch == JOIN)
    member_id = request.member_id or shard.new_member_suffix()
    replaced = admission.admit(shard, group.consumer, request, member_id, beat.told)
    before = admission.subscription_of(group.consumer, replaced or member_id)
    wanted = beat.subscription(before)
    if wanted is not before:
        admission.check_size(shard, group.consumer, member_id, wanted)
    # From here on nothing is refused.
    change = Change(shard, group, admission.forget_classic(shard, group))
    if replaced is not None:
        _replace(change, replaced, member_id)
    _subscribe(change, member_id, before, wanted)
    if member_id not in change.consumer.sessions:
        shard.match_sessions(group)
    times = shard.times_of(group.group_id)
    shard.extend_session(group, change.consumer.sessions[member_id], times.session_timeout_ms)
    target.maybe_assign(change)
    had = change.consumer.current(member_id)
    has = _reconcile(change, member_id, beat)
    is_told = request.member_epoch == JOIN or beat.is_full or not _same_partitions(had.assigned, has.assigned)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=has.member_epoch,
        heartbeat_interval_ms=times.heartbeat_interval_ms,
        assignment=_assignment(has) if is_told else None,
    )
    regexes.maybe_resolve(shard, change.consumer)
    change.finish(partial(_written, shard, beat.token, response))


def _replace(change: Change, old_id: str, member_id: str) -> None:
    """A static member is back under another id: it goes on with what its predecessor had (KIP-345)."""
    consumer = change.consumer
    subscription, targets, current = (
        consumer.subscriptions[old_id],
        consumer.targets.get(old_id),
        consumer.current(old_id),
    )
    consumer.is_asked_in_vain = True  # its target assignment goes to the new id
    change.remove_member(old_id)
    change.put(Kind.MEMBER, member_id, subscription)
    if targets is not None:
        change.put(Kind.TARGET, member_id, targets)
    change.put(Kind.CURRENT, member_id, replace(current, member_epoch=JOIN, previous_member_epoch=JOIN))


def _subscribe(change: Change, member_id: str, before: Subscription, wanted: Subscription) -> None:
    """Note what the member wants, and begin a new group epoch if the target assignment depends on it."""
    consumer = change.consumer
    is_new = member_id not in consumer.subscriptions
    if is_new or wanted is not before:
        change.put(Kind.MEMBER, member_id, wanted)
    has_other_regex = wanted.topic_regex != before.topic_regex
    if has_other_regex:
        change.drop_unused_regexes()
    is_resolved = not wanted.topic_regex or wanted.topic_regex in consumer.regexes
    if consumer.epoch == 0 or wanted.topic_names != before.topic_names or (has_other_regex and is_resolved):
        change.raise_epoch()
    elif has_other_regex or consumer.topics_version != change.shard.topics_version:
        change.maybe_raise_epoch()


def _reconcile(change: Change, member_id: str, beat: Beat) -> CurrentAssignment:
    consumer, shard = change.consumer, change.shard
    had = consumer.current(member_id)
    towards = Target(consumer.assignment_epoch, consumer.targets.get(member_id, {}))
    joins = beat.request.member_epoch == JOIN
    has = reconcile(member_id, had, towards, beat.told, consumer.owner_of, joins=joins)
    if has != had:
        change.put(Kind.CURRENT, member_id, has)
        session = consumer.sessions[member_id]
        if has.state is MemberState.UNREVOKED_PARTITIONS:
            session.revocation_deadline_ms = shard.now_ms + consumer.subscriptions[member_id].rebalance_timeout_ms
            shard.set_timer(RevocationTimer(consumer.group_id, member_id), session.revocation_deadline_ms)
        elif session.revocation_deadline_ms is not None:
            session.revocation_deadline_ms = None
            shard.cancel_timer(RevocationTimer(consumer.group_id, member_id))
    return has


def _same_partitions(one: Owned, other: Owned) -> bool:
    return one.keys() == other.keys() and all(one[each].keys() == other[each].keys() for each in one)


def _assignment(current: CurrentAssignment) -> HeartbeatAssignment:
    return HeartbeatAssignment(topic_partitions=list(_topics(current.assigned.items())))


def _topics(owned: Iterable[tuple[UUID, Iterable[int]]]) -> Iterable[AssignedTopicPartitions]:
    return (AssignedTopicPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in owned)


def _written(shard: Shard, token: Token, response: ConsumerGroupHeartbeatResponse, error: ErrorCode) -> None:
    failed = ConsumerGroupHeartbeatResponse(error_code=group_write_error(error))
    shard.respond(token, response if error is ErrorCode.NONE else failed)
