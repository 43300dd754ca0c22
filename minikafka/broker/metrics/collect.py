"""A scrape: reads the counters and the state of a node's parts. It changes nothing.

:func:`collect` is a generator of families, and of pauses (None) where a portion of work is done: with thousands of
partitions the loop has others to serve in between. So a scrape is no snapshot of one moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import minikafka
from minikafka.broker.authentication import Logins
from minikafka.broker.control_plane import ControlPlane
from minikafka.broker.data_plane import DataPlane
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.drivers.lifecycle import Lifecycle
from minikafka.broker.listeners import Listeners
from minikafka.broker.metrics.isr_changes import IsrChanges
from minikafka.broker.metrics.loop_lag import LoopLag
from minikafka.broker.metrics.transactions import TransactionSources, collect_transactions
from minikafka.broker.partition import Partition
from minikafka.broker.replicas import Replicas
from minikafka.errors import ErrorCode
from minikafka.metadata.image import MetadataImage
from minikafka.metrics import catalogue as of
from minikafka.metrics.catalogue import Family, Metric
from minikafka.metrics.requests import ApiRequests, Requests
from minikafka.metrics.traffic import Traffic
from minikafka.model import NO_NODE
from minikafka.timing.purgatory import Purgatory

PORTION: Final = 500
"""Partitions of a portion: about 1 ms."""

Families = Iterator[Family | None]


@dataclass(frozen=True, slots=True)
class Sources:
    """What a scrape reads."""

    control: ControlPlane
    data: DataPlane
    groups: Groups
    transactions: TransactionSources
    requests: Requests
    listeners: Listeners
    isr_changes: IsrChanges
    loop_lag: LoopLag


def collect(sources: Sources) -> Families:
    """Every metric of the catalogue that has a value."""
    yield from _traffic(sources.data.replicas.traffic, sources.requests)
    yield from _requests(sources.requests)
    yield from _purgatories(sources.data.replicas)
    yield from _partitions(sources)
    yield from _controller(sources.control)
    yield from _quorum(sources.control)
    yield from _groups(sources.groups)
    yield from collect_transactions(sources.transactions)
    yield from _connections(sources.listeners)
    yield Family(of.LOOP_LAG, [((), sources.loop_lag.histogram)])
    yield _one(of.BUILD, 1, minikafka.__version__)


def _one(metric: Metric, value: float, *labels: str) -> Family:
    return Family(metric, [(labels, value)])


def _traffic(traffic: Traffic, requests: Requests) -> Families:
    topics, total = sorted(traffic.topics.items()), traffic.total()
    for metric, name in ((of.MESSAGES_IN, "messages_in"), (of.BYTES_IN, "bytes_in"), (of.BYTES_OUT, "bytes_out")):
        by_topic = [((topic,), count) for topic, each in topics if (count := getattr(each, name))]
        yield Family(metric, [((), getattr(total, name)), *by_topic])
    yield _one(of.REPLICATION_BYTES_IN, traffic.replication_bytes_in)
    yield _one(of.REPLICATION_BYTES_OUT, traffic.replication_bytes_out)
    produces, consumers, followers = (requests.of(name) for name in ("Produce", "FetchConsumer", "FetchFollower"))
    yield _one(of.PRODUCE_REQUESTS, produces.count)
    yield _one(of.FETCH_REQUESTS, consumers.count)
    yield _one(of.FAILED_PRODUCES, produces.errors.total())
    yield _one(of.FAILED_FETCHES, consumers.errors.total() + followers.errors.total())


def _requests(requests: Requests) -> Families:
    used = sorted((each for each in requests if each.count), key=lambda each: each.name)
    yield Family(of.REQUESTS, [((each.name,), each.count) for each in used])
    yield Family(of.ERRORS, [((each.name, name), count) for each in used for name, count in _errors(each)])
    yield Family(of.REQUEST_TIMES, [((each.name,), each) for each in used])


def _errors(requests: ApiRequests) -> list[tuple[str, int]]:
    return [(ErrorCode.of(code).name, count) for code, count in sorted(requests.errors.items())]


def _purgatories(replicas: Replicas) -> Families:
    purgatories: dict[str, tuple[Purgatory[object], ...]] = {
        "Produce": (replicas.waiting.produces,),
        "Fetch": (replicas.waiting.consumer_fetches, replicas.waiting.follower_fetches),
    }
    watched = [((name,), sum(each.watched for each in all_)) for name, all_ in purgatories.items()]
    yield Family(of.PURGATORY, watched)
    delayed = [((name,), sum(each.delayed for each in all_)) for name, all_ in purgatories.items()]
    yield Family(of.DELAYED, delayed)


class PartitionSums:
    """Of all replicas of the node."""

    def __init__(self) -> None:
        self.count = self.led = self.under_replicated = self.under_min_isr = self.at_min_isr = self.reassigning = 0
        self.sizes: dict[str, int] = {}

    def add(self, partition: Partition, image: MetadataImage) -> None:
        """Count one; ``image`` knows whether it is being reassigned."""
        tp, sizes, leader = partition.topic_partition, self.sizes, partition.replica.leader
        sizes[tp.topic] = sizes.get(tp.topic, 0) + partition.log.size_in_bytes
        self.count += 1
        if leader is None:
            return
        self.led += 1
        self.under_min_isr += leader.is_under_min_isr
        self.at_min_isr += leader.is_at_min_isr
        wanted, state = len(leader.replicas), image.partition(tp)
        if state is not None and (state.adding_replicas or state.removing_replicas):
            self.reassigning += 1
            wanted = len(state.original_replicas)
        self.under_replicated += leader.isr_size < wanted


def _partitions(sources: Sources) -> Families:
    data, image = sources.data, sources.control.metadata.image
    sums = PartitionSums()
    for partition in data.replicas:
        sums.add(partition, image)
        if not sums.count % PORTION:
            yield None
    yield _one(of.PARTITIONS, sums.count)
    yield _one(of.LEADERS, sums.led)
    yield _one(of.UNDER_REPLICATED, sums.under_replicated)
    yield _one(of.UNDER_MIN_ISR, sums.under_min_isr)
    yield _one(of.AT_MIN_ISR, sums.at_min_isr)
    yield _one(of.REASSIGNING, sums.reassigning)
    yield _one(of.OFFLINE_REPLICAS, len(data.replicas.offline))
    yield _one(of.ISR_SHRINKS, sources.isr_changes.shrinks)
    yield _one(of.ISR_EXPANDS, sources.isr_changes.expands)
    yield _one(of.MAX_LAG, data.fetchers.max_lag(), "Replica")
    yield Family(of.LOG_SIZE, [((topic,), size) for topic, size in sorted(sums.sizes.items())])
    yield _one(of.OFFLINE_DIRECTORIES, len(data.store.directories) - len(data.store.online))


def _controller(control: ControlPlane) -> Families:
    """Only the active controller's image is sure to be the cluster's."""
    is_active = control.controller.is_active
    image = control.metadata.image if is_active else MetadataImage()
    partitions = offline = imbalanced = 0
    for _topic, _index, partition in image.partitions():
        partitions += 1
        offline += partition.leader == NO_NODE
        imbalanced += partition.leader != partition.preferred_leader
        if not partitions % (10 * PORTION):
            yield None
    fenced = sum(not broker.is_live for broker in image.brokers.values())
    yield _one(of.ACTIVE_CONTROLLER, is_active)
    yield _one(of.GLOBAL_TOPICS, len(image.topics()))
    yield _one(of.GLOBAL_PARTITIONS, partitions)
    yield _one(of.OFFLINE_PARTITIONS, offline)
    yield _one(of.IMBALANCE, imbalanced)
    yield _one(of.ACTIVE_BROKERS, len(image.brokers) - fenced)
    yield _one(of.FENCED_BROKERS, fenced)


def _quorum(control: ControlPlane) -> Families:
    raft = control.raft.machine
    yield _one(of.RAFT_LEADER, NO_NODE if raft.leader is None else raft.leader)
    yield _one(of.RAFT_EPOCH, raft.epoch)
    yield _one(of.RAFT_HIGH_WATERMARK, raft.high_watermark)
    yield _one(of.RAFT_END, raft.log.log_end_offset)
    yield _one(of.RAFT_STATE, 1, raft.role)
    yield _one(of.METADATA_APPLIED, control.metadata.applied_offset - 1)
    yield _one(of.BROKER_STATE, _broker_state(control.lifecycle))


def _broker_state(lifecycle: Lifecycle) -> int:
    """As Kafka numbers them."""
    if lifecycle.is_leaving:
        return 6
    if lifecycle.broker_epoch < 0:
        return 1
    return 2 if lifecycle.is_fenced else 3


def _groups(groups: Groups) -> Families:
    states: Counter[str] = Counter()
    for shard in groups:
        states.update(group.state.value for group in shard.coordinator.shard.groups.values())
        yield None
    yield _one(of.GROUPS, states.total())
    for state, metric in of.GROUPS_BY_STATE.items():
        yield _one(metric, states[state])


def _logins(listeners: Listeners) -> Families:
    logins = {each.name: listeners.logins.get(each.name, Logins()) for each in listeners}
    handshakes = {each.name: each.failed_handshakes for each in listeners}
    yield Family(of.AUTHENTICATED, [((name,), each.accepted) for name, each in logins.items()])
    yield Family(of.NOT_AUTHENTICATED, [((name,), each.refused + handshakes[name]) for name, each in logins.items()])
    yield Family(of.REAUTHENTICATED, [((name,), each.renewed) for name, each in logins.items()])
    yield Family(of.NOT_REAUTHENTICATED, [((name,), each.not_renewed) for name, each in logins.items()])
    yield Family(of.FAILED_HANDSHAKES, [((name,), count) for name, count in handshakes.items()])


def _connections(listeners: Listeners) -> Families:
    yield Family(of.CONNECTIONS, [((each.name,), each.connection_count) for each in listeners])
    yield Family(of.CONNECTIONS_MADE, [((each.name,), each.accepted) for each in listeners])
    yield from _logins(listeners)
    yield Family(of.HELD_BYTES, [((each.name,), each.held_bytes) for each in listeners])
