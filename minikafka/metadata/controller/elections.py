"""Elections that are asked for, and leadership that goes back to preferred leaders by itself (row C4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import (
    ElectionType,
    ElectLeaders,
    ElectLeadersResponse,
    ElectLeadersResult,
)
from minikafka.metadata.controller.partitions import change_record, settled
from minikafka.metadata.controller.state import ControllerState, Standing
from minikafka.metadata.image import PartitionImage, TopicImage
from minikafka.metadata.records import PartitionChangeRecord
from minikafka.model import NO_NODE, TopicPartition

ELECTIONS_PER_REBALANCE_MAX: Final = 1000


def elect_leaders(state: ControllerState, command: ElectLeaders) -> ElectLeadersResponse:
    """Each partition on its own; when all are asked for, those that need nothing are not reported."""
    if command.partitions is not None:
        return ElectLeadersResponse(tuple(_elect(state, where, command.election_type) for where in command.partitions))
    everywhere = [TopicPartition(topic.name, index) for topic, index, _ in state.image.partitions()]
    results = (_elect(state, where, command.election_type) for where in sorted(everywhere))
    return ElectLeadersResponse(tuple(r for r in results if r.error is not ErrorCode.ELECTION_NOT_NEEDED))


def _elect(state: ControllerState, where: TopicPartition, election_type: ElectionType) -> ElectLeadersResult:
    try:
        topic = state.topic(where.topic)
        partition = topic.partitions.get(where.partition)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {where}")
        elect = _preferred if election_type is ElectionType.PREFERRED else _any_live
        leader, isr = elect(state, where, partition)
    except KafkaError as error:
        return ElectLeadersResult(where.topic, where.partition, error.code, error.message)
    change = change_record(topic, where.partition, partition, leader, isr)
    assert change is not None
    state.write(change)
    return ElectLeadersResult(where.topic, where.partition)


def _preferred(state: ControllerState, where: TopicPartition, partition: PartitionImage) -> tuple[int, tuple[int, ...]]:
    preferred = partition.preferred_leader
    if partition.leader == preferred:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{where} is led by its preferred leader {preferred}")
    if not _can_take_over(state, partition):
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} is not alive and in sync for {where}"
        )
    return preferred, partition.isr


def _any_live(state: ControllerState, where: TopicPartition, partition: PartitionImage) -> tuple[int, tuple[int, ...]]:
    if partition.leader != NO_NODE:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{where} is led by broker {partition.leader}")
    leader, isr = settled(partition, state.standing, lambda: True)
    if leader == NO_NODE:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {where} is alive")
    return leader, isr


def _can_take_over(state: ControllerState, partition: PartitionImage) -> bool:
    preferred = partition.preferred_leader
    return preferred in partition.isr and state.standing(preferred) is Standing.AVAILABLE


def rebalance_leaders(state: ControllerState) -> None:
    """Give leadership to every preferred leader that can take it, a bounded number at a time."""
    state.write(*islice(_takeovers(state), ELECTIONS_PER_REBALANCE_MAX))


def _takeovers(state: ControllerState) -> Iterator[PartitionChangeRecord]:
    for topic, index, partition in state.image.partitions():
        if partition.leader != partition.preferred_leader and _can_take_over(state, partition):
            yield _led_by_preferred(topic, index, partition)


def _led_by_preferred(topic: TopicImage, index: int, partition: PartitionImage) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic.topic_id, index, leader=partition.preferred_leader)
