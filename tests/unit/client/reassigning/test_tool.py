"""What the tool asks of a cluster and in which order. The cluster is a stand-in that does what it is told at once, or
real sockets where it matters which broker is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

import pytest
from scripted_cluster import ScriptedCluster

from minikafka.client import Admin
from minikafka.client.admin import ConfigEntry, LogDirectory, Reassignment, ReplicaSize
from minikafka.client.cluster import Cluster, PartitionView, TopicView
from minikafka.client.reassigning.plan import Placement, PlanError
from minikafka.client.reassigning.progress import DirectoryMove, State
from minikafka.client.reassigning.throttles import FOLLOWER_RATE, LEADER_RATE, LEADER_REPLICAS, TOPIC_SETTINGS
from minikafka.client.reassigning.tool import Reassigner
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint, TopicPartition
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from minikafka.wire.messages.metadata import MetadataRequest, MetadataResponse

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class StandIn:
    """Brokers 1 to 4 with directories /x and /y each; topic ``a``. ``said`` has what it was asked to change."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.assignment: dict[TopicPartition, tuple[int, ...]] = {A0: (1, 2), A1: (2, 3)}
        self.ongoing: dict[TopicPartition, Reassignment] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.tp: dict[tuple[int, TopicPartition], str] = {}
        self.futures: dict[tuple[int, TopicPartition], str] = {}
        self.missing_answers = 0
        self.refusal: KafkaError | None = None
        self.racks: dict[int, str | None] = dict.fromkeys(range(1, 5))

    async def describe_cluster(self) -> Cluster:
        topics: dict[str, TopicView] = {}
        for (name, index), replicas in self.assignment.items():
            topic = topics.setdefault(name, TopicView(name, uuid4(), ErrorCode.NONE, False, {}))
            topic.partitions[index] = PartitionView(replicas[0], 0, replicas, replicas)
        return Cluster(brokers={id_: Endpoint("h", id_) for id_ in self.racks}, racks=self.racks, topics=topics)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        return {tp: each for tp, each in self.ongoing.items() if partitions is None or tp in partitions}

    async def describe_reassignments(self) -> tuple[dict[TopicPartition, Reassignment], Cluster]:
        return await self.list_partition_reassignments(), await self.describe_cluster()

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> dict[TopicPartition, KafkaError | None]:
        self.said.append(f"reassign {', '.join(f'{tp}: {replicas}' for tp, replicas in targets.items())}")
        if self.refusal is None:
            for tp, replicas in targets.items():
                self.ongoing.pop(tp, None)
                if replicas is not None:
                    self.assignment[tp] = tuple(replicas)
        return dict.fromkeys(targets, self.refusal)

    async def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        self._alter(topic, changes)

    async def alter_broker_configs(self, node_id: int, changes: Mapping[str, str | None]) -> None:
        self._alter(f"broker {node_id}", changes)

    def _alter(self, name: str, changes: Mapping[str, str | None]) -> None:
        self.said.append(f"set {name}" if any(changes.values()) else f"clear {name}")
        kept = self.settings.setdefault(name, {}) | changes  # type: ignore[operator]
        self.settings[name] = {setting: value for setting, value in kept.items() if value is not None}

    async def describe_configs(self, topic: str) -> list[ConfigEntry]:
        given = self.settings.get(topic, {})
        return [ConfigEntry(name, given.get(name, ""), name not in given) for name in TOPIC_SETTINGS]

    async def describe_broker_configs(self, node_id: int) -> list[ConfigEntry]:
        given = self.settings.get(f"broker {node_id}", {})
        return [ConfigEntry(name, given.get(name, "9"), name not in given) for name in (LEADER_RATE, FOLLOWER_RATE)]

    async def describe_log_dirs(self, brokers: Iterable[int]) -> dict[int, list[LogDirectory]]:
        return {broker: [self._directory(broker, path) for path in ("/x", "/y")] for broker in brokers}

    def _directory(self, broker: int, path: str) -> LogDirectory:
        held = {
            tp: ReplicaSize(10, 0, holding is self.futures)
            for holding in (self.tp, self.futures)
            for (owner, tp), at in holding.items()
            if (owner, at) == (broker, path)
        }
        return LogDirectory(path, ErrorCode.NONE, -1, -1, held)

    async def alter_replica_log_dirs(
        self, broker_id: int, paths: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, KafkaError | None]:
        self.said.append(f"place {', '.join(f'{tp} in {path}' for tp, path in paths.items())} on {broker_id}")
        if self.missing_answers:
            self.missing_answers -= 1
            return dict.fromkeys(paths, KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE))
        for tp, path in paths.items():
            self.futures.pop((broker_id, tp), None)
            self.tp[broker_id, tp] = path
        return dict.fromkeys(paths)


