from __future__ import annotations

from uuid import uuid4

import pytest

from minikafka.client.admin import LogDirectory, Reassignment, ReplicaSize
from minikafka.client.cluster import Cluster, PartitionView, TopicView
from minikafka.client.reassigning.plan import Placement
from minikafka.client.reassigning.progress import DirectoryMove, ReplicaMove, State, measure
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition

WHERE = TopicPartition("orders", 0)
PLAN = {WHERE: Placement((1, 3))}
MOVES = [ReplicaMove(WHERE, 3)]
UNDER_WAY = {WHERE: Reassignment((1, 3, 2), (3,), (2,))}


def cluster(replicas: tuple[int, ...], isr: tuple[int, ...]) -> Cluster:
    return Cluster(
        topics={"orders": TopicView("orders", uuid4(), ErrorCode.NONE, False, {0: PartitionView(1, 0, replicas, isr)})}
    )


def holding(path: str, size: int, *, future: bool = False) -> LogDirectory:
    return LogDirectory(path, ErrorCode.NONE, -1, -1, {WHERE: ReplicaSize(size, 0, future)})


@pytest.mark.spec("A4")
def test_bytes_and_replicas_are_counted_until_it_is_complete() -> None:
    sizes = {1: [holding("/a", 1000)], 3: [holding("/a", 300)]}
    early = measure(PLAN, MOVES, cluster((1, 3, 2), (1, 2)), UNDER_WAY, sizes)
    assert (early.replicas_done, early.replicas_total, early.bytes_done, early.bytes_total) == (0, 1, 300, 1000)
    assert early.is_under_way
    assert early.partitions == {WHERE: State.IN_PROGRESS}

    in_sync = measure(PLAN, MOVES, cluster((1, 3, 2), (1, 2, 3)), UNDER_WAY, sizes)
    assert (in_sync.replicas_done, in_sync.bytes_done) == (1, 1000)
    assert in_sync.is_under_way

    late = measure(PLAN, MOVES, cluster((1, 3), (1, 3)), {}, sizes)
    assert (late.replicas_done, late.is_under_way, late.is_complete) == (1, False, True)


@pytest.mark.spec("A4")
def test_what_never_began_or_was_cancelled_is_different() -> None:
    progress = measure(PLAN, [], cluster((1, 2), (1, 2)), {}, {})
    assert progress.partitions == {WHERE: State.DIFFERENT}
    assert progress.replicas == {WHERE: (1, 2)}
    assert (progress.is_under_way, progress.is_complete) == (False, False)
    gone = measure({TopicPartition("gone", 0): Placement((1,))}, [], cluster((1,), (1,)), {}, {})
    assert gone.replicas == {TopicPartition("gone", 0): ()}
    assert not gone.is_complete


def test_a_follower_with_more_than_its_leader_is_not_counted_twice() -> None:
    sizes = {1: [holding("/a", 1000)], 3: [holding("/a", 4000)]}
    assert measure(PLAN, MOVES, cluster((1, 3, 2), (1,)), UNDER_WAY, sizes).bytes_done == 1000


@pytest.mark.spec("A5")
def test_moves_between_directories_count_their_future_copies() -> None:
    plan = {WHERE: Placement((1, 2), ("/b", "any"))}
    move = DirectoryMove(WHERE, 1, "/b")
    there = cluster((1, 2), (1, 2))
    half = measure(plan, [], there, {}, {1: [holding("/a", 1000), holding("/b", 500, future=True)]})
    assert half.directories == {move: State.IN_PROGRESS}
    assert (half.bytes_done, half.bytes_total, half.is_under_way) == (500, 1000, True)
    done = measure(plan, [], there, {}, {1: [holding("/b", 1000)]})
    assert (done.directories, done.is_complete) == ({move: State.COMPLETE}, True)
    assert measure(plan, [], there, {}, {1: [holding("/a", 1000)]}).directories == {move: State.DIFFERENT}
    # A broker that is only being given the partition does not have it anywhere yet.
    coming = measure(plan, [], there, {WHERE: Reassignment((1, 2), (1,), ())}, {1: []})
    assert coming.directories == {move: State.IN_PROGRESS}
