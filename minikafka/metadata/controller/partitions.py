"""Leaders and ISRs of partitions (rows C4, R20): elections, and ISR changes that leaders propose.

Two parties change a partition. The leader proposes its ISR (:func:`alter_partition`). The controller acts when the
standing of a broker, a log directory or a setting changes (:func:`settle`). Each change begins a new partition epoch,
and a proposal from an older epoch is refused. So neither party overwrites a change that it has not seen. Each election
begins a new leader epoch, which fences the former leader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.partition_change import (
    NOBODY,
    Circumstances,
    change_record,
    completed,
    settled,
)
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.image import PartitionImage, TopicImage
from minikafka.metadata.records import PartitionChangeRecord
from minikafka.model import NO_EPOCH
from minikafka.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    AlterPartitionTopicResult,
    BrokerState,
)

LostOf = Callable[[UUID, int], Collection[int]]
"""Of a topic id and a partition: which replicas may have lost committed records."""


def nobody(_topic_id: UUID, _partition: int) -> Collection[int]:
    """For changes in which no replica lost records."""
    return NOBODY


# -- the controller's own changes -------------------------------------------------------------------------------------


def settle(
    state: ControllerState,
    brokers: Iterable[int],
    *,
    lost: LostOf = nobody,
) -> None:
    """The standing of ``brokers`` changed: decide leader, ISR and ELR of every partition with a replica on them.

    ``lost`` gives the brokers that may have lost records of a partition. It runs in portions, after the other decisions
    of the request.
    """
    state.postpone(_settled_of(state, frozenset(brokers), lost))


def _settled_of(
    state: ControllerState, brokers: frozenset[int], lost: LostOf
) -> Iterator[Iterable[PartitionChangeRecord]]:
    for topic, index, partition in state.image.partitions():
        is_affected = not brokers.isdisjoint(partition.replicas)
        yield _settled_one(state, topic, index, partition, lost) if is_affected else ()


def settle_topics(state: ControllerState, topics: Iterable[TopicImage]) -> None:
    """An input of the rule changed for these topics: decide their partitions anew. In portions, as :func:`settle`."""
    state.postpone(_settled_in(state, [topic.topic_id for topic in topics]))


def _settled_in(state: ControllerState, topic_ids: Iterable[UUID]) -> Iterator[Iterable[PartitionChangeRecord]]:
    for topic_id in topic_ids:
        topic = state.topic_by_id(topic_id)  # its present state
        for index, partition in topic.partitions.items():
            yield _settled_one(state, topic, index, partition)


def _settled_one(
    state: ControllerState,
    topic: TopicImage,
    index: int,
    partition: PartitionImage,
    lost: LostOf = nobody,
) -> list[PartitionChangeRecord]:
    around = state.circumstances(topic, partition, lost=lost(topic.topic_id, index))
    return list(change_records(topic, index, partition, partition, around))


def renew_partition_epochs(state: ControllerState, topics: Iterable[TopicImage]) -> None:
    """Refuse proposals of these topics' leaders until they have replayed all records up to now. In portions, as
    :func:`settle`."""
    partitions = ((topic.topic_id, index) for topic in topics for index in topic.partitions)
    state.postpone([PartitionChangeRecord(*one)] for one in partitions)


def change_records(
    topic: TopicImage, index: int, before: PartitionImage, wanted: PartitionImage, around: Circumstances
) -> Iterator[PartitionChangeRecord]:
    """Records that turn ``before`` into ``wanted``, as far as the rule allows, and complete a finished reassignment."""
    after = settled(before, wanted, around)
    change = change_record(topic.topic_id, index, before, after, around.gone)
    if change is not None:
        yield change
    complete = completed(after, around)
    if complete is not None:
        completion = change_record(topic.topic_id, index, after, complete)
        assert completion is not None
        yield completion


# -- proposals of leaders ---------------------------------------------------------------------------------------------


def alter_partition(state: ControllerState, request: AlterPartitionRequest) -> Callable[[], AlterPartitionResponse]:
    """Validate and record ISR proposals, each on its own, in portions: a broker that dies leaves the ISRs of thousands.

    Errors of the whole: STALE_BROKER_EPOCH. Of a proposal: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
    NOT_CONTROLLER (the leader knows later epochs), FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION (an older partition
    epoch), INELIGIBLE_REPLICA (fenced, stopping, or another incarnation), INVALID_REQUEST.
    """
    state.registered(request.broker_id, request.broker_epoch)

    response = AlterPartitionResponse(topics=[])
    state.postpone(_altered(state, request, response))
    return lambda: response


def _altered(
    state: ControllerState, request: AlterPartitionRequest, response: AlterPartitionResponse
) -> Iterator[Iterable[PartitionChangeRecord]]:
    """Written here, since the answer has the result."""
    for topic in request.topics:
        results: list[AlterPartitionResult] = []
        response.topics.append(AlterPartitionTopicResult(topic_id=topic.topic_id, partitions=results))
        for change in topic.partitions:
            try:
                result = _alter_one(state, request.broker_id, topic.topic_id, change)
            except KafkaError as error:
                index, code, message = change.partition_index, error.code, error.message
                result = AlterPartitionResult(partition_index=index, error_code=code, error_message=message)
            results.append(result)
            yield ()


def _alter_one(
    state: ControllerState, proposer: int, topic_id: UUID, change: AlterPartitionData
) -> AlterPartitionResult:
    topic, index = state.topic_by_id(topic_id), change.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has no partition {index}")
    _check_proposal(state, proposer, partition, change)
    proposed = {member.broker_id for member in change.new_isr_with_epochs}
    isr = tuple(replica for replica in partition.replicas if replica in proposed)
    around = state.circumstances(topic, partition)
    after = settled(partition, replace(partition, isr=isr), around)
    # Also when nothing changes: the new partition epoch voids proposals that are still on their way. A leader that got
    # no answer asks for this before it counts the committed ISR alone again.
    record = change_record(topic_id, index, partition, after)
    state.write(record or PartitionChangeRecord(topic_id, index))
    altered = state.topic_by_id(topic_id).partitions[index]
    # A reassignment that completes by this does so in a change of its own, which this answer does not have: until
    # it has the new assignment from the metadata, it proposes nothing that is accepted.
    state.write(*change_records(topic, index, altered, altered, around))
    return AlterPartitionResult(
        partition_index=index,
        leader_id=altered.leader,
        leader_epoch=altered.leader_epoch,
        isr=list(altered.isr),
        partition_epoch=altered.partition_epoch,
    )


def _check_proposal(
    state: ControllerState, proposer: int, partition: PartitionImage, change: AlterPartitionData
) -> None:
    """Row R20: only the current leader may propose, from the current state, and only eligible members."""
    if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the leader knows a later epoch than this controller")
    if change.leader_epoch < partition.leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {partition.leader_epoch} is current, not {change.leader_epoch}",
        )
    if proposer != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {proposer} does not lead the partition")
    if change.partition_epoch < partition.partition_epoch:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"partition epoch {partition.partition_epoch} is current, not {change.partition_epoch}",
        )
    members = [member.broker_id for member in change.new_isr_with_epochs]
    if len(set(members)) != len(members) or not set(members) <= set(partition.replicas) or proposer not in members:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"ISR {members} must have the leader {proposer} and otherwise only replicas of {list(partition.replicas)}",
        )
    for member in change.new_isr_with_epochs:
        problem = _ineligible(state, partition, member)
        if problem is not None:
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"broker {member.broker_id} {problem}")


def _ineligible(state: ControllerState, partition: PartitionImage, member: BrokerState) -> str | None:
    """Why a broker may not be in the ISR, for example because it is another process than the leader saw (KIP-903)."""
    broker = state.image.broker(member.broker_id)
    if broker is None or broker.fenced:
        return "is fenced"
    if broker.in_controlled_shutdown:
        return "is stopping"
    if state.is_offline(partition, member.broker_id):
        return "has its replica in a log directory that failed"
    if member.broker_epoch == NO_EPOCH and member.broker_id in partition.isr:
        return None
    if member.broker_epoch != broker.broker_epoch:
        return f"is registered in epoch {broker.broker_epoch}, not {member.broker_epoch}"
    return None
