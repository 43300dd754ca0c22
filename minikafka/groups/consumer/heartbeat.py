"""ConsumerGroupHeartbeat: a member joins, tells what it wants and has, and is told what it gets (KIP-848).

One request serves for everything. Its member epoch says what it is about: 0 joins (or joins again), -1 and -2 leave
(:mod:`minikafka.groups.consumer.leaving`), any other one is that of a member. What has not changed is left out, in
requests and in answers; a request that leaves nothing out asks for an answer that does not either. An answer may be
lost, and not every client asks so then: an assignment is repeated until the member has said that it has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.answers import group_write_error
from minikafka.groups.consumer import admission, conversion, leaving, regexes
from minikafka.groups.consumer.admission import JOIN
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.group import consumer_of
from minikafka.groups.consumer.reconciliation import ToldOwned
from minikafka.groups.consumer.records import CurrentAssignment, MemberState, Owned, Subscription
from minikafka.groups.consumer.steps import replace_static_member, step, subscribe
from minikafka.groups.joins import Caller
from minikafka.groups.shard import Shard
from minikafka.wire.messages.consumer_group_heartbeat import (
    AssignedTopicPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
)


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
        """What the member wants from now on. Who joins tells all of it: null is nothing then, and not "as before"."""
        request, names = self.request, self.request.subscribed_topic_names
        known = Subscription(instance_id=before.instance_id) if request.member_epoch == JOIN else before
        changed = replace(
            known,
            instance_id=known.instance_id if request.instance_id is None else request.instance_id,
            rack_id=known.rack_id if request.rack_id is None else request.rack_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            topic_names=known.topic_names if names is None else tuple(sorted(set(names))),
            server_assignor=known.server_assignor if request.server_assignor is None else request.server_assignor,
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
    rows = [] if group.is_empty or group.is_consumer else conversion.rows_of_classic(shard, group)
    consumer = consumer_of(group.group_id, rows) if rows else group.consumer
    member_id = request.member_id or shard.new_member_suffix()
    replaced = admission.admit(shard, consumer, request, member_id, beat.told)
    before = admission.subscription_of(consumer, replaced or member_id)
    wanted = beat.subscription(before)
    if wanted is not before:
        admission.check_size(shard, consumer, replaced or member_id, wanted)
    # From here on nothing is refused.
    change = Change(shard, group, [] if rows else admission.forget_classic(shard, group))
    if rows:
        conversion.upgrade(change, rows)
    if replaced is not None:
        replace_static_member(change, replaced, member_id)
    subscribe(change, member_id, before, wanted)
    _go_on(change, beat, member_id, was_classic=before.classic is not None)


def _go_on(change: Change, beat: Beat, member_id: str, *, was_classic: bool) -> None:
    """The member lives, takes a step, and is told what it has then."""
    shard, group = change.shard, change.group
    is_certain = beat.request.member_epoch == JOIN
    if member_id not in change.consumer.sessions:
        shard.match_sessions(group)
    shard.extend_consumer_session(group, change.consumer, member_id)
    had = change.consumer.current(member_id)
    has = step(change, member_id, beat.told, is_certain=is_certain)
    if has != had or was_classic:
        _watch_revocation(change, member_id, has)
    has_it = _has_assignment(change, member_id, beat.told, had)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=has.member_epoch,
        heartbeat_interval_ms=shard.times_of(group.group_id).heartbeat_interval_ms,
        assignment=_assignment(has) if is_certain or beat.is_full or not has_it else None,
    )
    regexes.maybe_resolve(shard, change.consumer, beat.caller)
    change.finish(partial(_written, shard, beat.token, response))


def _watch_revocation(change: Change, member_id: str, has: CurrentAssignment) -> None:
    """Who has to give partitions up has its rebalance timeout for it."""
    if has.state is MemberState.UNREVOKED_PARTITIONS:
        change.shard.set_rebalance_deadline(change.group, change.consumer, member_id)
    else:
        change.shard.clear_rebalance_deadline(change.group, change.consumer, member_id)


def _has_assignment(change: Change, member_id: str, told: ToldOwned, had: CurrentAssignment) -> bool:
    """True when the member has said that it has its assignment. Until then each answer tells it: one may be lost."""
    session, assigned = change.consumer.sessions[member_id], change.consumer.current(member_id).assigned
    if told is not None:
        session.has_assignment = _same_partitions(told, assigned)
    elif not _same_partitions(had.assigned, assigned):
        session.has_assignment = False
    return session.has_assignment


def _same_partitions(one: Mapping[UUID, Collection[int]], other: Owned) -> bool:
    return one.keys() == other.keys() and all(set(one[each]) == other[each].keys() for each in one)


def _assignment(current: CurrentAssignment) -> HeartbeatAssignment:
    return HeartbeatAssignment(topic_partitions=list(_topics(current.assigned.items())))


def _topics(owned: Iterable[tuple[UUID, Iterable[int]]]) -> Iterable[AssignedTopicPartitions]:
    return (AssignedTopicPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in owned)


def _written(shard: Shard, token: Token, response: ConsumerGroupHeartbeatResponse, error: ErrorCode) -> None:
    failed = ConsumerGroupHeartbeatResponse(error_code=group_write_error(error))
    shard.respond(token, response if error is ErrorCode.NONE else failed)
