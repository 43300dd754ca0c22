"""The state of one coordinator and the outbox of the step that is running.

A step (a request, a timer, a completed write) runs to its end without suspending. It puts effects into the outbox, and
state to persist into records. A write keeps its typed records until they are committed. Then they are replayed, in the
order of the log; only then its `done` runs and answers the request.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from minikafka.coordination.effects import CancelTimer, Respond, SetTimer, Token, Write
from minikafka.errors import ErrorCode
from minikafka.groups.consumer.group import ConsumerGroup, Session
from minikafka.groups.consumer.question import AssignmentQuestion
from minikafka.groups.consumer.records import ConsumerGroupRecord, MemberState
from minikafka.groups.consumer.topics import TopicHashes, Topics
from minikafka.groups.effects import Effect, MakeAssignment, ResolveRegexes
from minikafka.groups.group import Group, GroupState, Member, assignments_size
from minikafka.groups.joins import Caller
from minikafka.groups.memory import Memory
from minikafka.groups.offsets import CommittedOffset
from minikafka.groups.records import GroupMetadataRecord, GroupRecord, OffsetCommitRecord, OffsetCommitValue
from minikafka.groups.settings import ConsumerTimes, CoordinatorSettings
from minikafka.groups.timers import MemberTimer, RebalanceTimer, RevocationTimer, TimerKey, WriteTimer
from minikafka.groups.writes import RECORD_BYTES, Done, OpenTransaction, PendingWrite
from minikafka.model import NO_PRODUCER_ID, ZERO_TOPIC_ID, ProducerIdentity
from minikafka.wire.schema import Message


@dataclass(slots=True)
class Shard:
    """The state of the coordinator of one partition of the offsets topic."""

    settings: CoordinatorSettings
    new_member_suffix: Callable[[], str]
    wall_clock_ms: Callable[[], int]
    topic_id_of: Callable[[str], UUID | None]
    """The topic of this name that there is now."""
    times_of: Callable[[str], ConsumerTimes]
    """Of a consumer group, by its settings of now."""
    topics: Topics
    age_clock_ms: Callable[[], int]
    memory: Memory
    offsets_memory: Memory
    """That of committed offsets, and of all writes on their way to the log."""
    topics_version: int = 0
    """Rises with each change of topics."""
    topic_hashes: TopicHashes = field(init=False)
    now_ms: int = 0
    groups: dict[str, Group] = field(default_factory=dict)
    writes: dict[int, PendingWrite] = field(default_factory=dict)
    unrestored: deque[str] = field(default_factory=deque)
    """Groups whose members are yet to be made of what was replayed."""
    unswept: OrderedDict[str, bool] = field(default_factory=OrderedDict)
    """Groups that the sweep under way has yet to look at: True where offsets may expire, too."""
    next_expiry_ms: int = 0
    open_transactions: dict[int, OpenTransaction] = field(default_factory=dict)
    """By producer id."""
    _topic_ids: dict[UUID, UUID] = field(default_factory=dict)  # one object per name: there are many offsets
    _effects: list[Effect] = field(default_factory=list)
    _next_write_id: int = 0
    _in_flight_bytes: int = 0
    """Of all writes."""

    def __post_init__(self) -> None:
        self.topic_hashes = TopicHashes(self.topics)

    def on_topics_changed(self) -> None:
        """They are to be looked at again."""
        self.topics_version += 1
        self.topic_hashes.forget()

    def forget_topic_ids(self) -> None:
        """Topics were deleted, and nothing tells which of these are in use: later offsets share others."""
        self._topic_ids.clear()

    def take_effects(self) -> list[Effect]:
        """The effects of the step that ends here."""
        effects, self._effects = self._effects, []
        return effects

    def group_or_new(self, group_id: str) -> Group:
        """The group; an unknown one is created, empty."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def maybe_forget(self, group: Group) -> None:
        """Its members may have changed. Drop a group without any content: ids that come and go cost no memory."""
        if self.groups.get(group.group_id) is not group:
            return
        self.weigh(group)
        if group.is_forgettable:
            group.transition_to(GroupState.DEAD)
            del self.groups[group.group_id]

    def weigh(self, group: Group) -> None:
        """Count what its members and its offsets take now."""
        held, held_offsets = group.members_bytes, group.offsets_bytes
        self.memory.held_bytes += held - group.held_bytes
        self.offsets_memory.held_bytes += held_offsets - group.held_offsets_bytes
        self.offsets_memory.pending_bytes += group.pending.held_bytes - group.held_pending_bytes
        group.held_bytes, group.held_offsets_bytes = held, held_offsets
        group.held_pending_bytes = group.pending.held_bytes

    # the outbox

    def respond(self, token: Token, response: Message) -> None:
        """Send `response` to the request of `token`."""
        self._effects.append(Respond(token, response))

    def resolve_regexes(self, group_id: str, regexes: Iterable[str], caller: Caller) -> None:
        """Ask which topics the regular expressions of a group match, of those that the caller may see."""
        question = ResolveRegexes(group_id, tuple(regexes), self.topics_version, caller.user, caller.client_host)
        self._effects.append(question)

    def make_assignment(self, question: AssignmentQuestion) -> None:
        """Ask for a target assignment."""
        self._effects.append(MakeAssignment(question))

    def set_timer(self, key: TimerKey, deadline_ms: int, weight: int = 1) -> None:
        """Ask for a call with `key` at `deadline_ms`. A `weight` of 100: it takes a turn of the loop."""
        self._effects.append(SetTimer(key, deadline_ms, weight))

    def cancel_timer(self, key: TimerKey) -> None:
        """Cancel the call with `key`."""
        self._effects.append(CancelTimer(key))

    def extend_session(self, group: Group, member: Member | Session, timeout_ms: int) -> None:
        """Extend the session of `member` to `timeout_ms` from now.

        A heartbeat only moves the deadline and touches no timer. A timer that fires before the deadline is set again.
        """
        member.session_deadline_ms = self.now_ms + timeout_ms
        if member.timer_ms is None or member.session_deadline_ms < member.timer_ms:
            self.arm_session(group, member)

    def arm_session(self, group: Group, member: Member | Session) -> None:
        """Set the member's timer to its deadline."""
        member.timer_ms = member.session_deadline_ms
        self.set_timer(MemberTimer(group.group_id, member.member_id), member.timer_ms)

    def end_session(self, group: Group, member_id: str) -> None:
        """Cancel the timer of a member or a pending member."""
        self.cancel_timer(MemberTimer(group.group_id, member_id))

    def begin_phase(self, group: Group, timeout_ms: int) -> None:
        """Give the group's phase (joining, syncing) `timeout_ms` from now."""
        group.phase_deadline_ms = self.now_ms + timeout_ms
        self.set_timer(RebalanceTimer(group.group_id), group.phase_deadline_ms)

    def end_phase(self, group: Group) -> None:
        """Let the phase run without limit."""
        if group.phase_deadline_ms is not None:
            group.phase_deadline_ms = None
            self.cancel_timer(RebalanceTimer(group.group_id))

    # consumer groups

    def match_sessions(self, group: Group) -> None:
        """Each member of a consumer group has a session, and nobody else: after a load, or a write that failed."""
        consumer = group.consumer
        if consumer is None or consumer.sessions.keys() == consumer.subscriptions.keys():
            return
        for member_id in [name for name in consumer.sessions if name not in consumer.subscriptions]:
            self.end_consumer_session(group, member_id)
        for member_id in consumer.subscriptions:
            if member_id not in consumer.sessions:
                consumer.sessions[member_id] = Session(member_id)
                self.extend_consumer_session(group, consumer, member_id)

    def extend_consumer_session(self, group: Group, consumer: ConsumerGroup, member_id: str) -> None:
        """A member of a consumer group lives. A classic one has a session timeout of its own."""
        classic = consumer.subscriptions[member_id].classic
        timeout_ms = self.times_of(group.group_id).session_timeout_ms if classic is None else classic.session_timeout_ms
        self.extend_session(group, consumer.sessions[member_id], timeout_ms)

    def set_rebalance_deadline(self, group: Group, consumer: ConsumerGroup, member_id: str) -> None:
        """From now on a member of a consumer group has its rebalance timeout to do what the group waits for."""
        timeout_ms = max(consumer.subscriptions[member_id].rebalance_timeout_ms, 0)
        self.extend_rebalance(group, consumer.sessions[member_id], timeout_ms)

    def extend_rebalance(self, group: Group, session: Session, timeout_ms: int) -> None:
        """From now on a member has so much time for it."""
        session.rebalance_deadline_ms = self.now_ms + timeout_ms
        self.set_timer(RevocationTimer(group.group_id, session.member_id), session.rebalance_deadline_ms)

    def match_revocations(self, group: Group, consumer: ConsumerGroup) -> None:
        """Each member that must give partitions up has a deadline: after a load, or a write that failed."""
        for member_id, session in consumer.sessions.items():
            must = consumer.current(member_id).state is MemberState.UNREVOKED_PARTITIONS
            if must and session.rebalance_deadline_ms is None:
                self.set_rebalance_deadline(group, consumer, member_id)

    def clear_rebalance_deadline(self, group: Group, consumer: ConsumerGroup, member_id: str) -> None:
        """The member has done it."""
        session = consumer.sessions[member_id]
        if session.rebalance_deadline_ms is not None:
            session.rebalance_deadline_ms = None
            self.cancel_timer(RevocationTimer(group.group_id, member_id))

    def end_consumer_session(self, group: Group, member_id: str) -> None:
        """Forget the deadlines of a member of a consumer group."""
        consumer = group.consumer
        session = None if consumer is None else consumer.sessions.pop(member_id, None)
        if session is not None:
            self.cancel_timer(MemberTimer(group.group_id, member_id))
            if session.rebalance_deadline_ms is not None:
                self.cancel_timer(RevocationTimer(group.group_id, member_id))

    def after_writes(self, group: Group, done: Done) -> None:
        """Run ``done`` when what a consumer group has written is committed; at once if that is all."""
        newest = (write for write in reversed(self.writes.values()) if write.group is group)
        write = next(newest, None) if group.writes_in_flight else None
        if write is None:
            done(ErrorCode.NONE)
        elif write.done is None:
            done(ErrorCode.REQUEST_TIMED_OUT)
        else:
            write.followers.append(done)

    def _undo(self, failed: PendingWrite) -> None:
        """A write has failed: rows of a consumer group, which are applied when they are written, are taken back."""
        group = failed.group
        if group.consumer is not None and any(isinstance(record, ConsumerGroupRecord) for record in failed.records):
            others = (record for write in self.writes.values() if write.group is group for record in write.records)
            group.consumer.rebuild(record for record in others if isinstance(record, ConsumerGroupRecord))
            self.match_sessions(group)
            self.match_revocations(group, group.consumer)
            self.weigh(group)
        if failed.undo is not None:
            failed.undo()

    # writes

    def write(
        self,
        group: Group,
        records: Iterable[GroupRecord],
        done: Done,
        producer: ProducerIdentity | None = None,
        undo: Callable[[], None] | None = None,
        followers: list[Done] | None = None,
    ) -> None:
        """Append `records` of `group`; `done` runs when they are committed and replayed, or when the append failed.

        Rows of a consumer group are applied already. ``producer``: they belong to its transaction. ``undo`` runs before
        ``done`` if they were not appended; ``followers`` run after it.
        """
        producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
        write = PendingWrite(group, tuple(records), done, producer_id, undo, [] if followers is None else followers)
        encoded = tuple(record.encode() for record in write.records)
        write.size = sum(len(key) + len(value or b"") + RECORD_BYTES for key, value in encoded)
        if self._has_too_much_in_flight(write.size):
            self._undo(write)
            write.finish(ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        self._count_in_flight(write.size)
        self.weigh(group)
        write_id, self._next_write_id = self._next_write_id, self._next_write_id + 1
        self.writes[write_id] = write
        group.writes_in_flight += 1
        group.offsets_in_flight.update(write.partitions)
        if producer is not None:
            self._transaction_of(producer_id).records += len(write.records)
        self._effects.append(Write(write_id, encoded, producer))
        self.set_timer(WriteTimer(write_id), self.now_ms + self.settings.offsets_commit_timeout_ms)

    def finish_write(self, write_id: int, error: ErrorCode) -> None:
        """A write is committed or failed: replay its records in the first case, then run `done`."""
        write = self.writes.pop(write_id)
        self._count_in_flight(-write.size)
        if error is ErrorCode.NONE:
            for record in write.records:
                self.replay(record, producer_id=write.producer_id)
        else:
            self._undo(write)
            if write.producer_id in self.open_transactions:
                self._take_back(write.producer_id, len(write.records))
        write.group.writes_in_flight -= 1
        write.group.land(write.partitions)
        if write.done is not None:
            self.cancel_timer(WriteTimer(write_id))
            write.finish(error)
        self.maybe_forget(write.group)

    def _has_too_much_in_flight(self, more_bytes: int) -> bool:
        is_too_large = self._in_flight_bytes + more_bytes > self.settings.bytes_in_flight_max
        return bool(self.writes and is_too_large) or len(self.writes) >= self.settings.writes_in_flight_max

    def _count_in_flight(self, more_bytes: int) -> None:
        self._in_flight_bytes += more_bytes
        self.offsets_memory.held_bytes += more_bytes

    def forget_writes(self) -> None:
        """Their fate is decided elsewhere."""
        self._count_in_flight(-self._in_flight_bytes)
        self.writes.clear()

    def time_out_write(self, write_id: int) -> None:
        """Stop waiting for a write. It stays pending: its records are in the log, and are replayed once committed."""
        write = self.writes.get(write_id)
        if write is not None and write.done is not None:
            write.finish(ErrorCode.REQUEST_TIMED_OUT)

    def writes_by_group(self) -> dict[str, list[PendingWrite]]:
        """What each group has written that is not committed yet, in the order of the log. There may be thousands."""
        found: dict[str, list[PendingWrite]] = {}
        for write in self.writes.values():
            found.setdefault(write.group.group_id, []).append(write)
        return found

    def _transaction_of(self, producer_id: int) -> OpenTransaction:
        return self.open_transactions.setdefault(producer_id, OpenTransaction())

    def _take_back(self, producer_id: int, records: int) -> None:
        transaction = self.open_transactions[producer_id]
        transaction.records = max(0, transaction.records - records)
        if not transaction.records and not transaction.groups:
            del self.open_transactions[producer_id]

    def is_of_deleted_topic(self, topic: str, value: OffsetCommitValue) -> bool:
        """True for an offset of a deleted topic, or of an earlier topic of the same name.

        The image behind `topic_id_of` is never older than that of the broker that took the commit: a new coordinator's
        epoch comes later in the metadata log (docs/internals/groups.md).
        """
        topic_id = self.topic_id_of(topic)
        return topic_id is None or value.topic_id not in (topic_id, ZERO_TOPIC_ID)

    # replay: the only way that what is persisted changes

    def replay(self, record: GroupRecord, wall_now_ms: int | None = None, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a committed record; with a producer id, one of its open transaction.

        A record that was just committed has age 0. The age of a record read from the log is `wall_now_ms` less its
        timestamp: the only use of the wall clock. From then on ages grow by the monotonic clock, so a jump of the wall
        clock expires nothing.
        """
        group = self.group_or_new(record.group_id)
        if isinstance(record, ConsumerGroupRecord):
            self._replay_row(group, record, is_applied=wall_now_ms is None)
        elif isinstance(record, GroupMetadataRecord):
            group.persisted = record.value
            members = () if record.value is None else record.value.members
            group.assignments_bytes = assignments_size(member.assignment for member in members)
        else:
            self._replay_offset(group, record, wall_now_ms, producer_id)
        self.maybe_forget(group)

    def _replay_row(self, group: Group, record: ConsumerGroupRecord, *, is_applied: bool) -> None:
        consumer = group.consumer = group.consumer or ConsumerGroup(group.group_id)
        if not is_applied:
            consumer.apply(record)
        consumer.commit(record)
        if consumer.is_bare and not group.writes_in_flight:
            group.consumer = None

    def _replay_offset(
        self, group: Group, record: OffsetCommitRecord, wall_now_ms: int | None, producer_id: int
    ) -> None:
        partition = record.partition
        if record.value is None:
            group.remove_offset(partition)
            for gone in group.pending.remove(partition):
                del self.open_transactions[gone].groups[group.group_id]
            return
        record.value.topic_id = self._topic_ids.setdefault(record.value.topic_id, record.value.topic_id)
        age_ms = 0 if wall_now_ms is None else max(0, wall_now_ms - record.value.commit_timestamp)
        offset = CommittedOffset(record.value, self.now_ms - age_ms)
        if producer_id == NO_PRODUCER_ID:
            group.set_offset(partition, offset)
            group.pending.overtake(partition)
        else:
            group.pending.add(producer_id, partition, offset)
            transaction = self._transaction_of(producer_id)
            transaction.groups[group.group_id] = None
            transaction.records += wall_now_ms is not None  # others were counted when they were written
