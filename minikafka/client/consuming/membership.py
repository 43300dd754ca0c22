"""A consumer's side of the classic group protocol: join, sync, heartbeat, hand back, leave (KIP-62, KIP-345).

One task repeats three phases: *join and sync* (the coordinator gathers the members; the group's leader assigns the
partitions), *stay* (heartbeats, until the group rebalances), *hand back* (the user finishes the returned records, and
offsets are committed while the old generation is still valid).

A coordinator that dies or moves does not end a generation: heartbeats go on with the next coordinator. If the
coordinator no longer knows this member, its partitions are *lost*: they may belong to another member already. Offsets
are stored in the generation in which they were read, or not at all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from minikafka.client.backoff import RETRY_BACKOFF
from minikafka.client.connections import Connections
from minikafka.client.consuming.assignments import read_assignment, subscriber, write_assignment
from minikafka.client.consuming.coordinator import NO_GENERATION, Coordinator
from minikafka.client.consuming.holdings import Holdings
from minikafka.client.errors import CommitFailedError
from minikafka.client.metadata import Metadata
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.assignors import ASSIGNORS
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.wire.consumer_protocol import PROTOCOL_TYPE, encode_subscription
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from minikafka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from minikafka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

LEAVE_TIMEOUT_S: Final = 2.0
OFFERED: Final = ("range", "roundrobin")  # eager assignors: they assign all partitions again, after all are handed back
REBALANCE_MARGIN_S: Final = 5.0  # in addition to the rebalance timeout of the coordinator
_JOIN_AGAIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)


_THROWN_OUT: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


class Generation(NamedTuple):
    """One generation of the group, with this member's assignment."""

    id: int
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Times of a membership; see :class:`~minikafka.client.consumer.Consumer`."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    group_instance_id: str | None


