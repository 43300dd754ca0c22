"""The coordinator of the groups of one partition of ``__consumer_offsets``: a pure machine.

Its life::

    Loading  --finish_loading, a few times-->  Active  --resign-->  Resigned
    Loading  -------------------------------------------resign-->  Resigned

While Loading, the driver replays the partition from its start (or what compaction left of it) to the high watermark;
then the groups are restored, some at a time, so that a large shard does not block the loop. While Active, requests,
timers and outcomes of writes go in, and effects come out, to be carried out in order. Before, it answers
COORDINATOR_LOAD_IN_PROGRESS; once Resigned, NOT_COORDINATOR. A driver that leads again makes a new coordinator.

Not every client knows COORDINATOR_LOAD_IN_PROGRESS everywhere; aiokafka gives up for good. So while Loading, as Apache
Kafka does, a Heartbeat is good (no session ends then), and a SyncGroup is told to join again: the rebalance is lost.

What holds at the end of every step (the tests check it after each):

- An accepted request is answered exactly once, or parked in a group or a write.
- Persisted state changes only by replay of committed records and markers. So a coordinator that replays the log has
  equal generations, members, assignments, offsets and pending offsets.
- No assignment and no acknowledgement of an offset is given out before its record is committed.
- A group has one current generation, all its assignments come from one SyncGroup of that generation's leader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Concatenate, ParamSpec
from uuid import UUID

from minikafka.coordination.effects import Respond, Token
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.groups import (
    commits,
    deletion,
    joining,
    loading,
    membership,
    queries,
    syncing,
    transactional_offsets,
)
from minikafka.groups.answers import commit_answer, txn_commit_answer
from minikafka.groups.consumer import heartbeat, leaving, regexes, target
from minikafka.groups.consumer.queries import describe_consumer_group
from minikafka.groups.consumer.question import AssignmentQuestion, Targets
from minikafka.groups.consumer.topics import NoTopics, Topics
from minikafka.groups.effects import Effect
from minikafka.groups.joins import Caller, Join
from minikafka.groups.memory import Memory
from minikafka.groups.rebalance import on_phase_timer
from minikafka.groups.records import decode_record
from minikafka.groups.settings import ConsumerTimes, CoordinatorSettings
from minikafka.groups.shard import Shard
from minikafka.groups.timers import (
    MemberTimer,
    RebalanceTimer,
    RetentionTimer,
    RevocationTimer,
    TimerKey,
    WriteTimer,
)
from minikafka.model import NO_PRODUCER_ID
from minikafka.wire.messages.consumer_group_describe import DescribedConsumerGroup
from minikafka.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.wire.messages.delete_groups import DeletableGroupResult
from minikafka.wire.messages.describe_groups import DescribedGroup
from minikafka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from minikafka.wire.messages.list_groups import ListedGroup
from minikafka.wire.messages.offset_commit import OffsetCommitRequest
from minikafka.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from minikafka.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from minikafka.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from minikafka.wire.schema import Buffer

P = ParamSpec("P")


class GroupCoordinator:
    """One shard of the group coordinator. `now_ms` is monotonic everywhere; requests are the wire's own.

    `new_member_suffix` makes the part of a member id after the client id (a random UUID). `wall_clock_ms` stamps
    records; how old such stamps are is seen by `age_clock_ms`, or by the same. `topic_id_of` looks a topic up in the
    metadata; None for an unknown one. `topics` has what assignors need. `times_of` has what is set for a group, which
    counts from the next heartbeat on; else `settings` go for all. `memory`, of members, and
    `offsets_memory` are those of all shards of the node.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        new_member_suffix: Callable[[], str],
        wall_clock_ms: Callable[[], int],
        topic_id_of: Callable[[str], UUID | None],
        topics: Topics | None = None,
        times_of: Callable[[str], ConsumerTimes] | None = None,
        age_clock_ms: Callable[[], int] | None = None,
        memory: Memory | None = None,
        offsets_memory: Memory | None = None,
    ) -> None:
        times = ConsumerTimes(
            settings.consumer_session_timeout_ms,
            settings.consumer_heartbeat_interval_ms,
            settings.consumer_assignment_interval_ms,
        )
        self.phase = Phase.LOADING
        self.shard = Shard(
            settings,
            new_member_suffix,
            wall_clock_ms,
            topic_id_of,
            times_of or (lambda _group_id: times),
            topics or NoTopics(),
            age_clock_ms or wall_clock_ms,
            memory or Memory(),
            offsets_memory or Memory(),
        )
        self._is_replayed = False

    # the life of a shard

    def replay(self, key: Buffer, value: Buffer | None, now_ms: int, producer_id: int = NO_PRODUCER_ID) -> bool:
        """Apply a record read from the log, in order; False for an unknown type. Raises WireError.

        ``producer_id``: whose transaction it belongs to.
        """
        assert self.phase is Phase.LOADING
        assert not self._is_replayed
        record = decode_record(key, value)
        if record is None:
            return False
        self.shard.now_ms = now_ms
        self.shard.replay(record, self.shard.age_clock_ms(), producer_id)
        return True

    def finish_loading(self, now_ms: int) -> list[Effect]:
        """The log is replayed and committed. Call it until the shard is Active: then requests are served."""
        assert self.phase is Phase.LOADING
        if not self._is_replayed:
            self._is_replayed = True
            self._step(now_ms, loading.begin_restoring)
        effects = self._step(now_ms, loading.restore_some)
        if not self.shard.unrestored:
            self.phase = Phase.ACTIVE
        return effects

    def resign(self, now_ms: int) -> list[Effect]:
        """Another broker leads the partition: answer all parked requests, and ignore outcomes of writes from now on."""
        self.phase = Phase.RESIGNED
        return self._step(now_ms, loading.resign)

    def on_committed(self, write_id: int, now_ms: int) -> list[Effect]:
        """The records of a Write are below the high watermark. Call it in the order of the log."""
        return self._fate(write_id, ErrorCode.NONE, now_ms)

    def on_marker(self, producer_id: int, now_ms: int, *, commits: bool) -> list[Effect]:
        """The marker that ends a producer's transaction is below the high watermark, or is read from the log.

        Call it in the order of the log, also while the shard is loaded.
        """
        match self.phase:
            case Phase.LOADING:  # what was deleted is looked for at the end
                self.shard.now_ms = now_ms
                transactional_offsets.end_transaction(self.shard, producer_id, commits=commits)
            case Phase.ACTIVE:
                return self._step(now_ms, transactional_offsets.on_marker, producer_id, commits=commits)
        return []

    def on_write_failed(self, write_id: int, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The records of a Write were not appended."""
        assert error is not ErrorCode.NONE
        return self._fate(write_id, error, now_ms)

    def on_timer(self, key: TimerKey, now_ms: int) -> list[Effect]:
        """A timer fired. A cancelled or replaced one has no effect."""
        return self._step(now_ms, _on_timer, key) if self._is_alive else []

    def _fate(self, write_id: int, error: ErrorCode, now_ms: int) -> list[Effect]:
        return self._step(now_ms, Shard.finish_write, write_id, error) if self._is_alive else []

    @property
    def _is_alive(self) -> bool:
        """False before the log is replayed and after resigning; sessions run and end while groups are restored."""
        return self._is_replayed and self.phase is not Phase.RESIGNED

    def _step(
        self, now_ms: int, act: Callable[Concatenate[Shard, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> list[Effect]:
        self.shard.now_ms = now_ms
        act(self.shard, *args, **kwargs)
        return self.shard.take_effects()

    def _refusal(self, group_id: str) -> ErrorCode:
        """The error for requests of this group, or NONE."""
        return self.phase.value if group_id else ErrorCode.INVALID_GROUP_ID

    # requests that are answered by a Respond effect, now or later

    def join_group(self, request: JoinGroupRequest, caller: Caller, token: Token, now_ms: int) -> list[Effect]:
        """JoinGroup 0-9; the answer may wait for the end of the joining phase."""
        if error := self._refusal(request.group_id):
            return [Respond(token, JoinGroupResponse(error_code=error, member_id=request.member_id))]
        return self._step(now_ms, joining.join_group, Join(request, caller, token))

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, token: Token, now_ms: int
    ) -> list[Effect]:
        """ConsumerGroupHeartbeat 0-1; the handler has checked the regular expression."""
        if error := self._refusal(request.group_id):
            return [Respond(token, ConsumerGroupHeartbeatResponse(error_code=error))]
        return self._step(now_ms, heartbeat.consumer_group_heartbeat, heartbeat.Beat(request, caller, token))

    def sync_group(self, request: SyncGroupRequest, token: Token, now_ms: int) -> list[Effect]:
        """SyncGroup 0-5; the answer may wait until the leader's assignment is committed."""
        if error := self._refusal(request.group_id):
            told = ErrorCode.REBALANCE_IN_PROGRESS if error is Phase.LOADING.value else error
            return [Respond(token, SyncGroupResponse(error_code=told))]
        return self._step(now_ms, syncing.sync_group, request, token)

    def heartbeat(self, request: HeartbeatRequest, token: Token, now_ms: int) -> list[Effect]:
        """Heartbeat 0-4."""
        if error := self._refusal(request.group_id):
            told = ErrorCode.NONE if error is Phase.LOADING.value else error
            return [Respond(token, HeartbeatResponse(error_code=told))]
        return self._step(now_ms, membership.heartbeat, request, token)

    def leave_group(self, request: LeaveGroupRequest, version: int, token: Token, now_ms: int) -> list[Effect]:
        """LeaveGroup 0-5."""
        if error := self._refusal(request.group_id):
            return [Respond(token, LeaveGroupResponse(error_code=error))]
        return self._step(now_ms, membership.leave_group, request, version, token)

    def offset_commit(self, request: OffsetCommitRequest, version: int, token: Token, now_ms: int) -> list[Effect]:
        """OffsetCommit 2-10; the handler has checked the topics. The answer waits for the commit."""
        if error := self._refusal(request.group_id):
            return [Respond(token, commit_answer(request, error))]
        return self._step(now_ms, commits.offset_commit, request, version, token)

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, version: int, token: Token, now_ms: int
    ) -> list[Effect]:
        """TxnOffsetCommit 0-6; the handler has checked topics and transaction. The answer waits for the commit."""
        if error := self._refusal(request.group_id):
            return [Respond(token, txn_commit_answer(request, error))]
        return self._step(now_ms, transactional_offsets.txn_offset_commit, request, version, token)

    def offset_delete(self, request: OffsetDeleteRequest, token: Token, now_ms: int) -> list[Effect]:
        """OffsetDelete 0."""
        if error := self._refusal(request.group_id):
            return [Respond(token, OffsetDeleteResponse(error_code=error))]
        return self._step(now_ms, commits.offset_delete, request, token)

    def delete_group(self, group_id: str, token: Token, now_ms: int) -> list[Effect]:
        """One group of a DeleteGroups 0-2; the response is a DeletableGroupResult."""
        if error := self._refusal(group_id):
            return [Respond(token, DeletableGroupResult(group_id=group_id, error_code=error))]
        return self._step(now_ms, deletion.delete_group, group_id, token)

    def on_topics_deleted(self, now_ms: int) -> list[Effect]:
        """Topics were deleted: delete their offsets. A shard that loads does so once it is Active."""
        return self._step(now_ms, deletion.look_for_deleted_topics) if self.phase is Phase.ACTIVE else []

    def on_topics_changed(self) -> None:
        """Topics came, went, or have other partitions or racks: consumer groups look at them with their next heartbeat.

        Call it once the look-ups have them.
        """
        self.shard.on_topics_changed()

    def on_regexes_resolved(
        self, group_id: str, topics: Mapping[str, tuple[str, ...]], version: int, now_ms: int
    ) -> list[Effect]:
        """The answer to a ResolveRegexes: by expression, the names of the topics that it matches."""
        if self.phase is not Phase.ACTIVE:
            return []
        return self._step(now_ms, regexes.on_resolved, group_id, topics, version)

    def on_assigned(self, question: AssignmentQuestion, targets: Targets, now_ms: int) -> list[Effect]:
        """The answer to a MakeAssignment."""
        if self.phase is not Phase.ACTIVE:
            return []
        return self._step(now_ms, target.on_assigned, question, targets)

    # queries, answered at once; a request may name groups of several shards

    def fetch_offsets(
        self, group: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> OffsetFetchResponseGroup:
        """One group of an OffsetFetch 8-10 (for 1-7 see :mod:`minikafka.groups.offset_fetch`)."""
        if error := self._refusal(group.group_id):
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)
        return commits.fetch_offsets(self.shard, group, require_stable=require_stable)

    def list_groups(
        self, states: Collection[str] = queries.ALL_STATES, types: Collection[str] = queries.ALL_TYPES
    ) -> Iterator[ListedGroup | None]:
        """This shard's part of a ListGroups 0-5, None for each group that is not; nothing unless Active (:attr:`phase`
        tells the error)."""
        if self.phase is not Phase.ACTIVE:
            return iter(())
        return queries.list_groups(self.shard, states, types)

    def describe_group(self, group_id: str) -> DescribedGroup:
        """One group of a DescribeGroups 0-6; an unknown one is Dead, without an error."""
        if self.phase is not Phase.ACTIVE:
            return DescribedGroup(group_id=group_id, error_code=self.phase.value)
        return queries.describe_group(self.shard, group_id)

    def size_of(self, group_id: str) -> int:
        """Members of a group, and topics of a consumer group: what a member changes has the coordinator look at all of
        them. The record of a classic group has all its members."""
        group = self.shard.groups.get(group_id)
        if group is None:
            return 0
        consumer = group.consumer
        of_consumer = 0 if consumer is None else len(consumer.subscriptions) + len(consumer.subscribed.topics)
        return len(group.members) + of_consumer

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """One group of a ConsumerGroupDescribe 0-1; GROUP_ID_NOT_FOUND also for a classic one."""
        if error := self._refusal(group_id):
            return DescribedConsumerGroup(group_id=group_id, error_code=error)
        return describe_consumer_group(self.shard, group_id)


def _on_timer(shard: Shard, key: TimerKey) -> None:
    match key:
        case MemberTimer(group_id, member_id):
            group = shard.groups.get(group_id)
            if group is not None and group.consumer is not None and member_id in group.consumer.sessions:
                leaving.on_session_timer(shard, group, group.consumer, member_id)
            elif group is not None:
                membership.on_member_timer(shard, group, member_id)
        case RevocationTimer(group_id, member_id):
            group = shard.groups.get(group_id)
            if group is not None and group.consumer is not None:
                leaving.on_revocation_timer(shard, group, group.consumer, member_id)
        case RebalanceTimer(group_id):
            if group_id in shard.groups:
                on_phase_timer(shard, shard.groups[group_id])
        case WriteTimer(write_id):
            shard.time_out_write(write_id)
        case RetentionTimer():
            deletion.sweep(shard)
