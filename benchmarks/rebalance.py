"""What a rebalance of 50 members and 500 partitions costs the group coordinator, in both protocols.

The machine alone, without sockets and log: every write is committed at once. The members do what real ones do: in the
newer protocol they give up what they are told to and say so, until all have their partitions; in the classic one all
join, the leader assigns, and all fetch their parts. The step that takes longest is how long others wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any, Final
from uuid import UUID

from benchmarks.report import Figure, Run, Target
from minikafka.coordination.effects import Effect, Respond, Write
from minikafka.coordination.phase import Phase
from minikafka.groups.consumer.group import ConsumerGroupState
from minikafka.groups.consumer.topics import Topic
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.joins import Caller
from minikafka.groups.settings import CoordinatorSettings
from minikafka.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SUMMARY = "a rebalance of 50 members and 500 partitions in the group coordinator: CPU, and the longest step"
MEMBERS: Final = 50
TOPICS: Final = [f"topic-{number}" for number in range(10)]
PARTITIONS: Final = 50
ROUNDS: Final = 20


class _Topics:
    def __init__(self) -> None:
        topics = [Topic(UUID(int=number + 1), name, PARTITIONS) for number, name in enumerate(TOPICS)]
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.topic_id: topic for topic in topics}

    def named(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def with_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)


class _Machine:
    """A coordinator whose writes are committed at once; what its steps cost."""

    def __init__(self) -> None:
        settings, suffixes = CoordinatorSettings(initial_rebalance_delay_ms=0), count()
        self.coordinator = GroupCoordinator(
            settings, lambda: str(next(suffixes)), lambda: 0, lambda name: None, _Topics()
        )
        self.answers: dict[Any, Any] = {}
        self.longest_s = self.total_s = 0.0
        while self.coordinator.phase is not Phase.ACTIVE:
            self.coordinator.finish_loading(0)

    def step(self, act: Callable[[], Iterable[Effect | Any]]) -> None:
        began = time.process_time()
        effects = list(act())
        took = time.process_time() - began
        self.longest_s = max(self.longest_s, took)
        self.total_s += took
        for effect in effects:
            match effect:
                case Respond(token, response):
                    self.answers[token] = response
                case Write(write_id):
                    self.step(partial(self.coordinator.on_committed, write_id, 0))


class _Member:
    """Of a group of the newer protocol."""

    def __init__(self, machine: _Machine, name: str) -> None:
        self.machine, self.name, self.epoch = machine, name, 0
        self.owned: list[HeartbeatTopicPartitions] | None = []

    def leave(self) -> None:
        self._send(ConsumerGroupHeartbeatRequest(group_id="g", member_id=self.name, member_epoch=-1))

    def beat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.name,
            member_epoch=self.epoch,
            rebalance_timeout_ms=300_000 if self.epoch == 0 else -1,
            subscribed_topic_names=TOPICS if self.epoch == 0 else None,
            topic_partitions=self.owned,
        )
        answer = self._send(request)
        self.epoch, self.owned = answer.member_epoch, None
        if answer.assignment is not None:
            self.owned = [
                HeartbeatTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            ]

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        caller, coordinator = Caller("client", "/127.0.0.1", 1), self.machine.coordinator
        self.machine.step(lambda: coordinator.consumer_group_heartbeat(request, caller, self.name, 0))
        answer: ConsumerGroupHeartbeatResponse = self.machine.answers.pop(self.name)
        assert not answer.error_code
        return answer


def _consumer(rounds: int) -> tuple[float, float]:
    """CPU ms of the median rebalance, and ms of the longest step."""
    machine = _Machine()
    members = [_Member(machine, f"member-{number:02}") for number in range(MEMBERS - 1)]
    _until_stable(machine, members)
    machine.longest_s, costs = 0.0, []
    for number in range(rounds):
        machine.total_s = 0.0
        members.append(_Member(machine, f"new-{number}"))
        _until_stable(machine, members)
        costs.append(machine.total_s)
        members.pop(0).leave()
        _until_stable(machine, members)
    return sorted(costs)[len(costs) // 2] * 1e3, machine.longest_s * 1e3


def _until_stable(machine: _Machine, members: list[_Member]) -> None:
    while True:
        for member in members:
            member.beat()
        consumer = machine.coordinator.shard.groups["g"].consumer
        if consumer is not None and consumer.state is ConsumerGroupState.STABLE:
            return


def _classic(rounds: int) -> tuple[float, float]:
    """The same of the classic protocol."""
    group = _ClassicGroup(_Machine())
    machine, costs = group.machine, []
    group.join("", 0)
    for place in range(1, MEMBERS):
        group.join("", place)
    group.ids[0] = machine.answers[0].member_id
    group.rebalance("0", [0])  # it was alone in a generation
    machine.longest_s = 0.0
    for number in range(rounds):
        machine.total_s = 0.0
        group.rebalance(f"{number + 1}", range(MEMBERS))
        costs.append(machine.total_s)
    return sorted(costs)[len(costs) // 2] * 1e3, machine.longest_s * 1e3


class _ClassicGroup:
    """Its members have metadata and assignments as large as a Java client's for these topics."""

    def __init__(self, machine: _Machine) -> None:
        self.machine = machine
        self.ids = [""] * MEMBERS
        self.assignment = b"a" * (6 * PARTITIONS * len(TOPICS) // MEMBERS)

    def join(self, version: str, place: int) -> None:
        request = JoinGroupRequest(
            group_id="g",
            member_id=self.ids[place],
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m" * 150 + version.encode())],
        )
        caller, coordinator = Caller("client", "/127.0.0.1", 3), self.machine.coordinator
        self.machine.step(lambda: coordinator.join_group(request, caller, place, 0))

    def rebalance(self, version: str, places: Iterable[int]) -> None:
        for place in places:
            self.join(version, place)
        answers = [self.machine.answers.pop(place) for place in range(MEMBERS)]
        self.ids = [answer.member_id for answer in answers]
        given = [SyncGroupRequestAssignment(member_id=each, assignment=self.assignment) for each in self.ids]
        for answer in answers:
            leads = answer.leader == answer.member_id
            request = SyncGroupRequest(
                group_id="g",
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                assignments=given if leads else [],
            )
            self._sync(request)
        assert len(self.machine.answers) == MEMBERS
        self.machine.answers.clear()

    def _sync(self, request: SyncGroupRequest) -> None:
        coordinator = self.machine.coordinator
        self.machine.step(lambda: coordinator.sync_group(request, request.member_id, 0))


def run(run: Run) -> list[Figure]:
    """Both protocols."""
    rounds = run.times(ROUNDS)
    figures = []
    for name, measure, limit in (("consumer", _consumer, 20.0), ("classic", _classic, 50.0)):
        cost_ms, longest_ms = measure(rounds)
        figures.append(Figure(f"rebalance, {name} protocol: CPU", cost_ms, "ms", Target("<", limit)))
        figures.append(Figure(f"rebalance, {name} protocol: longest step", longest_ms, "ms", Target("<", 20.0)))
    return figures