@dataclass(eq=False)
class Membership:
    """Keeps this consumer in its group. A permanent KafkaError ends the task, and so reaches the user."""

    _connections: Connections
    _metadata: Metadata
    _coordinator: Coordinator
    _tasks: TaskOwner
    _rng: random.Random
    _settings: MemberSettings
    _holdings: Holdings
    _topics: tuple[str, ...] = field(default=(), init=False)
    _counts: dict[str, int] = field(default_factory=dict, init=False)
    """Of the partitions that this member, as leader, divided."""
    _change: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """The subscription, or what there is to divide."""
    _task: asyncio.Task[None] | None = field(default=None, init=False)
    _member_id: str = field(default="", init=False)
    _generation_id: int = field(default=NO_GENERATION, init=False)

    @property
    def is_member(self) -> bool:
        """True while this consumer has an assignment in a generation that is valid, as far as it knows."""
        return self._generation_id != NO_GENERATION

    @property
    def generation(self) -> Generation | None:
        """The present generation, as far as this consumer knows."""
        return Generation(self._generation_id, self._member_id) if self.is_member else None

    def subscribe(self, topics: Collection[str]) -> None:
        """Join, or join again, for these topics."""
        self._topics = tuple(sorted(set(topics)))
        self._change.set()
        if self._task is None:
            self._task = self._tasks.start(self._run(), "membership")

    def on_metadata(self) -> None:
        """The group's leader starts a rebalance when a topic has new partitions."""
        if self._counts and self._counts != self._count_partitions(self._counts):
            self._counts = {}
            self._change.set()

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndEpoch], generation: Generation) -> None:
        """Store offsets in that generation. Raises CommitFailedError once this member is in another one, or in none."""
        if generation != self.generation:
            why = f"generation {generation.id} of these records has ended"
            raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, self._coordinator.group_id, why)
        try:
            await self._coordinator.commit(
                offsets,
                generation_id=generation.id,
                member_id=generation.member_id,
                group_instance_id=self._settings.group_instance_id,
            )
        except KafkaError as error:
            if error.code not in _THROWN_OUT:
                raise
            why = f"the coordinator does not know this member in generation {generation.id}"
            raise CommitFailedError(error.code, self._coordinator.group_id, why) from error

    async def leave(self) -> None:
        """End the membership and tell the coordinator, so that other members get the partitions at once.

        Best effort: the session ends anyway. A static member does not tell it, because it is expected back (KIP-345).
        """
        if self._task is not None:
            self._task.cancel()
        if self._settings.group_instance_id is None:
            await self._leave("the consumer is closed")

    # -- round ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._join_and_sync()
                failures = 0
                await self._stay()
                await self._hand_back()
            except KafkaError as error:
                self._on_refusal(error)
                failures += 1
                await asyncio.sleep(RETRY_BACKOFF.delay_s(failures, self._rng))

    def _on_refusal(self, error: KafkaError) -> None:
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if self.is_member:
            self._generation_id = NO_GENERATION
            self._holdings.lost()
        if not (error.retriable or error.code in _JOIN_AGAIN):
            raise error

    # -- join and sync ----------------------------------------------------------------------------------------------

    async def _join_and_sync(self) -> None:
        self._change.clear()
        joined = await self._join()
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = await self._join()
        self._coordinator.check(joined.error_code, "joining")
        self._counts = {}
        request = SyncGroupRequest(
            group_id=self._coordinator.group_id,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=await self._divide(joined) if joined.leader == joined.member_id else [],
        )
        answer = await self._coordinator.call(request, SyncGroupResponse, purpose="join", timeout_s=self._patience_s)
        self._coordinator.check(answer.error_code, "syncing")
        self._generation_id = joined.generation_id
        self._holdings.assign(read_assignment(answer.assignment))

    async def _join(self) -> JoinGroupResponse:
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=list(self._topics)))
        request = JoinGroupRequest(
            group_id=self._coordinator.group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription) for name in OFFERED],
        )
        answer = await self._coordinator.call(request, JoinGroupResponse, purpose="join", timeout_s=self._patience_s)
        if answer.member_id:
            self._member_id = answer.member_id
        return answer

    async def _divide(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """What the leader assigns: nothing when it is back as a static member, to watch the topics (KIP-814)."""
        if joined.protocol_name not in OFFERED:
            message = f"the group chose the assignor {joined.protocol_name!r}, which this consumer did not offer"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
        members = [subscriber(member) for member in joined.members]
        topics = sorted({topic for member in members for topic in member.topics})
        self._metadata.topics.update(topics)
        await self._connections.refresh(topics)
        self._counts = self._count_partitions(topics)
        if joined.skip_assignment:
            return []
        known = {topic: count for topic, count in self._counts.items() if count}
        shares = ASSIGNORS[joined.protocol_name](members, known)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=write_assignment(share))
            for member_id, share in shares.items()
        ]

    def _count_partitions(self, topics: Collection[str]) -> dict[str, int]:
        cluster = self._connections.cluster
        return {topic: len(cluster.partitions_of(topic)) for topic in topics}

    @property
    def _patience_s(self) -> float:
        return self._settings.rebalance_timeout_ms / 1000 + REBALANCE_MARGIN_S

    # -- stay and hand back -----------------------------------------------------------------------------------------

    async def _stay(self) -> None:
        """Send heartbeats until it is time to join again. KafkaError when this member was removed."""
        while not self._change.is_set():
            await self._pause()
            if self._holdings.is_overdue():
                await self._stand_aside()
                return
            if await self._heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
                return

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._settings.heartbeat_interval_ms / 1000):
                await self._change.wait()
        except TimeoutError:
            pass

    async def _heartbeat(self) -> ErrorCode:
        """Error code of a heartbeat; NONE also for an unreachable coordinator, which does not end a generation."""
        request = HeartbeatRequest(
            group_id=self._coordinator.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        timeout_s = self._settings.session_timeout_ms / 1000
        try:
            answer = await self._coordinator.call(request, HeartbeatResponse, timeout_s=timeout_s)
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return ErrorCode.REBALANCE_IN_PROGRESS
            self._coordinator.check(answer.error_code, "sending a heartbeat")
        except KafkaError as error:
            if not error.retriable:
                raise
        return ErrorCode.NONE

    async def _stand_aside(self) -> None:
        """The user does not poll: leave the group, and join again at its next call."""
        self._holdings.lost()  # first: once the group hears of it, another member reads them
        await self._leave("no poll within max_poll_interval_ms")
        await self._holdings.wait_for_user()

    async def _hand_back(self) -> None:
        """Give up the partitions, with heartbeats while the user finishes, and commit what it finished."""
        if not self.is_member:
            return
        handing_back = self._holdings.hand_back()
        while not handing_back.done():
            await asyncio.wait((handing_back,), timeout=self._settings.heartbeat_interval_ms / 1000)
            if self._holdings.is_overdue():
                await self._stand_aside()
                return
            if not handing_back.done():
                await self._heartbeat()
        await self._commit_last(handing_back.result())
        self._generation_id = NO_GENERATION

    async def _commit_last(self, offsets: Mapping[TopicPartition, OffsetAndEpoch]) -> None:
        """Commit once more. Failures are ignored: the next owner begins at the last commit."""
        generation = self.generation
        if offsets and generation is not None:
            try:
                await self.commit(offsets, generation)
            except KafkaError:
                return

    async def _leave(self, reason: str) -> None:
        self._generation_id = NO_GENERATION
        member_id, self._member_id = self._member_id, ""
        if not member_id:
            return
        request = LeaveGroupRequest(
            group_id=self._coordinator.group_id,
            member_id=member_id,
            members=[
                MemberIdentity(member_id=member_id, group_instance_id=self._settings.group_instance_id, reason=reason)
            ],
        )
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self._coordinator.call(request, LeaveGroupResponse, timeout_s=LEAVE_TIMEOUT_S)
        except (KafkaError, TimeoutError):
            return
