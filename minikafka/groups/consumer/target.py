"""The target assignment of a consumer group: made by a server-side assignor whenever the group epoch has risen.

See rows G2 and G4 of docs/semantics.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from minikafka.groups.consumer.assignors import ASSIGNORS
from minikafka.groups.consumer.assignors.model import Subscriber
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.records import Kind, Partitions, TargetMetadata
from minikafka.groups.consumer.topics import Topic, Topics


def assign(change: Change) -> None:
    """Make the target assignment of the present group epoch; what is equal for a member is not written again."""
    consumer, shard = change.consumer, change.shard
    subscribers, topics = _subscribers(consumer, shard.topics)
    made = ASSIGNORS[assignor_of(consumer, shard.settings.consumer_assignors)](subscribers, topics)
    for member_id, by_topic in made.items():
        partitions: Partitions = {topic_id: frozenset(indexes) for topic_id, indexes in by_topic.items()}
        if consumer.targets.get(member_id) != partitions:
            change.put(Kind.TARGET, member_id, partitions)
    change.put(Kind.TARGET_METADATA, "", TargetMetadata(consumer.epoch, shard.wall_clock_ms()))


def assignor_of(consumer: ConsumerGroup, assignors: tuple[str, ...]) -> str:
    """The assignor that most members ask for; the first of the broker's when none asks."""
    votes = Counter(
        each.server_assignor for each in consumer.subscriptions.values() if each.server_assignor in assignors
    )
    most = max(votes.values(), default=0)
    return next(name for name in assignors if votes[name] == most)


def _subscribers(consumer: ConsumerGroup, topics: Topics) -> tuple[list[Subscriber], Mapping[UUID, Topic]]:
    """The members, and all topics that one of them subscribes to and that exist."""
    known: dict[UUID, Topic] = {}
    wanted: dict[tuple[tuple[str, ...], str], frozenset[UUID]] = {}
    subscribers = []
    for member_id, each in consumer.subscriptions.items():
        key = each.topic_names, each.topic_regex
        if key not in wanted:
            names = sorted({*each.topic_names, *consumer.topics_of(each.topic_regex)})
            found = {topic.topic_id: topic for name in names if (topic := topics.named(name)) is not None}
            known |= found
            wanted.setdefault(key, frozenset(found))
        target = consumer.targets.get(member_id, {})
        subscribers.append(Subscriber(member_id, wanted[key], each.instance_id, each.rack_id, target))
    return subscribers, known
