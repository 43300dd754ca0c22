"""A classic consumer group: its members, its generation and its state; no input, no output, no time.

A group of the newer protocol has no classic members, but its :attr:`Group.consumer`; offsets belong to either.

States and the transitions between them (Kafka's ``ClassicGroupState``)::

    Empty                --a member joins----------------------------------------> PreparingRebalance
    PreparingRebalance   --all members have rejoined, or the time is up-----------> CompletingRebalance
    PreparingRebalance   --nobody has (re)joined when the time is up--------------> Empty
    CompletingRebalance  --the leader's assignment is committed-------------------> Stable
    CompletingRebalance  --a member joins, leaves, changes or times out-----------> PreparingRebalance
    CompletingRebalance  --the assignment could not be written--------------------> PreparingRebalance
    Stable               --a member joins, leaves, changes or times out-----------> PreparingRebalance
    Empty                --no offset and no record is left------------------------> Dead
    (start of a shard)   --a persisted generation has members---------------------> Stable
    (any)                --a member of the newer protocol joins-------------------> (a consumer group)
    (a consumer group)   --only classic members are left--------------------------> PreparingRebalance

Entering PreparingRebalance ends the generation for its members (heartbeats say REBALANCE_IN_PROGRESS); leaving it
begins the next one. Invariants, checked by :meth:`Group.check`: the leader is a member, and in CompletingRebalance one
whose SyncGroup is awaited or parked; parked joins exist only in PreparingRebalance, parked syncs only in
CompletingRebalance; at most one member has a given instance id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final

from minikafka.coordination.effects import Token
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.memory import ASSIGNMENT_INCLUDED_BYTES, GROUP_BYTES, MEMBER_BYTES
from minikafka.groups.offsets import CommittedOffset, PendingOffsets
from minikafka.groups.offsets import size_in_bytes as offset_size
from minikafka.groups.records import GroupMetadataValue
from minikafka.model import TopicPartition

Protocols = tuple[tuple[str, bytes], ...]
"""A member's assignors with its metadata for each, the preferred one first."""

PROTOCOL_BYTES: Final = 150
"""What a protocol takes beside its name and metadata."""


def size_in_bytes(protocols: Protocols) -> int:
    """Their memory in bytes."""
    return sum(PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in protocols)


def assignments_size(assignments: Iterable[bytes]) -> int:
    """What they take in bytes, beside what is part of a member."""
    return sum(max(0, len(assignment) - ASSIGNMENT_INCLUDED_BYTES) for assignment in assignments)


