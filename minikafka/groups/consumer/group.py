"""A consumer group (KIP-848): what its records say, and what follows from them; no input, no output, no time.

States of a group; a state is never stored, it follows from the tables::

    Empty        no members
    Assigning    the group epoch is ahead of the epoch of the target assignment
    Reconciling  a member is not yet in the epoch of the target assignment, or not Stable
    Stable       all are

States of a member (:mod:`minikafka.groups.consumer.reconciliation` has the transitions)::

    STABLE                 has all of its target assignment, in its epoch
    UNREVOKED_PARTITIONS   was told to give partitions up, and has not said that it did
    UNRELEASED_PARTITIONS  is in the epoch of its target, but others still have partitions of it

Three epochs: the *group epoch* rises with every change of members, subscriptions or topics. The target assignment has
the group epoch that it was made for (*assignment epoch*). A *member epoch* follows that, each member at its own pace;
a request with another one is fenced.

Unlike a classic group, a consumer group changes when its records are written, and not first when they are committed:
the next heartbeat goes on from there. Answers wait for the commit. ``committed`` has the rows that are committed. When
a write fails, the group is made anew of those and of the writes under way (:meth:`ConsumerGroup.rebuild`).

Invariants, checked by :meth:`ConsumerGroup.check`: a partition has at most one owner; owners and static members are
those of the tables; no member is ahead of the assignment epoch, nor that of the group epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar, cast
from uuid import UUID

from minikafka.groups.consumer.question import AssignmentQuestion
from minikafka.groups.consumer.records import (
    NEW_MEMBER,
    ConsumerGroupRecord,
    CurrentAssignment,
    GroupEpoch,
    Kind,
    MemberState,
    Partitions,
    ResolvedRegex,
    Subscription,
    TargetMetadata,
)
from minikafka.groups.consumer.subscribed import Subscribed
from minikafka.groups.memory import PARTITION_BYTES, TOPIC_NAME_BYTES

V = TypeVar("V")

LEAVE_GROUP: Final = -1
LEAVE_GROUP_STATIC: Final = -2
"""Member epochs of a member that leaves; with the second it is expected back (KIP-345)."""


class ConsumerGroupState(Enum):
    """The value is how Kafka prints the state."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Session:
    """Deadlines of a member, on the monotonic clock."""

    member_id: str
    session_deadline_ms: int = 0
    timer_ms: int | None = None  # when its timer fires, which may be before the deadline
    rebalance_deadline_ms: int | None = None  # by when it must give partitions up; a classic one: join again, or sync
    has_assignment: bool = False  # as far as it has said