@pytest.fixture
def cluster() -> StandIn:
    return StandIn()


@pytest.fixture
def tool(cluster: StandIn) -> Reassigner:
    return Reassigner(cast(Admin, cluster))


@pytest.mark.spec("A4", "A6")
async def test_throttles_are_set_before_anything_moves_and_removed_after(cluster: StandIn, tool: Reassigner) -> None:
    rollbacks: list[Any] = []
    plan = {A0: Placement((1, 4))}
    begun = await tool.execute(plan, throttle=500, on_checked=lambda rollback: rollbacks.append(dict(rollback)))
    assert cluster.said == ["set a", "set broker 1", "set broker 2", "set broker 4", "reassign a-0: (1, 4)"]
    assert rollbacks == [{A0: Placement((1, 2))}]
    assert begun.moves == ((A0, 4),)
    assert cluster.settings["a"][LEADER_REPLICAS] == "0:1,0:2"
    shown: list[bool] = []
    progress = await tool.wait(begun.plan, begun.moves, lambda progress: shown.append(progress.is_complete))
    assert progress.is_complete
    assert shown == [True]
    removed = await tool.clear_throttles(plan)
    assert (sorted(removed.brokers), list(removed.topics)) == ([1, 2, 4], ["a"])
    assert not any(cluster.settings.values())
    assert (await tool.clear_throttles(plan)).brokers == {}


@pytest.mark.spec("A4")
async def test_throttles_of_what_is_still_under_way_stay(cluster: StandIn, tool: Reassigner) -> None:
    await tool.execute({A0: Placement((1, 4))}, throttle=500)
    cluster.ongoing[A1] = Reassignment((2, 3, 4), (4,), ())
    removed = await tool.clear_throttles({A0: Placement((1, 4))})
    assert (removed.brokers, removed.topics) == ({}, {})


@pytest.mark.spec("A2")
async def test_a_plan_that_is_refused_leaves_no_throttle(cluster: StandIn, tool: Reassigner) -> None:
    cluster.refusal = KafkaError(ErrorCode.POLICY_VIOLATION, "broker 4 has enough")
    with pytest.raises(KafkaError, match="POLICY_VIOLATION: cannot reassign a-0: broker 4 has enough"):
        await tool.execute({A0: Placement((1, 4))}, throttle=500)
    assert not any(cluster.settings.values())


@pytest.mark.spec("A2", "A4")
async def test_a_second_plan_needs_a_word_more(cluster: StandIn, tool: Reassigner) -> None:
    cluster.ongoing[A1] = Reassignment((2, 3, 4), (4,), ())
    with pytest.raises(PlanError, match=r"a reassignment is in progress \(a-1\)"):
        await tool.execute({A0: Placement((1, 4))})
    assert cluster.said == []
    await tool.execute({A0: Placement((1, 4))}, additional=True)
    assert cluster.said == ["reassign a-0: (1, 4)"]
    progress = await tool.progress({A0: Placement((1, 4)), A1: Placement((2, 3, 4))})
    assert progress.partitions == {A0: State.COMPLETE, A1: State.IN_PROGRESS}
    assert (progress.replicas_total, progress.is_under_way) == (1, True)
    assert list(await tool.cancel({A0: Placement((1, 4)), A1: Placement((2, 3, 4))})) == [A1]
    assert cluster.said[-1] == "reassign a-1: None"


