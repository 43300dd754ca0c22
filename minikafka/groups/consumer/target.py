"""The target assignment of a consumer group: made by a server-side assignor whenever the group epoch has risen.

A small one is made in the step that finds it due. One of many members or partitions takes too long for the loop: the
driver makes it in a thread (:class:`~minikafka.groups.effects.MakeAssignment`). A group that is to have a while between
two assignments (``consumer.assignment.interval.ms``) has all changes of that while in the next one, which the first
heartbeat after it makes. Until then members go on with the one before, but without topics that they no longer want.
See rows G2, G4 and G15 of docs/semantics.md.
"""

from __future__ import annotations

from collections import Counter

from minikafka.errors import ErrorCode
from minikafka.groups.consumer.assignors.model import NOTHING
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.question import AssignmentQuestion, Targets
from minikafka.groups.consumer.reconciliation import Target
from minikafka.groups.consumer.records import Kind, TargetMetadata
from minikafka.groups.shard import Shard


def maybe_assign(change: Change) -> None:
    """Make the target assignment of the present group epoch, now or in a thread, if it is not there."""
    consumer, shard = change.consumer, change.shard
    if consumer.assignment_epoch >= consumer.epoch or _is_too_soon(shard, consumer):
        return
    if consumer.asked is None and _cost(shard, consumer) <= shard.settings.assigned_at_once_max:
        _apply(change, consumer.epoch, _question(shard, consumer).answer())
        return
    if not consumer.assignment_epoch:  # an epoch is needed to tell members: in this one they get nothing
        _put_epoch(change, consumer.epoch)
        change.raise_epoch()
    if consumer.asked is not None:
        return
    question = consumer.asked = _question(shard, consumer)
    consumer.is_asked_in_vain = False
    shard.make_assignment(question)


def on_assigned(shard: Shard, question: AssignmentQuestion, targets: Targets) -> None:
    """The driver's answer. The group may have gone on meanwhile: then the next heartbeat asks once more."""
    group = shard.groups.get(question.group_id)
    consumer = None if group is None else group.consumer
    if group is None or consumer is None or consumer.asked is not question:
        return
    consumer.asked = None
    if not consumer.is_asked_in_vain:
        change = Change(shard, group)
        _apply(change, question.epoch, targets)
        change.finish(_ignore)


def _ignore(_error: ErrorCode) -> None:
    """What could not be written is asked again with the next heartbeat."""


def epoch_to_come(shard: Shard, consumer: ConsumerGroup) -> int:
    """The epoch that a member would go towards now: it makes that assignment itself, or goes on with the one before."""
    is_behind = consumer.assignment_epoch < consumer.epoch
    must_wait = is_behind and (consumer.asked is not None or _is_too_soon(shard, consumer))
    return consumer.assignment_epoch if must_wait else consumer.epoch


def _is_too_soon(shard: Shard, consumer: ConsumerGroup) -> bool:
    """True while the group goes on with an assignment that is younger than its interval."""
    if consumer.assigned_at_ms is None:
        return False
    return shard.now_ms < consumer.assigned_at_ms + shard.times_of(consumer.group_id).assignment_interval_ms


def of_member(shard: Shard, consumer: ConsumerGroup, member_id: str) -> Target:
    """What the member goes towards: its target assignment, without topics that it has not wanted any more since that
    was made. An expression that is yet to be resolved takes nothing away."""
    partitions, wanted = consumer.targets.get(member_id, {}), consumer.subscriptions[member_id]
    is_resolved = not wanted.topic_regex or wanted.topic_regex in consumer.regexes
    if consumer.assignment_epoch < consumer.epoch and partitions and is_resolved:
        names = {*wanted.topic_names, *consumer.topics_of(wanted.topic_regex)}
        topics = {topic_id: shard.topics.with_id(topic_id) for topic_id in partitions}
        partitions = {each: partitions[each] for each, topic in topics.items() if topic is None or topic.name in names}
    return Target(consumer.assignment_epoch, partitions)


def _apply(change: Change, epoch: int, targets: Targets) -> None:
    """What is equal for a member is not written again; who has left meanwhile gets nothing."""
    consumer = change.consumer
    for member_id, partitions in targets.items():
        if member_id in consumer.subscriptions and consumer.targets.get(member_id) != partitions:
            change.put(Kind.TARGET, member_id, partitions)
    _put_epoch(change, epoch)
    consumer.assigned_at_ms = change.shard.now_ms


def _put_epoch(change: Change, epoch: int) -> None:
    change.put(Kind.TARGET_METADATA, "", TargetMetadata(epoch, change.shard.wall_clock_ms()))


def _cost(shard: Shard, consumer: ConsumerGroup) -> int:
    """Members and partitions; and each topic of each member, unless all want the same."""
    subscribed = consumer.subscribed
    cost = len(consumer.subscriptions) + shard.topic_hashes.partitions_of(consumer.subscribed_topics())
    if len(subscribed.kinds) > 1:
        matched = sum(count * len(consumer.topics_of(regex)) for regex, count in subscribed.regexes.items())
        cost += subscribed.topics.total() + matched
    return cost


def _question(shard: Shard, consumer: ConsumerGroup) -> AssignmentQuestion:
    return AssignmentQuestion(
        consumer.group_id,
        consumer.epoch,
        assignor_of(consumer, shard.settings.consumer_assignors),
        [(name, each, consumer.targets.get(name, NOTHING)) for name, each in consumer.subscriptions.items()],
        {regex: consumer.topics_of(regex) for regex in consumer.subscribed.regexes},
        shard.topics,
    )


def assignor_of(consumer: ConsumerGroup, assignors: tuple[str, ...]) -> str:
    """The assignor that most members ask for; the first of the broker's when none asks."""
    votes = Counter(
        each.server_assignor for each in consumer.subscriptions.values() if each.server_assignor in assignors
    )
    most = max(votes.values(), default=0)
    return next(name for name in assignors if votes[name] == most)
