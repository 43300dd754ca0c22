"""What the heartbeats of 1,000 members in 100 groups cost the nodes, in both protocols.

Each member has a connection of its own, and beats as often as Java's does: every 3 s in the classic protocol, every 5 s
in the newer one (KIP-848). The cost is that of all nodes together, an idle cluster's included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from benchmarks.bare import BareClient
from benchmarks.clusters import broker_cpu, create_topic, running_cluster, spent
from benchmarks.report import Figure, Run, Target
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SUMMARY = "CPU of the nodes for the heartbeats of 1,000 members in 100 groups"
GROUPS: Final = 100
MEMBERS_OF_A_GROUP: Final = 10
MEASURED_S: Final = 30.0
TOPIC: Final = "work"
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "3000"}  # all members of a group join at once
TARGET: Final = Target("<", 15.0)
_FIND_VERSION: Final = 4
_JOIN_VERSION: Final = 3  # the last one with which a new member need not join twice
_SYNC_VERSION: Final = 3
_BEAT_VERSION: Final = 4
_CONSUMER_VERSION: Final = 1
_PATIENCE_S: Final = 60.0

Answer = HeartbeatResponse | ConsumerGroupHeartbeatResponse


@dataclass
class Member:
    """Of a group, with a connection to its coordinator."""

    client: BareClient
    group: str
    place: int


class Beats(NamedTuple):
    """The heartbeats of members who have their partitions: how often, and of what each is made."""

    interval_s: float
    send: Callable[[int], None]
    receive: Callable[[int], Answer]


def run(run: Run) -> list[Figure]:
    """One protocol after the other, on the same nodes."""
    with running_cluster(SETTINGS) as cluster:
        create_topic(cluster, TOPIC, partitions=MEMBERS_OF_A_GROUP)
        return [*_measure(run, cluster, "classic", _classic), *_measure(run, cluster, "consumer", _consumer)]


def _measure(
    run: Run, cluster: LocalCluster, protocol: str, begin: Callable[[Sequence[Member]], Beats]
) -> Iterator[Figure]:
    seconds = MEASURED_S / 5 if run.quick else MEASURED_S
    with _members(cluster, protocol) as members:
        beats = begin(members)
        run.say(f"{len(members)} members in {GROUPS} groups of the {protocol} protocol: {seconds:g} s of heartbeats")
        used = _beat_for(cluster, beats, len(members), seconds)
    note = f"each every {beats.interval_s:g} s; the busiest node {max(used.values()) * 100:.1f} %"
    yield Figure(f"CPU for heartbeats, {protocol} protocol", sum(used.values()) * 100, "% of a core", TARGET, note)


@contextmanager
def _members(cluster: LocalCluster, prefix: str) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        yield [
            Member(stack.enter_context(BareClient(port, _PATIENCE_S)), group, place)
            for group, port in _coordinators(cluster, [f"{prefix}-{number}" for number in range(GROUPS)]).items()
            for place in range(MEMBERS_OF_A_GROUP)
        ]


def _coordinators(cluster: LocalCluster, groups: Sequence[str]) -> dict[str, int]:
    """The port of each group's coordinator. The first who asks waits until there are any."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups))
    give_up_s = time.monotonic() + _PATIENCE_S
    with BareClient(cluster.layout.client_port(1)) as client:
        while True:
            answer = client.ask(ApiKey.FIND_COORDINATOR, _FIND_VERSION, request, FindCoordinatorResponse)
            if all(each.error_code == ErrorCode.NONE for each in answer.coordinators):
                return {each.key: each.port for each in answer.coordinators}
            assert time.monotonic() < give_up_s, answer.coordinators
            time.sleep(0.1)


def _beat_for(cluster: LocalCluster, beats: Beats, members: int, seconds: float) -> dict[int, float]:
    """Cores that each node used while every member sent its heartbeats, evenly spread over the interval."""
    before, began = broker_cpu(cluster), time.monotonic()
    for number in range(int(members * seconds / beats.interval_s)):
        time.sleep(max(0.0, began + number * beats.interval_s / members - time.monotonic()))
        place = number % members
        beats.send(place)
        answer = beats.receive(place)
        assert answer.error_code == ErrorCode.NONE, answer
    used = spent(before, broker_cpu(cluster))
    took_s = time.monotonic() - began
    return {node_id: cpu_s / took_s for node_id, cpu_s in used.items()}


# -- the classic protocol ---------------------------------------------------------------------------------------------


def _classic(members: Sequence[Member]) -> Beats:
    for member in members:
        request = JoinGroupRequest(
            group_id=member.group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"metadata")],
        )
        member.client.send(ApiKey.JOIN_GROUP, _JOIN_VERSION, request)
    joined = [m.client.receive(ApiKey.JOIN_GROUP, _JOIN_VERSION, JoinGroupResponse) for m in members]
    for member, answer in zip(members, joined, strict=True):
        assert answer.error_code == ErrorCode.NONE, answer
        given = [SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"share") for each in answer.members]
        sync = SyncGroupRequest(
            group_id=member.group, generation_id=answer.generation_id, member_id=answer.member_id, assignments=given
        )
        member.client.send(ApiKey.SYNC_GROUP, _SYNC_VERSION, sync)
    for member in members:
        synced = member.client.receive(ApiKey.SYNC_GROUP, _SYNC_VERSION, SyncGroupResponse)
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"share"), synced
    requests = [
        HeartbeatRequest(group_id=member.group, generation_id=answer.generation_id, member_id=answer.member_id)
        for member, answer in zip(members, joined, strict=True)
    ]
    return Beats(
        3.0,
        lambda place: members[place].client.send(ApiKey.HEARTBEAT, _BEAT_VERSION, requests[place]),
        lambda place: members[place].client.receive(ApiKey.HEARTBEAT, _BEAT_VERSION, HeartbeatResponse),
    )


# -- the newer protocol -----------------------------------------------------------------------------------------------


def _consumer(members: Sequence[Member]) -> Beats:
    requests = [
        ConsumerGroupHeartbeatRequest(
            group_id=member.group,
            member_id=str(UUID(int=1000 + place)),
            member_epoch=0,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        for place, member in enumerate(members)
    ]

    def send(place: int) -> None:
        members[place].client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, _CONSUMER_VERSION, requests[place])

    def receive(place: int) -> ConsumerGroupHeartbeatResponse:
        client = members[place].client
        return client.receive(ApiKey.CONSUMER_GROUP_HEARTBEAT, _CONSUMER_VERSION, ConsumerGroupHeartbeatResponse)

    changes = True
    while changes:
        changes = False
        for place in range(len(members)):
            send(place)
        for place in range(len(members)):
            answer = receive(place)
            if answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                changes = True  # what it had to write was not replicated in time: say it again
                continue
            assert answer.error_code == ErrorCode.NONE, answer
            following = _following(requests[place], answer)
            changes = changes or following != requests[place]
            requests[place] = following
    return Beats(5.0, send, receive)


def _following(
    request: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse
) -> ConsumerGroupHeartbeatRequest:
    """What a member says next: that it has what it was given."""
    owned = None
    if answer.assignment is not None:
        owned = [
            HeartbeatTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
            for each in answer.assignment.topic_partitions
        ]
    return ConsumerGroupHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=answer.member_epoch,
        topic_partitions=owned,
    )
