"""AddOffsetsToTxn (key 25), versions 0-4: the transaction will commit offsets of a group.

That is, it writes to the group's partition of ``__consumer_offsets``, which is created if it is not there.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.topic_creation import TopicCreation
from minikafka.broker.transaction_coordinators import CLASSIC, TransactionCoordinators, told
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import CONSUMER_OFFSETS_TOPIC, ProducerIdentity, TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

AUTHORIZATION: Final = (
    Whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
    Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),
)

FIRST_WITH_FENCED: Final = 2


async def handle(
    request: AddOffsetsToTxnRequest,
    context: RequestContext,
    coordinators: TransactionCoordinators,
    groups: Groups,
    topic_creation: TopicCreation,
) -> AddOffsetsToTxnResponse:
    """Add the group's partition."""
    try:
        partition = await _partition(request.group_id, groups, topic_creation)
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    outcome = await coordinators.ask_when_complete(
        request.transactional_id,
        lambda coordinator, token, now_ms: coordinator.add_partitions(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            (partition,),
            CLASSIC,
            token,
            now_ms,
        ),
    )
    return AddOffsetsToTxnResponse(error_code=told(outcome.error, context.version, FIRST_WITH_FENCED))


async def _partition(group_id: str, groups: Groups, topic_creation: TopicCreation) -> TopicPartition:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if groups.partition_of(group_id) is None:
        await topic_creation.create_internal(CONSUMER_OFFSETS_TOPIC)
    partition = groups.partition_of(group_id)
    if partition is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the offsets topic is being created")
    return partition
