"""Elections on request, and the periodic election of preferred leaders (row C4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from enum import IntEnum
from itertools import islice
from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.partition_change import settled
from minikafka.metadata.controller.partitions import change_records
from minikafka.metadata.controller.standing import Standing
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.image import PartitionImage, TopicImage
from minikafka.metadata.records import PartitionChangeRecord
from minikafka.model import NO_NODE, TopicPartition
from minikafka.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

ELECTIONS_PER_REBALANCE_MAX: Final = 1000

Elect = Callable[[ControllerState, TopicImage, TopicPartition, PartitionImage], Iterator[PartitionChangeRecord]]
Elected = tuple[Collection[PartitionChangeRecord], PartitionResult]


class ElectionType(IntEnum):
    """Type of an election (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> Callable[[], ElectLeadersResponse]:
    """Elect the preferred leader, or for an offline partition any live replica; each partition on its own, in portions.
    If the request names no partitions, those that need no election are not reported.

    Errors of the whole: INVALID_REQUEST. Of a partition: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED,
    PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    elect = _ELECTIONS.get(request.election_type)
    if elect is None:
        message = f"election type {request.election_type} is neither preferred (0) nor unclean (1)"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    results: dict[str, list[PartitionResult]] = {}
    if request.topic_partitions is None:
        state.postpone(_elections(state, _everywhere(state), elect, results, untold=ErrorCode.ELECTION_NOT_NEEDED))
    else:
        named = (TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions)
        state.postpone(_elections(state, dict.fromkeys(named), elect, results))
    return lambda: _response(results)


def _response(results: dict[str, list[PartitionResult]]) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=partitions) for topic, partitions in results.items()
        ]
    )


def _everywhere(state: ControllerState) -> Iterator[TopicPartition]:
    for name, topic in sorted(state.image.topics_by_name.items()):
        for index in sorted(topic.partitions):
            yield TopicPartition(name, index)


def _elections(
    state: ControllerState,
    partitions: Iterable[TopicPartition],
    elect: Elect,
    results: dict[str, list[PartitionResult]],
    *,
    untold: ErrorCode | None = None,
) -> Iterator[Iterable[PartitionChangeRecord]]:
    for tp in partitions:
        records, result = _elected(state, tp, elect)
        if result.error_code != untold:
            results.setdefault(tp.topic, []).append(result)
        yield records


def _elected(state: ControllerState, tp: TopicPartition, elect: Elect) -> Elected:
    """ELECTION_NOT_NEEDED if the partition has the right leader."""
    try:
        topic = state.topic(tp.topic)
        partition = topic.partitions.get(tp.partition)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {tp} not found")
        records = list(elect(state, topic, tp, partition))
    except KafkaError as error:
        failed = PartitionResult(partition_id=tp.partition, error_code=error.code, error_message=error.message)
        return (), failed
    return records, PartitionResult(partition_id=tp.partition, error_message=None)


def _preferred(
    state: ControllerState, topic: TopicImage, tp: TopicPartition, partition: PartitionImage
) -> Iterator[PartitionChangeRecord]:
    preferred = partition.preferred_leader
    if partition.leader == preferred:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{tp} is led by its preferred leader {preferred}")
    if not _can_take_over(state, partition):
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} is not alive and in sync for {tp}"
        )
    return _led_by_preferred(state, topic, tp.partition, partition)


def _unclean(
    state: ControllerState, topic: TopicImage, tp: TopicPartition, partition: PartitionImage
) -> Iterator[PartitionChangeRecord]:
    if partition.leader != NO_NODE:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{tp} is led by broker {partition.leader}")
    around = state.circumstances(topic, partition, unclean=True)
    if settled(partition, partition, around).leader == NO_NODE:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {tp} is alive")
    return change_records(topic, tp.partition, partition, partition, around)


_ELECTIONS: Final[dict[int, Elect]] = {ElectionType.PREFERRED: _preferred, ElectionType.UNCLEAN: _unclean}


def _can_take_over(state: ControllerState, partition: PartitionImage) -> bool:
    """True when the preferred leader is in sync, alive, not stopping, in an online directory, and not to be removed."""
    preferred = partition.preferred_leader
    return (
        preferred in partition.isr
        and preferred not in partition.removing_replicas
        and state.standing(preferred) is Standing.AVAILABLE
        and not state.is_offline(partition, preferred)
    )


def rebalance_leaders(state: ControllerState) -> None:
    """Give leadership to the preferred leaders that can take it, a bounded number at a time; only for
    brokers that lack more of their leaderships than ``leader.imbalance.per.broker.percentage``."""
    imbalanced = _imbalanced(state)
    state.write(*islice(_takeovers(state, imbalanced), ELECTIONS_PER_REBALANCE_MAX))


def _imbalanced(state: ControllerState) -> frozenset[int]:
    """The brokers that lack too many of their leaderships."""
    preferred: Counter[int] = Counter()
    lacking: Counter[int] = Counter()
    for _, _, partition in state.image.partitions():
        preferred[partition.preferred_leader] += 1
        lacking[partition.preferred_leader] += partition.leader != partition.preferred_leader
    percentage = state.config.leader_imbalance_per_broker_percentage
    return frozenset(one for one, count in lacking.items() if count * 100 > percentage * preferred[one])


def _takeovers(state: ControllerState, imbalanced: Collection[int]) -> Iterator[PartitionChangeRecord]:
    for topic, index, partition in state.image.partitions():
        preferred = partition.preferred_leader
        if preferred in imbalanced and partition.leader != preferred and _can_take_over(state, partition):
            yield from _led_by_preferred(state, topic, index, partition)


def _led_by_preferred(
    state: ControllerState, topic: TopicImage, index: int, partition: PartitionImage
) -> Iterator[PartitionChangeRecord]:
    wanted = replace(partition, leader=partition.preferred_leader)
    return change_records(topic, index, partition, wanted, state.circumstances(topic, partition))
