"""The scene "consumer groups": members of the newer protocol (KIP-848), which come, go, die and are paused.

Our own client does not speak that protocol. A *sharer* does what Java's client does: it heartbeats all the time, beside
its work; it tells all of itself when it joins and after an error, and later only what has changed; before it gives
partitions up it commits, and then says at once what it has; it looks up committed offsets before it reads; and when it
was thrown out it gives up all, and joins again. Each *seat* has one life after another. A life ends by SIGKILL, in
order, or by a pause that is longer than its session, in which the next life begins. Some seats have an instance id.

:class:`~sim_owners.Owners` judges what they see. In the end every partition has exactly one user, and everything that
was acknowledged was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from sim_cluster import SimulatedCluster
from sim_invariants import InvariantViolatedError
from sim_owners import At, Owners
from sim_workload import BACKOFF_S, NOISE, Workload, patiently
from simulator.loop import Process

from minikafka.client import Consumer
from minikafka.client.connections import Connections
from minikafka.client.consuming.coordinator import MAX_VERSION_BY_NAME, Coordinator
from minikafka.client.consuming.queries import commit_topics, indexes_by_topic
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from minikafka.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

GROUP: Final = "sharers"
SEATS: Final = ("sharer-a", "sharer-b", "sharer-c")
CHURN: Final = "churn-.*"
MEAN_LIFE_S: Final = 6.0
HEARTBEAT_MS: Final = 500
COMMIT_S: Final = 0.5
REBALANCE_MS: Final = (3_000, 30_000)
CALL_S: Final = 5.0
NODE_SETTINGS: Final[dict[str, object]] = {
    "group.consumer.session.timeout.ms": 4_000,
    "group.consumer.min.session.timeout.ms": 4_000,
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.min.heartbeat.interval.ms": HEARTBEAT_MS,
}
THROWN_OUT: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
NOT_WRITTEN: Final = (
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""A commit that gets one of these changes nothing."""


class Sharing:
    """All of them."""

    def __init__(self, cluster: SimulatedCluster, workload: Workload) -> None:
        self._cluster = cluster
        self._workload = workload
        self._rng = workload.rng()
        self.owners = Owners(lambda: cluster.simulator.now)
        self.read: set[tuple[str, int]] = set()
        """What members read, as (partition, offset)."""
        self.wrong: InvariantViolatedError | None = None
        self._lives: dict[str, list[Process]] = {}
        self._members: dict[Process, Sharer] = {}
        self._instances = {seat: seat if self._rng.random() < 0.4 else None for seat in SEATS}
        self._made = 0

    # -- lives --------------------------------------------------------------------------------------------------------

    def begin(self) -> list[asyncio.Task[None]]:
        """What goes on until it is cancelled."""
        supervisor = self._workload.process("supervisor-of-sharers")
        return [supervisor.spawn(self._supervise(seat)) for seat in SEATS]

    async def _supervise(self, seat: str) -> None:
        """Let one life follow another, until cancelled. The last one goes on."""
        rng = self._rng
        while True:
            self._begin_life(seat)
            await asyncio.sleep(rng.expovariate(1 / MEAN_LIFE_S))
            process = self._lives[seat][-1]
            match rng.choice(("killed", "leaves", "leaves", "paused", "paused and replaced")):
                case "killed":
                    self._kill(process)
                case "leaves":
                    self._members[process].is_leaving = True
                    await asyncio.sleep(rng.choice((0.0, 1.0, 6.0)))
                case "paused":
                    self._pause(process, 8.0 * rng.random())
                    await asyncio.sleep(rng.expovariate(1 / MEAN_LIFE_S))
                    self._kill(process)
                case _:
                    self._pause(process, 8.0 * rng.random())

    def _begin_life(self, seat: str) -> None:
        self._made += 1
        name = f"{seat}.{self._made}"
        process = self._workload.process(name)
        self._lives.setdefault(seat, []).append(process)
        member = self._members[process] = Sharer(self._cluster, self._workload, self, name, self._instances[seat])
        process.spawn(member.run())

    def _pause(self, process: Process, seconds: float) -> None:
        self._cluster.say(process.host, f"is paused for {seconds:.1f} s")
        process.pause()
        self._cluster.simulator.after(seconds, lambda _: process.resume())

    def _kill(self, process: Process) -> None:
        if process.is_alive:
            self._cluster.say(process.host, "is killed")
            if process.unhandled:
                raise InvariantViolatedError(f"{process.host}: unhandled {process.unhandled[0]!r}")
            process.kill()
            self.owners.lose(self._members[process].member_id)

    def end_zombies(self) -> None:
        """Of each seat the last one is left; if that has left, another one comes."""
        for seat, processes in self._lives.items():
            for process in processes[:-1]:
                self._kill(process)
            processes[-1].resume()
            if self._members[processes[-1]].is_leaving or not processes[-1].is_alive:
                self._begin_life(seat)

    # -- judgement ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """InvariantViolatedError when something was granted that must not be, or nothing was granted at all."""
        if self.wrong is not None:
            raise self.wrong
        if not self.owners.given or not self.owners.commits:
            raise InvariantViolatedError("no member of the group was given partitions, or none committed an offset")

    def is_shared_out(self) -> bool:
        """Every partition of the group's topics has one user, and none has more."""
        wanted = self._wanted()
        return self.owners.has_users() == wanted and all(len(self.owners.users(at)) == 1 for at in wanted)

    def _wanted(self) -> set[At]:
        topics = {topic.name for topic in self._image.topics()}
        names = topics & {tp.topic for tp in self._workload.partitions}
        if any(self._members[processes[-1]].regex for processes in self._lives.values()):
            names |= {name for name in topics if name.startswith("churn-")}
        found = [self._image.topic(name) for name in sorted(names)]
        return {(topic.topic_id, number) for topic in found if topic for number in range(len(topic.partitions))}

    @property
    def _image(self):
        return max((node.image for _, node in self._cluster.nodes()), key=lambda image: image.offset)

    def state(self) -> str:
        """Who has what, for a report."""
        lines = [f"{at[1]} of {at[0]}: {self.owners.users(at)}" for at in sorted(self._wanted(), key=str)]
        return "\n".join(("", *lines, *(each.state() for each in self._members.values() if each.is_alive)))

    def unread(self) -> set[tuple[str, int]]:
        """What was acknowledged, and read by no member."""
        return self._workload.unread(self.read)


