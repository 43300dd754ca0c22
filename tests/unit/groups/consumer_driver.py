"""The driver of the coordinator, with topics, and with requests of consumer groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from groups_driver import Driver

from minikafka.coordination.effects import Effect, Token, Write
from minikafka.errors import ErrorCode
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.topics import Topic
from minikafka.groups.effects import MakeAssignment, ResolveRegexes
from minikafka.groups.joins import Caller
from minikafka.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)

Owned = frozenset[tuple[UUID, int]]


class SomeTopics:
    """Topics that come and go."""

    def __init__(self) -> None:
        self.by_name: dict[str, Topic] = {}
        self.made = 0

    def named(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self.by_name.get(name)

    def with_id(self, topic_id: UUID) -> Topic | None:
        """The topic of this id."""
        return next((topic for topic in self.by_name.values() if topic.topic_id == topic_id), None)

    def make(self, name: str, partitions: int, racks: tuple[frozenset[str], ...] = ()) -> Topic:
        """A new topic, or one with more partitions."""
        self.made += 1
        before = self.by_name.get(name)
        topic_id = before.topic_id if before is not None else uuid5(NAMESPACE_DNS, f"{name} {self.made}")
        topic = self.by_name[name] = Topic(topic_id, name, partitions, racks)
        return topic


class ConsumerDriver(Driver):
    """A write fails, if it does, before it is in the log: ``fails`` says with what, once."""

    def __init__(self, *, auto_commit: bool = True, topics: Mapping[str, int] | None = None, **settings: Any) -> None:
        self.some = SomeTopics()
        for name, partitions in (topics or {"t": 4}).items():
            self.some.make(name, partitions)
        self.questions: list[ResolveRegexes] = []
        self.assignments: list[MakeAssignment] = []
        self.fails: ErrorCode | None = None
        self.breaks: list[int] = []  # wall clock: when a write failed, or a coordinator began
        super().__init__(auto_commit=auto_commit, **settings)

    def start(self) -> None:
        """The questions of the coordinator before are never answered."""
        self.topics = self.some
        self.breaks.append(self.wall_ms)
        self.questions.clear()
        self.assignments.clear()
        super().start()

    def topic_id(self, name: str) -> UUID | None:
        """Of the topic that there is now."""
        topic = self.some.named(name)
        return None if topic is None else topic.topic_id

    def do(self, effect: Any) -> list[Effect]:
        """See :meth:`Driver.do`."""
        if isinstance(effect, ResolveRegexes):
            self.questions.append(effect)
            return []
        if isinstance(effect, MakeAssignment):
            self.assignments.append(effect)
            return []
        if isinstance(effect, Write) and self.fails is not None:
            error, self.fails = self.fails, None
            self.breaks.append(self.wall_ms)
            return self.coordinator.on_write_failed(effect.write_id, error, self.now_ms)
        return super().do(effect)

    def resolve(self) -> None:
        """Answer the oldest question about regular expressions."""
        question = self.questions.pop(0)
        found = {
            regex: tuple(name for name in self.some.by_name if re.fullmatch(regex, name)) for regex in question.regexes
        }
        self.run(self.coordinator.on_regexes_resolved(question.group_id, found, question.version, self.now_ms))

    def assign(self) -> None:
        """Answer the oldest question about a target assignment."""
        question = self.assignments.pop(0).question
        self.run(self.coordinator.on_assigned(question, question.answer(), self.now_ms))

    def change_topics(self, **partitions: int) -> None:
        """Make these topics, or give them more partitions; 0 deletes."""
        for name, count in partitions.items():
            if count:
                self.some.make(name, count)
            else:
                self.some.by_name.pop(name, None)
        self.coordinator.on_topics_changed()
        self.run(self.coordinator.on_topics_deleted(self.now_ms))

    def consumer(self, group: str = "g") -> ConsumerGroup:
        """The group, which exists."""
        found = self.coordinator.shard.groups[group].consumer
        assert found is not None
        return found

    def beat(
        self,
        member: str = "a",
        epoch: int = 0,
        *,
        group: str = "g",
        owned: Owned | None = None,
        names: list[str] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
        version: int = 1,
        token: Token | None = None,
    ) -> Any:
        """ConsumerGroupHeartbeat. Who joins has no partitions, five minutes, and by default topic "t"."""
        if epoch == 0:
            owned = frozenset()
            rebalance_ms = 300_000 if rebalance_ms == -1 else rebalance_ms
            names = ["t"] if names is None and regex is None else names
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None if owned is None else told(owned),
        )
        caller = Caller("client", "/127.0.0.1", version)
        return self.ask(
            lambda token: self.coordinator.consumer_group_heartbeat(request, caller, token, self.now_ms), token
        )


def told(owned: Owned) -> list[HeartbeatTopicPartitions]:
    """As a member tells them."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(owned):
        topics.setdefault(topic_id, []).append(partition)
    return [HeartbeatTopicPartitions(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()]


def given(answer: ConsumerGroupHeartbeatResponse) -> Owned | None:
    """What a member is told to have; None when it is not told."""
    if answer.assignment is None:
        return None
    return frozenset((each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions)
