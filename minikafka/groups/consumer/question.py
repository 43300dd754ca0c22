"""What a target assignment is to be made of: a snapshot, which any thread may work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from minikafka.groups.consumer.assignors import ASSIGNORS
from minikafka.groups.consumer.assignors.model import Subscriber
from minikafka.groups.consumer.records import Partitions, Subscription
from minikafka.groups.consumer.topics import Topic, Topics

Targets = Mapping[str, Partitions]
"""By member id."""


class AssignmentQuestion(NamedTuple):
    """Who of these members gets what, in that group epoch?"""

    group_id: str
    epoch: int
    assignor: str
    members: Sequence[tuple[str, Subscription, Partitions]]
    """Member ids, what they want, and their target assignments so far."""
    matches: Mapping[str, Sequence[str]]
    """Topics of regular expressions."""
    topics: Topics

    def answer(self) -> Targets:
        """The target assignments. It takes milliseconds or seconds, and changes nothing."""
        subscribers, topics = self._subscribers()
        made = ASSIGNORS[self.assignor](subscribers, topics)
        return {
            member_id: {topic_id: frozenset(indexes) for topic_id, indexes in by_topic.items()}
            for member_id, by_topic in made.items()
        }

    def _subscribers(self) -> tuple[list[Subscriber], Mapping[UUID, Topic]]:
        """The members, and all topics that one of them subscribes to and that exist."""
        named: dict[str, Topic | None] = {}
        wanted: dict[tuple[tuple[str, ...], str], frozenset[UUID]] = {}
        subscribers = []
        for member_id, each, target in self.members:
            key = each.topic_names, each.topic_regex
            if key not in wanted:
                found = []
                for name in sorted({*each.topic_names, *self.matches.get(each.topic_regex, ())}):
                    if name not in named:
                        named[name] = self.topics.named(name)
                    found.append(named[name])
                wanted[key] = frozenset(topic.topic_id for topic in found if topic is not None)
            subscribers.append(Subscriber(member_id, wanted[key], each.instance_id, each.rack_id, target))
        return subscribers, {topic.topic_id: topic for topic in named.values() if topic is not None}
