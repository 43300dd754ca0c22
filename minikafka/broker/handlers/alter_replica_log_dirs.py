"""AlterReplicaLogDirs (key 34), versions 1-2: move replicas of this broker between its log directories (row A5).

Answered when the moves have begun. DescribeLogDirs shows the future replicas until they replace the current ones.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.moves import DirectoryMoves
from minikafka.broker.pacing import paced
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import CLUSTER_METADATA_TOPIC, TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

AUTHORIZATION: Final = (ByHandler("ALTER on the cluster", ((AclOperation.ALTER, ResourceType.CLUSTER),)),)

AT_ONCE: Final = 20
"""Moves that begin in one turn of the loop: the files of a copy are made there, in half a millisecond and more."""


async def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext, moves: DirectoryMoves, authorizer: Authorizer
) -> AlterReplicaLogDirsResponse:
    """Each partition on its own."""
    may = authorizer.permits(context, AclOperation.ALTER, ResourceType.CLUSTER)
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    asked = (
        (TopicPartition(topic.name, index), directory.path)
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    )
    async for tp, path in paced(asked, AT_ONCE, context):
        error = await _begin(moves, tp, path) if may else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        result = AlterReplicaLogDirPartitionResult(partition_index=tp.partition, error_code=error)
        results.setdefault(tp.topic, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


async def _begin(moves: DirectoryMoves, tp: TopicPartition, path: str) -> ErrorCode:
    try:
        if tp.topic == CLUSTER_METADATA_TOPIC or tp.partition < 0:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"cannot move {tp}")
        await moves.forget_former(tp, path)
        moves.request(tp, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
