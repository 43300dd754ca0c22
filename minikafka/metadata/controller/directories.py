"""The log directory of each replica (KIP-858).

A broker reports three things: the ids of its online directories when it registers; failed directories with its
heartbeats; and the directory of each replica that it has placed or moved, even if that directory has failed since.
Replicas in a failed directory can neither lead nor be in sync. The broker's other replicas go on. A broker with a
single directory reports no replicas: they are there from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.partition_change import directories_of
from minikafka.metadata.controller.partitions import change_records, settle
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.image import BrokerImage, PartitionImage
from minikafka.metadata.records import BrokerChangeRecord, PartitionChangeRecord
from minikafka.model import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from minikafka.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest


def check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    """The ids of directories must be unique in the cluster."""
    named = request.log_dirs
    if len(set(named)) != len(named) or UNASSIGNED_DIRECTORY in named:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION,
            f"the log directories of broker {request.broker_id} have ids {list(map(str, named))}; each needs its own",
        )
    for other in state.image.brokers.values():
        shared = set(named) & set(other.log_dirs) if other.broker_id != request.broker_id else None
        if shared:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"log directory {min(shared)} of broker {request.broker_id} is registered by broker {other.broker_id}; "
                "it was copied, and meta.properties with it",
            )


def fail_directories(state: ControllerState, broker: BrokerImage, failed: Collection[UUID]) -> BrokerImage:
    """Directories of a broker are offline: settle their replicas. Returns the changed broker."""
    left = tuple(one for one in broker.log_dirs if one not in failed)
    if not left or left == broker.log_dirs:
        return broker
    state.write(BrokerChangeRecord(broker.broker_id, broker.broker_epoch, log_dirs=left))
    settle(state, [broker.broker_id])
    return state.image.brokers[broker.broker_id]


def have_all_failed(broker: BrokerImage, failed: Collection[UUID]) -> bool:
    """True when no directory is left. The image keeps the last ones; the broker is fenced instead."""
    return bool(broker.log_dirs) and set(broker.log_dirs) <= set(failed)


def assign_replicas_to_dirs(
    state: ControllerState, request: AssignReplicasToDirsRequest
) -> Callable[[], AssignReplicasToDirsResponse]:
    """Record each assignment on its own, in portions; a known one changes nothing. A directory that is not online takes
    the replica offline.

    Errors of the whole: STALE_BROKER_EPOCH. Of an assignment: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
    NOT_LEADER_OR_FOLLOWER (no replica of it is placed there).
    """
    broker = state.registered(request.broker_id, request.broker_epoch)

    response = AssignReplicasToDirsResponse(directories=[])
    state.postpone(_assigned(state, broker, request, response))
    return lambda: response


def _assigned(
    state: ControllerState,
    broker: BrokerImage,
    request: AssignReplicasToDirsRequest,
    response: AssignReplicasToDirsResponse,
) -> Iterator[Iterable[PartitionChangeRecord]]:
    for directory in request.directories:
        topics: list[TopicResult] = []
        response.directories.append(DirectoryResult(id=directory.id, topics=topics))
        for topic in directory.topics:
            results: list[PartitionResult] = []
            topics.append(TopicResult(topic_id=topic.topic_id, partitions=results))
            for index in (one.partition_index for one in topic.partitions):
                try:
                    _assign(state, broker, topic.topic_id, index, directory.id)
                except KafkaError as error:
                    code, message = error.code, error.message
                    results.append(PartitionResult(partition_index=index, error_code=code, error_message=message))
                else:
                    results.append(PartitionResult(partition_index=index))
                yield ()


def _assign(state: ControllerState, broker: BrokerImage, topic_id: UUID, index: int, directory: UUID) -> None:
    topic = state.topic_by_id(topic_id)
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has no partition {index}")
    if broker.broker_id not in partition.replicas:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker.broker_id} has no replica of {topic.name}-{index}"
        )
    is_back = state.is_offline(partition, broker.broker_id) and broker.is_online(directory)
    gone = [broker.broker_id] if is_back and not _takes_back(partition, broker.broker_id) else ()
    wanted = _placed(partition, broker.broker_id, directory)
    around = state.circumstances(topic, wanted, gone=gone)
    state.write(*change_records(topic, index, partition, wanted, around))


def _takes_back(partition: PartitionImage, broker_id: int) -> bool:
    """True when a damaged replica withdraws its claim to be lost: no replica is complete, and it may have the only
    copy.

    Otherwise a replica of a failed directory begins anew, empty.
    """
    return partition.directory_id_of(broker_id) == LOST_DIRECTORY and not partition.isr and not partition.elr


def _placed(partition: PartitionImage, broker_id: int, directory: UUID) -> PartitionImage:
    return replace(
        partition,
        directories=directories_of(
            directory if replica == broker_id else partition.directory_id_of(replica) for replica in partition.replicas
        ),
    )