@dataclass(slots=True)
class ConsumerGroup:
    """One group. ``epoch`` and the tables change by :meth:`apply` alone."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    subscriptions: dict[str, Subscription] = field(default_factory=dict)  # by member id, as the next two
    targets: dict[str, Partitions] = field(default_factory=dict)
    currents: dict[str, CurrentAssignment] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    committed: dict[tuple[Kind, str], ConsumerGroupRecord] = field(default_factory=dict)
    owners: dict[UUID, dict[int, str]] = field(default_factory=dict)  # member ids by topic id and partition
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    sessions: dict[str, Session] = field(default_factory=dict)
    subscribed: Subscribed = field(default_factory=Subscribed)
    topics_version: int = -1  # of the metadata that the hash was made of
    is_resolving: bool = False  # the driver matches topics with the regular expressions
    resolved_version: int = -1  # of the metadata that the last answer, or the question under way, is about
    resolved_at_ms: int = 0
    assigned_at_ms: int | None = None  # when the target assignment was made (monotonic), if that was here
    rows_bytes: int = 0  # of what its members do not say themselves: targets, and what expressions match
    asked: AssignmentQuestion | None = None  # of which the driver makes a target assignment
    is_asked_in_vain: bool = False  # the group of that question is no more

    @property
    def is_blank(self) -> bool:
        """True when it has no row."""
        tables = (self.subscriptions, self.targets, self.currents, self.regexes)
        return not (self.epoch or self.assignment_epoch or any(tables))

    @property
    def is_bare(self) -> bool:
        """True when it has no row, and had none that is committed: nothing is lost with it."""
        return self.is_blank and not self.committed

    @property
    def state(self) -> ConsumerGroupState:
        """See above."""
        if not self.subscriptions:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self.is_reconciled(member_id) for member_id in self.subscriptions):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_reconciled(self, member_id: str) -> bool:
        """True when the member has its target assignment."""
        current = self.current(member_id)
        return current.state is MemberState.STABLE and current.member_epoch == self.assignment_epoch

    def current(self, member_id: str) -> CurrentAssignment:
        """What the member has now."""
        return self.currents.get(member_id, NEW_MEMBER)

    def owner_of(self, topic_id: UUID, partition: int) -> str | None:
        """Who has the partition, or has not yet revoked it."""
        return self.owners.get(topic_id, {}).get(partition)

    def subscribed_topics(self) -> frozenset[str]:
        """The names of all topics that members subscribe to, by name or by an expression that is resolved."""
        return frozenset(self.subscribed.topics).union(*map(self.topics_of, self.subscribed.regexes))

    def topics_of(self, regex: str) -> tuple[str, ...]:
        """The topics that a regular expression matches; none before it is resolved."""
        resolved = self.regexes.get(regex)
        return () if resolved is None else resolved.topics

    # rows

    def apply(self, record: ConsumerGroupRecord) -> None:
        """A row is written, or removed."""
        name, value = record.name, record.value
        match record.kind:
            case Kind.GROUP:
                if value is None:
                    self.is_asked_in_vain = True
                self.epoch, self.metadata_hash = cast("GroupEpoch", value or GroupEpoch())
            case Kind.TARGET_METADATA:
                self.assignment_epoch = cast("TargetMetadata", value or TargetMetadata()).assignment_epoch
            case Kind.MEMBER:
                self._apply_subscription(name, cast("Subscription | None", value))
            case Kind.CURRENT:
                self._apply_current(name, cast("CurrentAssignment | None", value))
            case Kind.TARGET:
                self.rows_bytes -= _target_size(self.targets.get(name))
                _put(self.targets, name, cast("Partitions | None", value))
                self.rows_bytes += _target_size(self.targets.get(name))
            case Kind.REGULAR_EXPRESSION:
                self.rows_bytes -= TOPIC_NAME_BYTES * len(self.topics_of(name))
                _put(self.regexes, name, cast("ResolvedRegex | None", value))
                self.rows_bytes += TOPIC_NAME_BYTES * len(self.topics_of(name))

    def _apply_subscription(self, member_id: str, subscription: Subscription | None) -> None:
        before = self.subscriptions.get(member_id)
        if before is not None and self.static_members.get(before.instance_id or "") == member_id:
            del self.static_members[before.instance_id or ""]
        _put(self.subscriptions, member_id, subscription)
        self.subscribed.remove(member_id, before)
        self.subscribed.add(member_id, subscription)
        if subscription is not None and subscription.instance_id is not None:
            self.static_members[subscription.instance_id] = member_id

    def _apply_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        before = self.current(member_id)
        for owned in (before.assigned, before.pending_revocation):
            for topic_id, partitions in owned.items():
                self._release(topic_id, partitions, member_id)
        _put(self.currents, member_id, current)
        if current is not None:
            for owned in (current.assigned, current.pending_revocation):
                for topic_id, partitions in owned.items():
                    self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def _release(self, topic_id: UUID, partitions: Iterable[int], member_id: str) -> None:
        owners = self.owners.get(topic_id, {})
        for partition in partitions:
            if owners.get(partition) == member_id:
                del owners[partition]
        if not owners:
            self.owners.pop(topic_id, None)

    def commit(self, record: ConsumerGroupRecord) -> None:
        """A row that was applied is committed."""
        key = record.kind, record.name
        if record.value is None:
            self.committed.pop(key, None)
        else:
            self.committed[key] = record

    def rebuild(self, in_flight: Iterable[ConsumerGroupRecord]) -> None:
        """A write has failed: make all tables anew, of the committed rows and those of other writes."""
        self.epoch = self.metadata_hash = self.assignment_epoch = self.rows_bytes = 0
        self.subscribed = Subscribed()
        for table in (self.subscriptions, self.targets, self.currents, self.regexes, self.owners, self.static_members):
            cast("dict[object, object]", table).clear()
        for record in (*self.committed.values(), *in_flight):
            self.apply(record)
        self.topics_version = -1
        self.assigned_at_ms = None
        self.is_asked_in_vain = True  # an epoch of the same number may be another one

    def snapshot(self) -> ConsumerGroup:
        """Its members and what they have, for whoever asks about them once the rows are gone."""
        return ConsumerGroup(
            self.group_id,
            epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            subscriptions=dict(self.subscriptions),
            currents=dict(self.currents),
            owners={topic_id: dict(partitions) for topic_id, partitions in self.owners.items()},
        )

    def tombstones(self) -> list[ConsumerGroupRecord]:
        """Records that remove every row, members first."""
        rows = [(Kind.CURRENT, name) for name in self.currents]
        rows += [(Kind.TARGET, name) for name in self.targets]
        rows += [(Kind.MEMBER, name) for name in self.subscriptions]
        rows += [(Kind.REGULAR_EXPRESSION, name) for name in self.regexes]
        rows += [(Kind.TARGET_METADATA, ""), (Kind.GROUP, "")]
        return [ConsumerGroupRecord(kind, self.group_id, name, None) for kind, name in rows]

    def check(self) -> None:
        """Assert the invariants."""
        owners: dict[UUID, dict[int, str]] = {}
        for member_id, current in self.currents.items():
            for owned in (current.assigned, current.pending_revocation):
                for topic_id, partitions in owned.items():
                    for partition in partitions:
                        other = owners.setdefault(topic_id, {}).setdefault(partition, member_id)
                        assert other == member_id, f"{partition} of {topic_id} has two owners: {other}, {member_id}"
        assert owners == self.owners, "the owners are not those of the table"
        assert self.currents.keys() <= self.subscriptions.keys()
        assert self.targets.keys() <= self.subscriptions.keys()
        static = {each.instance_id: name for name, each in self.subscriptions.items() if each.instance_id is not None}
        assert static == self.static_members
        subscribed = Subscribed()
        for member_id, subscription in self.subscriptions.items():
            subscribed.add(member_id, subscription)
        assert subscribed == self.subscribed
        listed = TOPIC_NAME_BYTES * sum(len(resolved.topics) for resolved in self.regexes.values())
        assert self.rows_bytes == listed + sum(map(_target_size, self.targets.values()))
        assert self.assignment_epoch <= self.epoch
        assert all(current.member_epoch <= self.assignment_epoch for current in self.currents.values())
        assert self.sessions.keys() == self.subscriptions.keys()


def consumer_of(group_id: str, rows: Iterable[ConsumerGroupRecord]) -> ConsumerGroup:
    """The group that these rows are."""
    consumer = ConsumerGroup(group_id)
    for row in rows:
        consumer.apply(row)
    return consumer


def _target_size(target: Partitions | None) -> int:
    return PARTITION_BYTES * sum(map(len, ({} if target is None else target).values()))


def _put(table: dict[str, V], name: str, value: V | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
