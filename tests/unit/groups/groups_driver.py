"""A driver of the coordinator for tests: a log, timers, and a record of what was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple
from uuid import NAMESPACE_DNS, UUID, uuid5

from minikafka.coordination.effects import CancelTimer, Effect, Respond, SetTimer, Token, Write
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.groups.consumer.topics import NoTopics, Topics
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.joins import Caller
from minikafka.groups.settings import CoordinatorSettings
from minikafka.groups.timers import TimerKey
from minikafka.model import ProducerIdentity
from minikafka.wire.codec import encode
from minikafka.wire.messages.delete_groups import DeletableGroupResult
from minikafka.wire.messages.heartbeat import HeartbeatRequest
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.wire.schema import VersionRange
from minikafka.wire.versioned import Record

WALL_START_MS = 1_700_000_000_000
UNSTABLE = -2  # an offset that is not told


class InTransaction(NamedTuple):
    """A record of a producer's transaction."""

    record: Record
    producer: ProducerIdentity


class Marker(NamedTuple):
    """The end of a producer's transaction; later records need its epoch."""

    producer: ProducerIdentity
    commits: bool


Logged = Record | InTransaction | Marker


def logged(entry: Write | Marker) -> list[Logged]:
    """What the log has of an appended entry."""
    if isinstance(entry, Marker):
        return [entry]
    producer = entry.producer
    return [record if producer is None else InTransaction(record, producer) for record in entry.records]


