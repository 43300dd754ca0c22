"""Progress of a plan: replicas that have caught up, and bytes copied of the total (row A4; pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from minikafka.client.admin import LogDirectory, Reassignment
from minikafka.client.cluster import Cluster
from minikafka.client.reassigning.plan import Plan
from minikafka.model import TopicPartition

Directories = Mapping[int, Iterable[LogDirectory]]


class State(Enum):
    """What has become of one entry of a plan."""

    COMPLETE = "complete"
    IN_PROGRESS = "in progress"
    DIFFERENT = "different"
    """Nothing moves, and it is not where the plan says."""


class ReplicaMove(NamedTuple):
    """A replica that comes to a broker."""

    tp: TopicPartition
    broker: int


class DirectoryMove(NamedTuple):
    """A replica that is to be in a certain directory of its broker."""

    tp: TopicPartition
    broker: int
    path: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of each partition and of each directory that was named, and the sums over all replicas that move."""

    partitions: dict[TopicPartition, State]
    replicas: dict[TopicPartition, tuple[int, ...]]
    directories: dict[DirectoryMove, State]
    replicas_total: int
    replicas_done: int
    bytes_total: int
    bytes_done: int

    @property
    def is_under_way(self) -> bool:
        """True while anything of the plan still moves."""
        return State.IN_PROGRESS in (*self.partitions.values(), *self.directories.values())

    @property
    def is_complete(self) -> bool:
        """True when everything is where the plan says."""
        return {*self.partitions.values(), *self.directories.values()} <= {State.COMPLETE}


def measure(
    plan: Plan,
    moves: Iterable[ReplicaMove],
    cluster: Cluster,
    ongoing: Mapping[TopicPartition, Reassignment],
    directories: Directories,
) -> Progress:
    """The state of ``plan``, of which ``moves`` are the replicas that came to their broker by it."""
    partitions: dict[TopicPartition, State] = {}
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    for tp, placement in plan.items():
        view = cluster.partition(tp)
        replicas[tp] = view.replicas if view is not None else ()
        if tp in ongoing:
            partitions[tp] = State.IN_PROGRESS
        else:
            partitions[tp] = State.COMPLETE if replicas[tp] == placement.replicas else State.DIFFERENT
    placed = {move: _directory_state(move, ongoing, directories) for move in directory_moves(plan)}
    replicas_total = replicas_done = bytes_total = bytes_done = 0
    for tp, broker in moves:
        view = cluster.partition(tp)
        whole = _size(directories, view.leader if view is not None else -1, tp)
        is_done = tp not in ongoing or (view is not None and broker in view.in_sync_replicas)
        replicas_total += 1
        replicas_done += is_done
        bytes_total += whole
        bytes_done += whole if is_done else min(whole, _size(directories, broker, tp))
    for (tp, broker, _), state in placed.items():
        whole = _size(directories, broker, tp)
        replicas_total += 1
        replicas_done += state is State.COMPLETE
        bytes_total += whole
        bytes_done += whole if state is State.COMPLETE else min(whole, _size(directories, broker, tp, future=True))
    return Progress(partitions, replicas, placed, replicas_total, replicas_done, bytes_total, bytes_done)


def directory_moves(plan: Plan) -> Iterator[DirectoryMove]:
    """Every replica whose directory a plan names."""
    for tp, placement in plan.items():
        for broker, path in placement.directories():
            yield DirectoryMove(tp, broker, path)


def _directory_state(
    move: DirectoryMove, ongoing: Mapping[TopicPartition, Reassignment], directories: Directories
) -> State:
    for directory in directories.get(move.broker, ()):
        replica = directory.replicas.get(move.tp)
        if replica is not None and directory.path == move.path:
            return State.IN_PROGRESS if replica.is_future else State.COMPLETE
    return State.IN_PROGRESS if move.tp in ongoing else State.DIFFERENT


def _size(directories: Directories, broker: int, tp: TopicPartition, *, future: bool = False) -> int:
    for directory in directories.get(broker, ()):
        replica = directory.replicas.get(tp)
        if replica is not None and replica.is_future == future:
            return replica.size_bytes
    return 0
