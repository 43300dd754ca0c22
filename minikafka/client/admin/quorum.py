"""The controllers' quorum."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.client.admin.base import AdminCalls, check
from minikafka.errors import ErrorCode
from minikafka.model import CLUSTER_METADATA_TOPIC
from minikafka.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The metadata quorum as its leader sees it: log end offsets of voters and observers, by node id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: dict[int, int]
    observers: dict[int, int]


class QuorumCalls(AdminCalls):
    """Calls about the quorum."""

    async def describe_quorum(self) -> QuorumView:
        """The quorum. KafkaError(NOT_CONTROLLER), with the broker's reason, at once when it has no leader (KIP-595)."""
        partition = RequestPartitionData(partition_index=0)
        request = DescribeQuorumRequest(
            topics=[RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
        )

        async def attempt() -> QuorumView:
            answer = await self._connections.call_once(request, DescribeQuorumResponse, self._answer_s)
            check(answer.error_code, answer.error_message, "describing the quorum")
            found = answer.topics[0].partitions[0]
            check(found.error_code, found.error_message, "describing the quorum")
            return QuorumView(
                found.leader_id,
                found.leader_epoch,
                found.high_watermark,
                _ends(found.current_voters),
                _ends(found.observers),
            )

        return await self._retrying(attempt, "describing the quorum", final=ErrorCode.NOT_CONTROLLER)


def _ends(replicas: list[ReplicaState]) -> dict[int, int]:
    return {replica.replica_id: replica.log_end_offset for replica in replicas}