class Driver:
    """Does what the coordinator asks. Writes and markers wait for :meth:`committed`, or :meth:`failed`, unless
    `auto_commit`. The log refuses records of a transaction whose epoch is over."""

    def __init__(self, *, auto_commit: bool = True, **settings: int) -> None:
        self.settings = CoordinatorSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.auto_commit = auto_commit
        self.now_ms = 0
        self.wall_ms = WALL_START_MS
        self.jumped_ms = 0  # ahead of what a node believes
        self.log: list[Logged] = []
        self.appended: list[Write | Marker] = []  # in the log, not committed yet
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[Token, Any] = {}
        self.parked: set[Token] = set()
        self.effects: list[Effect] = []  # of the last call, those of automatic commits behind
        self.suffixes = count(1)
        self.tokens = count(1)
        self.gone: set[str] = set()
        self.incarnations: Counter[str] = Counter()
        self.topics: Topics = NoTopics()
        self.start()

    def topic_id(self, name: str) -> UUID | None:
        """Every topic exists, but for those that are gone; a topic made again has another id."""
        return None if name in self.gone else uuid5(NAMESPACE_DNS, f"{name} {self.incarnations[name]}")

    def delete_topics(self, *names: str, again: bool = False) -> None:
        """They are deleted (and made `again`), and the coordinator hears of it."""
        self.incarnations.update(names)
        if not again:
            self.gone.update(names)
        self.run(self.coordinator.on_topics_deleted(self.now_ms))

    def start(self) -> None:
        """A new coordinator on what the log holds."""
        self.timers.clear()
        self.coordinator = GroupCoordinator(
            self.settings,
            lambda: str(next(self.suffixes)),
            lambda: self.wall_ms,
            self.topic_id,
            self.topics,
            age_clock_ms=lambda: self.wall_ms - self.jumped_ms,
        )
        self.replay_into(self.coordinator)
        while self.coordinator.phase is Phase.LOADING:
            self.run(self.coordinator.finish_loading(self.now_ms))

    def replay_into(self, coordinator: GroupCoordinator) -> None:
        """Let it read the log."""
        for entry in self.log:
            if isinstance(entry, Marker):
                assert not coordinator.on_marker(entry.producer.producer_id, self.now_ms, commits=entry.commits)
            elif isinstance(entry, InTransaction):
                key, value = entry.record
                assert coordinator.replay(key, value, self.now_ms, entry.producer.producer_id)
            else:
                assert coordinator.replay(*entry, self.now_ms)

    def epoch_of(self, producer_id: int) -> int:
        """The producer's epoch in the log; -1 before its first record."""
        entries = [*self.log, *(each for entry in self.appended for each in logged(entry))]
        return max(
            (
                entry.producer.epoch
                for entry in entries
                if isinstance(entry, InTransaction | Marker) and entry.producer.producer_id == producer_id
            ),
            default=-1,
        )

    def failover(self, survive: int | None = None) -> None:
        """The coordinator resigns; a new one starts with the first `survive` uncommitted writes (None: all)."""
        self.run(self.coordinator.resign(self.now_ms))
        former = self.coordinator.shard
        assert (former.memory.held_bytes, former.offsets_memory.held_bytes) == (0, 0)
        assert former.offsets_memory.pending_bytes == 0
        assert not self.timers
        assert not self.parked, "a request was left without an answer"
        for entry in self.appended[:survive]:
            self.log += logged(entry)
        self.appended.clear()
        self.start()

    def run(self, effects: list[Effect]) -> None:
        """Do `effects`, and with `auto_commit` those that follow from their writes."""
        self.effects = list(effects)
        for effect in self.effects:
            self.effects += self.do(effect)
        self.check()
        while self.auto_commit and self.appended:
            done, before = self.effects, self.auto_commit
            self.auto_commit = False
            self.committed()
            self.effects, self.auto_commit = done + self.effects, before

    def do(self, effect: Effect) -> list[Effect]:
        """Do one effect; those that follow at once."""
        match effect:
            case Respond(token, response):
                assert token in self.parked, f"{token} is answered twice"
                self.parked.discard(token)
                self.answers[token] = response
                for version in VersionRange.parse(response.VERSIONS):
                    encode(response, version)  # whatever the version of the request, the answer can be sent
            case Write(write_id, _, producer):
                if producer is not None and producer.epoch < self.epoch_of(producer.producer_id):
                    refused = ErrorCode.INVALID_PRODUCER_EPOCH
                    return self.coordinator.on_write_failed(write_id, refused, self.now_ms)
                self.appended.append(effect)
            case SetTimer(key, deadline_ms):
                assert deadline_ms >= self.now_ms
                self.timers[key] = deadline_ms
            case CancelTimer(key):
                self.timers.pop(key, None)
        return []

    def check(self) -> None:
        """The invariants of every group, and nothing lost of what is parked."""
        shard = self.coordinator.shard
        for group in shard.groups.values():
            group.check()
        assert shard.memory.held_bytes == sum(group.members_bytes for group in shard.groups.values())
        of_offsets = sum(group.offsets_bytes for group in shard.groups.values())
        assert shard.offsets_memory.held_bytes == of_offsets + sum(write.size for write in shard.writes.values())
        of_pending = sum(group.pending.held_bytes for group in shard.groups.values())
        assert shard.offsets_memory.pending_bytes == of_pending
        for producer_id, transaction in shard.open_transactions.items():
            assert transaction.groups or transaction.records > 0, f"nothing is known of producer {producer_id}"
        of_transactions = {(each, name) for each, open_ in shard.open_transactions.items() for name in open_.groups}
        assert of_transactions == {(each, g.group_id) for g in shard.groups.values() for each in g.pending.producers}
        waiting = sum(len(group.awaiting_join) + len(group.awaiting_sync) for group in shard.groups.values())
        waiting += sum((write.done is not None) + len(write.followers) for write in shard.writes.values())
        assert len(self.parked) <= waiting, "a request is neither answered nor parked"

    def committed(self) -> None:
        """The oldest write, or marker, is committed."""
        entry = self.appended.pop(0)
        self.log += logged(entry)
        if isinstance(entry, Marker):
            self.run(self.coordinator.on_marker(entry.producer.producer_id, self.now_ms, commits=entry.commits))
        else:
            self.run(self.coordinator.on_committed(entry.write_id, self.now_ms))

    def failed(self, error: ErrorCode, which: int = 0) -> None:
        """A write (the oldest) was not appended."""
        write = self.appended.pop(which)
        assert isinstance(write, Write)
        self.run(self.coordinator.on_write_failed(write.write_id, error, self.now_ms))

    def advance(self, ms: int) -> list[Effect]:
        """Let time pass, firing timers in their order; returns all effects."""
        effects: list[Effect] = []
        end = self.now_ms + ms
        while self.timers and min(self.timers.values()) <= end:
            key = min(self.timers, key=lambda key: self.timers[key])
            deadline = self.timers.pop(key)
            self.wall_ms += deadline - self.now_ms
            self.now_ms = deadline
            self.run(self.coordinator.on_timer(key, self.now_ms))
            effects += self.effects
        self.wall_ms += end - self.now_ms
        self.now_ms = end
        self.effects = effects
        return effects

    def ask(self, act: Callable[[Token], list[Effect]], token: Token | None = None) -> Any:
        """Run a request; its answer, or its token while it is parked."""
        token = token if token is not None else f"request-{next(self.tokens)}"
        self.parked.add(token)
        self.run(act(token))
        return self.answers.get(token, token)

    # requests

    def join(
        self,
        client: str = "c",
        *,
        group: str = "g",
        member: str = "",
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 3,
        token: Token | None = None,
    ) -> Any:
        """JoinGroup; version 3 by default, the last that lets a member in without asking it back."""
        request = JoinGroupRequest(
            group_id=group,
            member_id=member,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (protocols or {"range": b"meta"}).items()
            ],
        )
        caller = Caller(client, "/127.0.0.1", version)
        return self.ask(lambda token: self.coordinator.join_group(request, caller, token, self.now_ms), token)

    def sync(
        self,
        member: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
        token: Token | None = None,
    ) -> Any:
        """SyncGroup."""
        request = SyncGroupRequest(
            group_id=group,
            member_id=member,
            generation_id=generation,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        return self.ask(lambda token: self.coordinator.sync_group(request, token, self.now_ms), token)

    def heartbeat(
        self,
        member: str,
        generation: int,
        *,
        group: str = "g",
        instance: str | None = None,
        token: Token | None = None,
    ) -> Any:
        """Heartbeat."""
        request = HeartbeatRequest(
            group_id=group, member_id=member, generation_id=generation, group_instance_id=instance
        )
        return self.ask(lambda token: self.coordinator.heartbeat(request, token, self.now_ms), token)

    def leave(
        self,
        *members: tuple[str, str | None],
        group: str = "g",
        version: int = 3,
        token: Token | None = None,
    ) -> Any:
        """LeaveGroup of (member id, instance id) pairs; before version 3 of the first one."""
        identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
        request = LeaveGroupRequest(group_id=group, member_id=members[0][0] if members else "", members=identities)
        return self.ask(lambda token: self.coordinator.leave_group(request, version, token, self.now_ms), token)

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        member: str = "",
        generation: int = -1,
        *,
        group: str = "g",
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        version: int = 7,
        token: Token | None = None,
    ) -> Any:
        """OffsetCommit of {(topic, partition): offset}."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, OffsetCommitRequestTopic(name=topic)).partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=4,
                    committed_metadata=metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=list(topics.values()),
        )
        return self.ask(lambda token: self.coordinator.offset_commit(request, version, token, self.now_ms), token)

    def txn_commit(
        self,
        offsets: dict[tuple[str, int], int],
        producer: tuple[int, int] = (7, 0),
        member: str = "",
        generation: int = -1,
        *,
        group: str = "g",
        instance: str | None = None,
        metadata: str | None = "",
        version: int = 5,
        token: Token | None = None,
    ) -> Any:
        """TxnOffsetCommit of {(topic, partition): offset} by a producer of this id and epoch."""
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic)).partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=4,
                    committed_metadata=metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=f"transactional-{producer[0]}",
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            topics=list(topics.values()),
        )
        return self.ask(lambda token: self.coordinator.txn_offset_commit(request, version, token, self.now_ms), token)

    def end(self, producer_id: int = 7, *, commits: bool = True) -> None:
        """The marker that ends the producer's transaction, in the next epoch."""
        self.appended.append(Marker(ProducerIdentity(producer_id, max(0, self.epoch_of(producer_id)) + 1), commits))
        self.run([])

    def fetch(self, *partitions: tuple[str, int], group: str = "g", stable: bool = False) -> dict[tuple[str, int], int]:
        """OffsetFetch of these partitions, or of all: {(topic, partition): offset}; UNSTABLE if `stable` says so."""
        topics: dict[str, OffsetFetchRequestTopics] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, OffsetFetchRequestTopics(name=topic)).partition_indexes.append(partition)
        request = OffsetFetchRequestGroup(group_id=group, topics=list(topics.values()) if partitions else None)
        response = self.coordinator.fetch_offsets(request, require_stable=stable)
        assert not response.error_code
        return {
            (topic.name, partition.partition_index): UNSTABLE if partition.error_code else partition.committed_offset
            for topic in response.topics
            for partition in topic.partitions
        }

    def delete_offsets(self, *partitions: tuple[str, int], group: str = "g", token: Token | None = None) -> Any:
        """OffsetDelete."""
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
                for topic, index in partitions
            ],
        )
        return self.ask(lambda token: self.coordinator.offset_delete(request, token, self.now_ms), token)

    def delete_group(self, group: str = "g", token: Token | None = None) -> DeletableGroupResult | Token:
        """DeleteGroups of one group."""
        return self.ask(lambda token: self.coordinator.delete_group(group, token, self.now_ms), token)

    # shortcuts

    def stable(self, *clients: str, group: str = "g", **join: Any) -> list[str]:
        """A stable group of these clients, the first one leading; returns their member ids."""
        first, *others = [self.join(client, group=group, **join) for client in clients]
        if others:  # the first was alone in a generation: it must come back
            first = self.join(clients[0], group=group, member=first.member_id, **join)
        members = [first.member_id, *(self.answers[token].member_id for token in others)]
        generation = first.generation_id
        for member in reversed(members):
            self.sync(member, generation, {name: name.encode() for name in members}, group=group)
        return members

    def group(self, group_id: str = "g") -> Any:
        """The group inside."""
        return self.coordinator.shard.groups.get(group_id)
