"""Reassignment of partitions to other brokers (KIP-455, rows A2-A4): begin, replace, cancel, complete, list.

Theory. All state is in the partition: ``replicas``, ``adding_replicas`` and ``removing_replicas``. The controller
writes two durable records (row A3). The first puts the target's replicas in front of the present ones: the new brokers
begin to follow. Once the whole target is in the ISR, ``partition_change.completed`` writes the second, with the target
alone: the other brokers delete their replicas. In between any controller can carry on from the partition's state.

To replace or cancel a reassignment starts from the same original replicas. Replicas that were only being added are
dropped, unless too few others have their records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.partition_change import Circumstances, min_isr_of, reassigned
from minikafka.metadata.controller.partitions import change_records
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.image import PartitionImage, TopicImage
from minikafka.metadata.records import PartitionChangeRecord
from minikafka.model import CLUSTER_METADATA_TOPIC, TopicPartition
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Callable[[], AlterPartitionReassignmentsResponse]:
    """Begin, replace or cancel reassignments, each partition on its own, in portions.

    Reassignments under way are listed from the image (``adding_replicas``, ``removing_replicas``).

    Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (the metadata log's topic),
    INVALID_REPLICA_ASSIGNMENT (no broker, a broker twice or not alive; or the only replicas with the records would
    go), INVALID_REPLICATION_FACTOR (unless ``allow_replication_factor_change``), NO_REASSIGNMENT_IN_PROGRESS (to
    cancel), INVALID_REQUEST (named twice), POLICY_VIOLATION (a broker would have too many replicas).
    """
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None, responses=[]
    )
    state.postpone(_Request(state, request).carried_out(response))
    return lambda: response


class _Request:
    """State of one request, for all its partitions."""

    def __init__(self, state: ControllerState, request: AlterPartitionReassignmentsRequest) -> None:
        self._state = state
        self._topics = request.topics
        self._allow_replication_factor_change = request.allow_replication_factor_change
        self._named = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
        partitions = chain.from_iterable(topic.partitions.values() for topic in state.image.topics())
        self._replicas_of = Counter(chain.from_iterable(partition.replicas for partition in partitions))

    def carried_out(self, response: AlterPartitionReassignmentsResponse) -> Iterator[Iterable[PartitionChangeRecord]]:
        """The records of each partition. Its result goes into ``response``."""
        for topic in self._topics:
            results: list[ReassignablePartitionResponse] = []
            response.responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
            for wish in topic.partitions:
                records, result = self._result(TopicPartition(topic.name, wish.partition_index), wish)
                results.append(result)
                yield records

    def _result(
        self, tp: TopicPartition, wish: ReassignablePartition
    ) -> tuple[Collection[PartitionChangeRecord], ReassignablePartitionResponse]:
        index = tp.partition
        try:
            if self._named[tp] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"duplicate partition {tp}")
            records = list(self._reassign(tp, None if wish.replicas is None else tuple(wish.replicas)))
        except KafkaError as error:
            code, message = error.code, error.message
            return (), ReassignablePartitionResponse(partition_index=index, error_code=code, error_message=message)
        return records, ReassignablePartitionResponse(partition_index=index, error_message=None)

    def _reassign(self, tp: TopicPartition, replicas: tuple[int, ...] | None) -> Iterator[PartitionChangeRecord]:
        topic, partition = self._find(tp)
        if replicas is None:
            if not partition.is_reassigning:
                raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{tp} is not being reassigned")
            replicas = partition.original_replicas
        else:
            self._check_target(tp, partition, replicas)
        wanted = reassigned(partition, replicas, self._state.directory_for)
        around = self._state.circumstances(topic, partition)
        _check_copies(tp, partition, wanted, around)
        self._check_room(tp, partition, wanted)
        return change_records(topic, tp.partition, partition, wanted, around)

    def _find(self, tp: TopicPartition) -> tuple[TopicImage, PartitionImage]:
        if tp.topic == CLUSTER_METADATA_TOPIC:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{tp} is the metadata log; it is on the voters (controller.quorum.voters) and is not reassigned",
            )
        topic = self._state.topic(tp.topic)
        partition = topic.partitions.get(tp.partition)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {tp} not found")
        return topic, partition

    def _check_target(self, tp: TopicPartition, partition: PartitionImage, replicas: Sequence[int]) -> None:
        """Refuse an impossible target before any change (row A2)."""
        if not replicas:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{tp}: replicas is empty")
        if len(set(replicas)) != len(replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{tp}: duplicate broker in replicas {list(replicas)}"
            )
        for broker_id in replicas:
            problem = self._state.why_not_usable(broker_id)
            if problem is not None:
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{tp}: broker {broker_id} {problem}")
        present = len(partition.original_replicas)
        if len(replicas) != present and not self._allow_replication_factor_change:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{tp} has {present} replicas, {list(replicas)} are {len(replicas)}, and the request does not allow "
                "another replication factor",
            )

    def _check_room(self, tp: TopicPartition, partition: PartitionImage, wanted: PartitionImage) -> None:
        limit = self._state.replicas_per_broker_max
        added = [replica for replica in wanted.replicas if replica not in partition.replicas]
        for broker_id in added:
            if self._replicas_of[broker_id] >= limit:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"{tp}: broker {broker_id} has {limit} replicas, as many as its limit of open files allows; "
                    "raise the limit (ulimit -n), or choose another broker",
                )
        self._replicas_of.update(added)


def _check_copies(tp: TopicPartition, partition: PartitionImage, wanted: PartitionImage, around: Circumstances) -> None:
    """Committed records stay on as many replicas as ``min.insync.replicas`` demands (promise P2).

    A replica that was only being added may have records that others lack: it stays until they have them.
    """
    holders = [*partition.isr, *partition.elr] or list(partition.last_known_elr)
    left = [holder for holder in holders if holder in wanted.replicas]
    needed = min(min_isr_of(partition, around), len(holders))
    if len(left) < needed:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{tp}: acknowledged records are only on {holders}, of which {left or 'none'} would stay; "
            f"min.insync.replicas needs {needed}: wait until others are in sync",
        )