class Sharer:
    """One life of a member."""

    def __init__(
        self, cluster: SimulatedCluster, workload: Workload, sharing: Sharing, name: str, instance_id: str | None
    ) -> None:
        rng = self._rng = workload.rng()
        self._cluster = cluster
        self._workload = workload
        self._sharing = sharing
        self._owners = sharing.owners
        self._name = name
        self.member_id = f"{name}-{rng.getrandbits(32):08x}"
        self._instance_id = instance_id
        self.regex = CHURN if rng.random() < 0.4 else None
        self._rebalance_ms = rng.choice(REBALANCE_MS)
        self.is_leaving = False
        self.is_alive = True
        self._epoch = 0
        self._joins = 0  # how often it has begun with nothing
        self._owned: frozenset[At] = frozenset()
        self._target: frozenset[At] | None = None  # told, and not yet taken up
        self._target_asked = 0.0  # when it sent what was answered with that
        self._told: frozenset[At] | None = None  # what it has said last; None: all of itself is to be said
        self._acks = False  # it has taken up what it was told
        self._soon = asyncio.Event()
        self._names: dict[UUID, str] = {}
        self._positions: dict[At, int] = {}
        self._committed: dict[At, int] = {}

    def state(self) -> str:
        """For a report."""
        return f"{self.member_id} in epoch {self._epoch} has {len(self._owned)}, target {self._target is not None}"

    async def run(self) -> None:
        """Until it is told to leave."""
        connections = Connections(self._cluster.bootstrap_servers, client_id=self._name, rng=self._workload.rng())
        self._coordinator = Coordinator(connections, GROUP)
        await patiently(self._look_up_topics, connections)
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(self._beat_for_ever())
            await self._work_for_ever()
            beating.cancel()
        await self._leave()
        self.is_alive = False
        await connections.close()

    async def _look_up_topics(self, connections: Connections) -> None:
        names = sorted({tp.topic for tp in self._workload.partitions})
        cluster = await connections.refresh(names)
        self._names = {cluster.topics[name].topic_id: name for name in names if cluster.topics[name].is_usable}
        if len(self._names) < len(names):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topics not known yet")

    # -- heartbeats ---------------------------------------------------------------------------------------------------

    async def _beat_for_ever(self) -> None:
        while True:
            sent, request = self._owners.now, self._heartbeat()
            try:
                answer = await self._coordinator.call(request, ConsumerGroupHeartbeatResponse, timeout_s=CALL_S)
                self._hear(request, answer, sent)
                self._coordinator.check(answer.error_code, "sending a heartbeat")
            except KafkaError as error:
                if error.code not in THROWN_OUT:
                    self._told = None
                    await asyncio.sleep(BACKOFF_S)
            except InvariantViolatedError as violation:
                self._sharing.wrong = self._sharing.wrong or violation
            try:
                async with asyncio.timeout(HEARTBEAT_MS / 1000 if self._epoch else 0.1):
                    await self._soon.wait()
            except TimeoutError:
                pass

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        self._soon.clear()
        is_full = self._told is None or self._epoch == 0
        says = is_full or self._acks or self._told != self._owned
        self._told, self._acks = self._owned, False
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self._epoch,
            instance_id=self._instance_id,
            rebalance_timeout_ms=self._rebalance_ms if is_full else -1,
            subscribed_topic_names=sorted(self._names.values()) if is_full else None,
            subscribed_topic_regex=self.regex if is_full else None,
            topic_partitions=_told(self._owned) if says else None,
        )

    def _hear(
        self, request: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse, sent: float
    ) -> None:
        error = ErrorCode.of(answer.error_code)
        if error in THROWN_OUT:
            self._cluster.say(self._name, f"is thrown out in epoch {self._epoch}: {error.name}")
            self._begin_anew()
        if error is not ErrorCode.NONE:
            return
        if request.member_epoch:
            self._owners.on_good_heartbeat(self.member_id, sent)
        if answer.member_epoch < self._epoch:
            raise InvariantViolatedError(f"{self.member_id} falls from epoch {self._epoch} to {answer.member_epoch}")
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self._target = frozenset((each.topic_id, index) for each in topics for index in each.partitions)
            self._target_asked = sent

    def _begin_anew(self) -> None:
        self._owners.lose(self.member_id)
        self._joins += 1
        self._epoch, self._owned, self._target, self._told = 0, frozenset(), None, None
        self._positions.clear()  # what a poll under way brings is not taken

    async def _leave(self) -> None:
        """Before, it has committed; it tries once, for a while."""
        self._owners.lose(self.member_id)
        epoch = -1 if self._instance_id is None else -2
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self._instance_id
        )
        try:
            await self._coordinator.call(request, ConsumerGroupHeartbeatResponse, timeout_s=CALL_S)
        except KafkaError as error:
            self._cluster.say(self._name, f"is gone without a word: {error}")

    # -- work ---------------------------------------------------------------------------------------------------------

    async def _work_for_ever(self) -> None:
        async with self._consumer() as consumer:
            committed_at = self._owners.now
            while not self.is_leaving:
                if self._target is not None and self._target != self._owned:
                    await self._take_up(consumer, self._target)
                elif self._target is not None:
                    self._target, self._acks = None, True
                    self._soon.set()
                consumer.assign(self._readable(self._owned & self._positions.keys()))
                await self._read(consumer)
                if self._owners.now > committed_at + COMMIT_S:
                    await self._commit()
                    committed_at = self._owners.now
            await self._commit()

    def _consumer(self) -> Consumer:
        bootstrap_servers, rng = self._cluster.bootstrap_servers, self._workload.rng()
        return Consumer(bootstrap_servers, client_id=self._name, auto_offset_reset="earliest", rng=rng)

    async def _take_up(self, consumer: Consumer, target: frozenset[At]) -> None:
        """Give up what is not in the target, say so, and begin with what is new. It may be thrown out meanwhile."""
        joins = self._joins
        if not self._owned <= target:
            await self._commit()
            if joins != self._joins:
                return
        gone, new = self._owned - target, target - self._owned
        self._owners.give_up(self.member_id, gone)
        for at in gone:
            self._positions.pop(at, None)
        self._owned &= target
        self._owners.take(self.member_id, sorted(new, key=str), self._target_asked)
        self._owned, self._acks = target, True
        if self._target == target:
            self._target = None
        self._soon.set()

    def _readable(self, partitions: Iterable[At]) -> list[TopicPartition]:
        return sorted(TopicPartition(self._names[id_], index) for id_, index in partitions if id_ in self._names)

    async def _read(self, consumer: Consumer) -> None:
        joins = self._joins
        unknown = [at for at in sorted(self._owned - self._positions.keys(), key=str) if at[0] in self._names]
        if unknown:
            await self._find_positions(consumer, unknown)
        try:
            records = await consumer.poll(timeout_ms=200)
        except KafkaError as error:
            self._cluster.say(self._name, f"cannot read: {error}")
            return
        by_name = {name: id_ for id_, name in self._names.items()}
        for record in records:
            at = by_name[record.topic], record.partition
            if joins == self._joins and at in self._owned:
                self._positions[at] = record.offset + 1
                if record.key != NOISE:
                    self._sharing.read.add((f"{record.topic}-{record.partition}", record.offset))

    async def _find_positions(self, consumer: Consumer, unknown: list[At]) -> None:
        joins, epoch = self._joins, self._epoch
        try:
            found = await self._fetch(unknown, epoch)
        except KafkaError:
            await asyncio.sleep(BACKOFF_S)
            return
        if joins != self._joins:
            return
        for at in unknown:
            if at in self._owned:
                try:
                    self._owners.on_fetch(self.member_id, at, found.get(at))
                except InvariantViolatedError as violation:
                    self._sharing.wrong = self._sharing.wrong or violation
                self._positions[at] = self._committed[at] = found.get(at, 0)
        consumer.assign(self._readable(self._owned & self._positions.keys()))
        for at in unknown:
            if at in self._owned:
                consumer.seek(TopicPartition(self._names[at[0]], at[1]), self._positions[at])

    # -- offsets ------------------------------------------------------------------------------------------------------

    async def _fetch(self, partitions: Iterable[At], epoch: int) -> dict[At, int]:
        by_name = {name: id_ for id_, name in self._names.items()}
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in indexes_by_topic(self._readable(partitions)).items()
        ]
        group = OffsetFetchRequestGroup(group_id=GROUP, member_id=self.member_id, member_epoch=epoch, topics=topics)
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        answer = await self._coordinator.call(request, OffsetFetchResponse, timeout_s=CALL_S, at_most=9)
        [told] = answer.groups
        self._coordinator.check(told.error_code, "fetching committed offsets")
        found = {}
        for topic in told.topics:
            for each in topic.partitions:
                self._coordinator.check(each.error_code, "fetching a committed offset")
                if each.committed_offset >= 0:
                    found[by_name[topic.name], each.partition_index] = each.committed_offset
        return found

    async def _commit(self) -> None:
        """Of what it has, where that has changed; failures are ignored."""
        changed = {
            at: offset
            for at, offset in self._positions.items()
            if at in self._owned and at[0] in self._names and offset > self._committed[at]
        }
        if not changed or self._epoch <= 0:
            return
        sent, joins = self._owners.now, self._joins
        for at, offset in changed.items():
            self._owners.want_commit(self.member_id, at, offset)
        offsets = {
            TopicPartition(self._names[topic_id], index): OffsetAndEpoch(offset, -1)
            for (topic_id, index), offset in changed.items()
        }
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self._epoch,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            topics=commit_topics(offsets),
        )
        try:
            answer = await self._coordinator.call(
                request, OffsetCommitResponse, timeout_s=CALL_S, at_most=MAX_VERSION_BY_NAME
            )
            self._on_committed(answer, changed, sent, joins)
        except KafkaError as error:
            self._cluster.say(self._name, f"does not commit: {error}")
        except InvariantViolatedError as violation:
            self._sharing.wrong = self._sharing.wrong or violation

    def _on_committed(self, answer: OffsetCommitResponse, changed: dict[At, int], sent: float, joins: int) -> None:
        by_name = {name: id_ for id_, name in self._names.items()}
        error = ErrorCode.NONE
        for topic in answer.topics:
            for each in topic.partitions:
                at = by_name[topic.name], each.partition_index
                told = ErrorCode.of(each.error_code)
                if told is ErrorCode.NONE:
                    self._owners.on_commit(self.member_id, at, changed[at], sent)
                    if joins == self._joins and at in self._committed:
                        self._committed[at] = changed[at]
                elif told in NOT_WRITTEN:
                    self._owners.on_refused_commit(self.member_id, at, changed[at])
                error = told if told is not ErrorCode.NONE else error
        self._coordinator.check(error, "committing")


def _told(owned: frozenset[At]) -> list[HeartbeatTopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(owned, key=str):
        topics.setdefault(topic_id, []).append(index)
    return [HeartbeatTopicPartitions(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()]