class GroupState(Enum):
    """The value is how Kafka prints the state."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.DEAD: frozenset(),
}


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a group. It is removed at `session_deadline_ms` unless it sends something before."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""  # the last one that may have been given to it, until the group is stable again
    is_new: bool = False  # its first join is not answered: it does not know its id and cannot heartbeat
    session_deadline_ms: int = 0
    timer_ms: int | None = None  # when its timer fires, which may be before the deadline

    @property
    def is_static(self) -> bool:
        """True when the member keeps its place over a restart (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def names_bytes(self) -> int:
        """What a client may choose of it."""
        return len(self.member_id) + len(self.client_id) + len(self.group_instance_id or "")

    @property
    def protocol_names(self) -> frozenset[str]:
        """Its supported protocols; a hostile member may name one twice."""
        return frozenset(name for name, _ in self.protocols)

    def metadata_for(self, protocol: str | None) -> bytes:
        """Its metadata for `protocol`; empty when it does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class Group:
    """One group. Members change at once; `persisted`, `offsets` and `pending` only by replaying committed records."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    pending_members: set[str] = field(default_factory=set)  # ids given out, join awaited (KIP-394)
    awaiting_join: dict[str, Token] = field(default_factory=dict)
    awaiting_sync: dict[str, Token] = field(default_factory=dict)
    pending_sync: set[str] = field(default_factory=set)  # members that have not asked for their assignment yet
    phase_deadline_ms: int | None = None  # end of the joining, or of the syncing, phase
    initial_delay_left_ms: int | None = None  # not None while an empty group waits for more first members
    new_member_joined: bool = False
    empty_since_ms: int | None = None
    assignment_in_flight: bool = False  # the leader's assignment of this generation is being written
    writes_in_flight: int = 0
    offsets_in_flight: Counter[TopicPartition] = field(default_factory=Counter)  # how many of those writes, if any
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    pending: PendingOffsets = field(default_factory=PendingOffsets)  # those of open transactions
    persisted: GroupMetadataValue | None = None
    protocols_bytes: int = 0  # of all members
    names_bytes: int = 0  # of all members
    assignments_bytes: int = 0  # of all members, as persisted
    committed_bytes: int = 0  # of its offsets
    held_bytes: int = 0  # of its members, as the node's memory has counted them
    held_offsets_bytes: int = 0  # the same of its offsets
    held_pending_bytes: int = 0  # of these, those of open transactions
    consumer: ConsumerGroup | None = None  # its members, if they speak the newer protocol (KIP-848)
    former: ConsumerGroup | None = None  # what it was before it went down, until the next generation
    _supporters: Counter[str] = field(default_factory=Counter)

    def is_in(self, *states: GroupState) -> bool:
        """True when the group's state is one of `states`."""
        return self.state in states

    @property
    def is_consumer(self) -> bool:
        """True for a group of the newer protocol."""
        return self.consumer is not None and not self.consumer.is_blank

    @property
    def is_empty(self) -> bool:
        """True without members, of whatever protocol."""
        return self.state is GroupState.EMPTY and not (self.consumer is not None and self.consumer.subscriptions)

    def take_membership(self) -> dict[str, Any]:
        """Leave the group without classic members, generation and state; what is taken can be put back."""
        empty = Group(self.group_id)
        taken = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in OF_EITHER_PROTOCOL}
        self.put_back({name: getattr(empty, name) for name in taken})
        return taken

    def put_back(self, taken: dict[str, Any]) -> None:
        """Undo :meth:`take_membership`."""
        for name, value in taken.items():
            setattr(self, name, value)

    def transition_to(self, state: GroupState) -> None:
        """Change state along :data:`TRANSITIONS`."""
        assert state in TRANSITIONS[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state

    # members

    def add(self, member: Member) -> None:
        """Add a member; the first one is the leader."""
        assert member.member_id not in self.members
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        self._count(member)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> Member:
        """Remove a member. Its parked requests have been answered."""
        assert member_id not in self.awaiting_join
        assert member_id not in self.awaiting_sync
        member = self.members.pop(member_id)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self._discount(member)
        self.pending_sync.discard(member_id)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def update(self, member: Member, protocols: Protocols, client_id: str) -> None:
        """Replace the protocols of `member`, and what its client is called."""
        self._discount(member)
        member.protocols, member.client_id = protocols, client_id
        self._count(member)

    def _count(self, member: Member) -> None:
        self._supporters.update(member.protocol_names)
        self.protocols_bytes += size_in_bytes(member.protocols)
        self.names_bytes += member.names_bytes

    def _discount(self, member: Member) -> None:
        for name in member.protocol_names:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]
        self.protocols_bytes -= size_in_bytes(member.protocols)
        self.names_bytes -= member.names_bytes

    def replace_static_member(self, old_id: str, new_id: str) -> Member:
        """Give the static member `old_id`, restarted, its new id; it keeps its place and its assignment (KIP-345)."""
        assert old_id not in self.awaiting_join
        assert old_id not in self.awaiting_sync
        member = self.members[old_id]
        assert member.group_instance_id is not None
        self.names_bytes += len(new_id) - len(old_id)
        member.member_id = new_id
        self.members = {new_id if key == old_id else key: value for key, value in self.members.items()}
        self.static_members[member.group_instance_id] = new_id
        if old_id in self.pending_sync:
            self.pending_sync = self.pending_sync - {old_id} | {new_id}
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    @property
    def members_bytes(self) -> int:
        """What its members take, of whatever protocol, and what is persisted of them."""
        held = self.protocols_bytes + self.names_bytes + self.assignments_bytes
        held += MEMBER_BYTES * (len(self.members) + len(self.pending_members))
        if self.consumer is not None:
            held += self.consumer.subscribed.size + self.consumer.rows_bytes
        is_there = held or self.persisted is not None or self.is_consumer
        return held + GROUP_BYTES + len(self.group_id) if is_there else 0

    @property
    def offsets_bytes(self) -> int:
        """What its offsets take, those of open transactions included."""
        held = self.committed_bytes + self.pending.held_bytes
        return held and held + GROUP_BYTES + len(self.group_id)

    # offsets

    def set_offset(self, at: TopicPartition, offset: CommittedOffset) -> None:
        """An offset is committed."""
        before = self.offsets.get(at)
        self.committed_bytes += offset_size(at, offset.value) - (offset_size(at, before.value) if before else 0)
        self.offsets[at] = offset

    def remove_offset(self, at: TopicPartition) -> None:
        """The committed offset, if any, is gone."""
        before = self.offsets.pop(at, None)
        if before is not None:
            self.committed_bytes -= offset_size(at, before.value)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time for members to rejoin: the longest rebalance timeout among them."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """True when all members support one of these protocols."""
        if self.is_in(GroupState.EMPTY):
            return bool(protocol_type) and any(True for _ in names)
        return self.protocol_type == protocol_type and any(self._all_support(name) for name in names)

    def _all_support(self, name: str) -> bool:
        return self._supporters[name] == len(self.members)

    def select_protocol(self) -> str:
        """The protocol of the next generation: members vote for their first commonly supported one."""
        assert self.members
        votes = Counter(
            next(name for name, _ in member.protocols if self._all_support(name)) for member in self.members.values()
        )
        return max(votes, key=lambda name: votes[name])

    # rebalancing

    @property
    def has_all_joined(self) -> bool:
        """True when no JoinGroup is awaited any more."""
        return len(self.awaiting_join) == len(self.members) and not self.pending_members

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has rejoined, else take the first member that has; False if no member has."""
        if self.leader_id not in self.awaiting_join:
            joined = next(iter(self.awaiting_join), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def generation_of(self, member_id: str) -> int:
        """The generation that a member knows. Where the group has just gone down, that is its member epoch still."""
        if self.former is None or member_id not in self.former.subscriptions:
            return self.generation_id
        return self.former.current(member_id).member_epoch

    def begin_generation(self) -> None:
        """Start the next generation with the present members."""
        self.generation_id += 1
        self.former = None
        self.phase_deadline_ms = None
        self.pending_sync = set(self.awaiting_join)
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(GroupState.COMPLETING_REBALANCE)
        else:
            self.protocol_name = None
            self.transition_to(GroupState.EMPTY)

    def land(self, partitions: Iterable[TopicPartition]) -> None:
        """A write of offsets of these partitions is in flight no more."""
        for partition in partitions:
            self.offsets_in_flight[partition] -= 1
            if not self.offsets_in_flight[partition]:
                del self.offsets_in_flight[partition]

    def is_unstable(self, partition: TopicPartition) -> bool:
        """True while a commit of this partition may, or may not, become the committed offset (row T42)."""
        return partition in self.pending or partition in self.offsets_in_flight

    @property
    def is_forgettable(self) -> bool:
        """True when the group has no member, nothing persisted and nothing on its way to the log."""
        return (
            self.state is GroupState.EMPTY
            and not self.offsets
            and not self.pending
            and self.persisted is None
            and not self.pending_members
            and not self.writes_in_flight
            and (self.consumer is None or self.consumer.is_bare)
        )

    def check(self) -> None:
        """Assert the invariants."""
        assert (self.leader_id in self.members) if self.members else self.leader_id is None
        assert not self.awaiting_join or self.state is GroupState.PREPARING_REBALANCE
        assert not self.awaiting_sync or self.state is GroupState.COMPLETING_REBALANCE
        if self.state is GroupState.COMPLETING_REBALANCE:
            assert self.leader_id in self.pending_sync or self.leader_id in self.awaiting_sync
        assert self.awaiting_join.keys() <= self.members.keys()
        assert self.awaiting_sync.keys() <= self.members.keys()
        assert self.pending_sync <= self.members.keys()
        assert self.pending_members.isdisjoint(self.members)
        assert bool(self.members) or self.is_in(GroupState.EMPTY, GroupState.PREPARING_REBALANCE, GroupState.DEAD)
        static = {member.group_instance_id: key for key, member in self.members.items() if member.is_static}
        assert static == self.static_members
        assert all(count > 0 for count in self.offsets_in_flight.values())
        assert self.committed_bytes == sum(offset_size(at, offset.value) for at, offset in self.offsets.items())
        self.pending.check()
        if self.consumer is not None:
            assert self.consumer.is_blank or not self.members
            self.consumer.check()
        supporters = Counter(name for member in self.members.values() for name in member.protocol_names)
        assert dict(self._supporters) == dict(supporters)  # names that nobody has any more would count as equal
        assert self.protocols_bytes == sum(size_in_bytes(member.protocols) for member in self.members.values())
        assert self.names_bytes == sum(member.names_bytes for member in self.members.values())


OF_EITHER_PROTOCOL: Final = frozenset(
    {
        "group_id",
        "held_bytes",
        "held_offsets_bytes",
        "held_pending_bytes",
        "writes_in_flight",
        "offsets_in_flight",
        "offsets",
        "committed_bytes",
        "pending",
        "persisted",
        "assignments_bytes",
        "consumer",
    }
)
"""Fields of a group that stay when it changes its protocol."""
