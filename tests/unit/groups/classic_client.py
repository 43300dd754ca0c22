"""A member of the classic protocol, as Java's and librdkafka's clients are: for schedules of groups of both protocols.

It joins, fetches its assignment, and heartbeats. When it is told to, it joins again; an eager one gives everything up
before that, a cooperative one keeps what it has, and joins once more when it had to give something up. Its leader
assigns, with our own client's assignors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from consumer_driver import ConsumerDriver, Owned, SomeTopics

from minikafka.errors import ErrorCode
from minikafka.groups import assignors
from minikafka.model import TopicPartition
from minikafka.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from minikafka.wire.errors import WireError
from minikafka.wire.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)

SESSION_MS: Final = 10_000
ASSIGNORS: Final = {
    "range": assignors.range_assign,
    "roundrobin": assignors.roundrobin_assign,
    "cooperative-sticky": assignors.cooperative_sticky_assign,
}
GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
NOBODY: Owned = frozenset()


@dataclass(eq=False)
class Classic:
    """What a classic client knows beside its name. ``phase``: what it asks for next."""

    client_id: str
    instance: str | None
    topics: tuple[str, ...]
    rebalance_ms: int
    assignor: str
    member_id: str = ""
    generation: int = -1
    phase: str = "join"
    leads: Mapping[str, bytes] | None = None  # the metadata of the members, if it is the leader
    assigns: bool = True  # not when it is back as a static member: then it only watches the topics (KIP-814)
    knew: tuple[tuple[str, int], ...] = ()  # the topics, when it assigned

    @property
    def is_eager(self) -> bool:
        """It gives everything up before it joins."""
        return self.assignor != "cooperative-sticky"

    @property
    def version(self) -> int:
        """Of its JoinGroup."""
        return 3 if self.client_id.endswith("5") else 9

    @property
    def is_back_unknowing(self) -> bool:
        """A static leader that is back is told so from version 9 on: before, nobody looks at the topics."""
        return self.instance is not None and self.version < 9 and self.leads is None

    def notices_topics(self, some: SomeTopics) -> bool:
        """A leader joins again when topics have changed."""
        return self.leads is not None and self.phase == "heartbeat" and self.knew != sizes(some)

    def ask(self, driver: ConsumerDriver, owned: Owned, token: str) -> Any:
        """Send what is due."""
        match self.phase:
            case "join":
                return driver.join(
                    self.client_id,
                    member=self.member_id,
                    instance=self.instance,
                    protocols={self.assignor: self._metadata(driver.some, owned)},
                    session_ms=SESSION_MS,
                    rebalance_ms=self.rebalance_ms,
                    version=self.version,
                    token=token,
                )
            case "sync":
                given = None if self.leads is None else self._assign(driver.some, self.leads)
                given = given if self.assigns else None
                return driver.sync(self.member_id, self.generation, given, instance=self.instance, token=token)
        return driver.heartbeat(self.member_id, self.generation, instance=self.instance, token=token)

    def _metadata(self, some: SomeTopics, owned: Owned) -> bytes:
        by_topic: dict[str, list[int]] = {}
        for topic_id, index in sorted(owned):
            topic = some.with_id(topic_id)
            if topic is not None:
                by_topic.setdefault(topic.name, []).append(index)
        has = [SubscriptionTopicPartition(topic=topic, partitions=found) for topic, found in by_topic.items()]
        told = ConsumerProtocolSubscription(
            topics=list(self.topics), owned_partitions=has, generation_id=self.generation
        )
        return encode_subscription(told)

    def _assign(self, some: SomeTopics, members: Mapping[str, bytes]) -> dict[str, bytes]:
        subscribers = []
        for member_id, metadata in members.items():
            told = decode_subscription(metadata)
            owned = tuple(
                TopicPartition(each.topic, index) for each in told.owned_partitions for index in each.partitions
            )
            subscribers.append(assignors.Subscriber(member_id, frozenset(told.topics), None, owned, told.generation_id))
        self.knew = sizes(some)
        made = ASSIGNORS[self.assignor](subscribers, dict(self.knew))
        given = {}
        for member_id, partitions in made.items():
            by_topic: dict[str, list[int]] = {}
            for at in partitions:
                by_topic.setdefault(at.topic, []).append(at.partition)
            assigned = [AssignmentTopicPartition(topic=topic, partitions=found) for topic, found in by_topic.items()]
            given[member_id] = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned))
        return given

    def hear_join(self, answer: Any) -> bool:
        """The answer to a JoinGroup; False when all that it has is lost."""
        code = answer.error_code
        self.leads = None
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif not code:
            self.member_id, self.generation, self.phase = answer.member_id, answer.generation_id, "sync"
            if answer.leader == answer.member_id:
                self.leads = {each.member_id: each.metadata for each in answer.members}
            self.assigns = not answer.skip_assignment
        return self._is_in(code)

    def hear_sync(self, answer: Any) -> bool:
        """The answer to a SyncGroup; False when all that it has is lost."""
        self.phase = "join" if answer.error_code else "heartbeat"
        return self._is_in(answer.error_code)

    def hear_heartbeat(self, answer: Any) -> bool:
        """The answer to a Heartbeat; False when all that it has is lost."""
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.phase = "join"
        return self._is_in(answer.error_code)

    def _is_in(self, code: int) -> bool:
        if code in GONE:
            self.phase, self.generation = "join", -1
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        return code not in GONE


def sizes(some: SomeTopics) -> tuple[tuple[str, int], ...]:
    """The topics and their partitions."""
    return tuple((topic.name, topic.partitions) for topic in some.by_name.values())


def assigned(some: SomeTopics, answer: Any) -> Owned:
    """The partitions in the answer to a SyncGroup, of topics that are there."""
    try:
        given = decode_assignment(answer.assignment)
    except WireError:
        return NOBODY
    found: set[tuple[UUID, int]] = set()
    for each in given.assigned_partitions:
        topic = some.named(each.topic)
        if topic is not None:
            found |= {(topic.topic_id, index) for index in each.partitions}
    return frozenset(found)