@pytest.mark.spec("A5")
async def test_directories_are_named_before_the_move_and_asked_for_until_the_replica_is_there(
    cluster: StandIn, tool: Reassigner
) -> None:
    cluster.missing_answers = 2
    plan = {A0: Placement((1, 4), ("any", "/y"))}
    begun = await tool.execute(plan)
    place = "place a-0 in /y on 4"
    assert cluster.said == [place, "reassign a-0: (1, 4)", place, place]
    progress = await tool.progress(plan, begun.moves)
    assert progress.directories == {DirectoryMove(A0, 4, "/y"): State.COMPLETE}
    with pytest.raises(PlanError, match="a-0: broker 4 has no usable log directory /z; it has /x, /y"):
        await tool.execute({A0: Placement((4,), ("/z",))})


@pytest.mark.spec("A5")
async def test_cancelling_a_move_between_directories_says_where_the_replica_is(
    cluster: StandIn, tool: Reassigner
) -> None:
    cluster.tp[1, A0], cluster.futures[1, A0] = "/x", "/y"
    plan = {A0: Placement((1, 2), ("/y", "any"))}
    assert (await tool.progress(plan)).directories == {DirectoryMove(A0, 1, "/y"): State.IN_PROGRESS}
    assert await tool.cancel(plan) == {}
    assert cluster.said == ["place a-0 in /x on 1"]


@pytest.mark.spec("A6")
async def test_proposals_know_brokers_and_racks(cluster: StandIn, tool: Reassigner) -> None:
    assert await tool.live_brokers() == [1, 2, 3, 4]
    current, proposed = await tool.generate(["a"], [1, 2, 3, 4])
    assert current == {A0: Placement((1, 2)), A1: Placement((2, 3))}
    assert sorted(broker for placement in proposed.values() for broker in placement.replicas) == [1, 2, 3, 4]
    with pytest.raises(PlanError, match="broker 9 is not alive"):
        await tool.generate(["a"], [1, 9])
    with pytest.raises(PlanError, match="topic 'b' not found"):
        await tool.generate(["b"], [1])
    cluster.racks[1] = "r1"
    with pytest.raises(PlanError, match="brokers 2, 3, 4 have no rack"):
        await tool.generate(["a"], [1, 2, 3, 4])
    await tool.generate(["a"], [1, 2, 3, 4], rack_aware=False)


@pytest.mark.spec("A6")
async def test_draining_takes_everything_off_a_broker_if_the_others_suffice(cluster: StandIn, tool: Reassigner) -> None:
    plan = await tool.drain(2)
    assert set(plan) == {A0, A1}
    assert all(2 not in placement.replicas and len(placement.replicas) == 2 for placement in plan.values())
    assert await tool.drain(4) == {}
    cluster.assignment[A0] = (1, 2, 3, 4)
    with pytest.raises(PlanError, match="a-0 has 4 replicas, and without broker 2 there are 3 live brokers"):
        await tool.drain(2)


# -- brokers that hear of the end one after the other -----------------------------------------------------------------


@pytest.mark.spec("A4")
async def test_a_broker_that_lags_does_not_undo_what_is_complete() -> None:
    """Broker 1 saw the end of the reassignment and lists none; broker 2 still describes the replicas of its course.

    Put together they would say: no active reassignment, but the replicas are 2,3,1.
    """
    described = {1: [2, 3], 2: [2, 3, 1]}
    scripted = ScriptedCluster()

    def describe(node_id: int, request: MetadataRequest) -> MetadataResponse:
        answer = scripted._metadata(node_id, request)
        for topic in answer.topics:
            topic.partitions[0].replica_nodes = described[node_id]
        return answer

    await scripted.start(1, 2)
    scripted.create_topic("a", leaders=[2])
    scripted.on(ApiKey.METADATA, describe)
    scripted.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, lambda node_id, request: ListPartitionReassignmentsResponse())
    try:
        async with Admin(f"127.0.0.1:{scripted.ports[2]}") as admin:
            for _ in range(20):  # whichever broker would be asked by chance
                progress = await Reassigner(admin).progress({A0: Placement((2, 3))})
                assert progress.partitions == {A0: State.COMPLETE}
                assert progress.replicas == {A0: (2, 3)}
    finally:
        await scripted.close()
    assert {node_id for node_id, request in scripted.requests if isinstance(request, MetadataRequest)} == {1, 2}
