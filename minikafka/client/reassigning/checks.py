"""Checks of a plan against the cluster: an impossible plan is refused before anything changes (row A2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from minikafka.client.admin import LogDirectory, Reassignment
from minikafka.client.cluster import Cluster, PartitionView
from minikafka.client.reassigning.plan import Placement, Plan, PlanError
from minikafka.model import TopicPartition


def check_plan(plan: Plan, cluster: Cluster, *, allow_replication_factor_change: bool = True) -> None:
    """PlanError naming the first entry with an unknown partition, a broker that is not alive, or another replication
    factor where that may not be."""
    for tp, placement in plan.items():
        partition = _partition(tp, cluster)
        for broker in placement.replicas:
            if broker not in cluster.brokers:
                raise PlanError(f"{tp}: broker {broker} is not alive; {_live(cluster.brokers)}")
        before = len(partition.replicas)
        if not allow_replication_factor_change and len(placement.replicas) != before:
            raise PlanError(
                f"{tp}: {len(placement.replicas)} replicas instead of {before}, and "
                "--disallow-replication-factor-change was given"
            )


def check_nothing_under_way(ongoing: Collection[TopicPartition]) -> None:
    """PlanError while anything is being reassigned."""
    if ongoing:
        names = ", ".join(map(str, sorted(ongoing)[:5])) + (", ..." if len(ongoing) > 5 else "")
        raise PlanError(
            f"a reassignment is in progress ({names}); use --additional to begin another, which replaces "
            "those of the same partitions, or --cancel to end it"
        )


def check_directories(plan: Plan, directories: Mapping[int, Iterable[LogDirectory]]) -> None:
    """PlanError naming the first log directory that its broker does not have, or that cannot be used."""
    for tp, placement in plan.items():
        for broker, path in placement.directories():
            usable = [each.path for each in directories.get(broker, ()) if not each.error]
            if path not in usable:
                raise PlanError(
                    f"{tp}: broker {broker} has no usable log directory {path}; it has {', '.join(usable) or 'none'}"
                )


def current_assignment(cluster: Cluster, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """Where the partitions of these topics are. PlanError naming one that is not there."""
    assignment = {}
    for name in topics:
        topic = cluster.topics.get(name)
        if topic is None or topic.error:
            raise PlanError(f"topic {name!r} not found")
        for index, partition in sorted(topic.partitions.items()):
            assignment[TopicPartition(name, index)] = partition.replicas
    return assignment


def check_brokers(brokers: Iterable[int], cluster: Cluster) -> None:
    """PlanError naming the first broker that is not alive, or is named twice."""
    seen: set[int] = set()
    for broker in brokers:
        if broker not in cluster.brokers:
            raise PlanError(f"broker {broker} is not alive; {_live(cluster.brokers)}")
        if broker in seen:
            raise PlanError(f"duplicate broker {broker}")
        seen.add(broker)


def in_plan(
    plan: Plan, current: Mapping[TopicPartition, tuple[int, ...]], ongoing: Mapping[TopicPartition, Reassignment]
) -> Plan:
    """Where the partitions of a plan are, as a plan: what would undo it. Replicas that are only coming are left out."""
    coming = {tp: each.adding for tp, each in ongoing.items()}
    return {tp: Placement(tuple(broker for broker in current[tp] if broker not in coming.get(tp, ()))) for tp in plan}


def _partition(tp: TopicPartition, cluster: Cluster) -> PartitionView:
    topic = cluster.topics.get(tp.topic)
    if topic is None or topic.error:
        raise PlanError(f"{tp}: topic {tp.topic!r} not found")
    partition = topic.partitions.get(tp.partition)
    if partition is None:
        raise PlanError(f"{tp}: topic {tp.topic!r} has partitions 0 to {len(topic.partitions) - 1}")
    return partition


def _live(brokers: Iterable[int]) -> str:
    return f"live brokers are {', '.join(map(str, sorted(brokers)))}"
