"""DescribeQuorum (key 55), versions 0-2: the controller quorum, and how far its voters and observers are (KIP-595).

Asked of the quorum's leader, which alone knows; log directories of voters are not reported.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.quorum import Quorum
from minikafka.config import BrokerConfig
from minikafka.config.node import CONTROLLER
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import CLUSTER_METADATA_TOPIC
from minikafka.raft.progress import QuorumInfo, QuorumReplica
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

AUTHORIZATION: Final = (Whole(AclOperation.DESCRIBE, ResourceType.CLUSTER),)


async def handle(
    request: DescribeQuorumRequest, context: RequestContext, quorum: Quorum, config: BrokerConfig
) -> DescribeQuorumResponse:
    """The metadata log's only partition; any other is not a quorum's."""
    try:
        report = await quorum.describe()
    except KafkaError as error:
        return DescribeQuorumResponse(error_code=error.code, error_message=error.told)
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[_partition(topic.topic_name, each.partition_index, report) for each in topic.partitions],
            )
            for topic in request.topics
        ],
        nodes=[
            Node(node_id=voter, listeners=[Listener(name=CONTROLLER, host=endpoint.host, port=endpoint.port)])
            for voter, endpoint in sorted(config.voters.items())
        ],
    )


def _partition(topic: str, index: int, report: QuorumInfo) -> ResponsePartitionData:
    if (topic, index) != (CLUSTER_METADATA_TOPIC, 0):
        return ResponsePartitionData(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"only partition 0 of {CLUSTER_METADATA_TOPIC} has a quorum",
        )
    return ResponsePartitionData(
        partition_index=index,
        error_message=None,
        leader_id=report.leader_id,
        leader_epoch=report.leader_epoch,
        high_watermark=report.high_watermark,
        current_voters=[_replica(replica) for replica in report.voters],
        observers=[_replica(replica) for replica in report.observers],
    )


def _replica(replica: QuorumReplica) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.replica_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )
