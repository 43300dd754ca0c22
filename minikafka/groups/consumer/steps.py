"""What a heartbeat and the JoinGroup of a classic member have in common: the steps of one member.

They replace a static member, note what the member wants, and take it one step towards its target assignment.
"""

from __future__ import annotations

from dataclasses import replace

from minikafka.groups.consumer import target
from minikafka.groups.consumer.admission import JOIN
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.reconciliation import ToldOwned, reconcile
from minikafka.groups.consumer.records import CurrentAssignment, Kind, Subscription


def replace_static_member(change: Change, old_id: str, member_id: str) -> None:
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


def subscribe(change: Change, member_id: str, before: Subscription, wanted: Subscription) -> None:
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


def step(change: Change, member_id: str, told: ToldOwned, *, is_certain: bool) -> CurrentAssignment:
    """Make a target assignment if one is due, and go one step towards it.

    ``is_certain``: the member has what it tells, and is not about to take up more.
    """
    consumer = change.consumer
    target.maybe_assign(change)
    had = consumer.current(member_id)
    towards = target.of_member(change.shard, consumer, member_id)
    topics = change.shard.topics
    has = reconcile(
        member_id,
        had,
        towards,
        told,
        consumer.owner_of,
        lambda topic_id: topics.with_id(topic_id) is not None,
        is_certain=is_certain,
    )
    if has != had:
        change.put(Kind.CURRENT, member_id, has)
    return has
