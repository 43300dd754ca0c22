"""FindCoordinator (key 10), versions 0-6: the leader of the partition that a group or a transactional id hashes to.

Their topics, ``__consumer_offsets`` and ``__transaction_state``, are created when they are first needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from minikafka.broker.authorization import ERRORS, ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.pacing import paced
from minikafka.broker.topic_creation import TopicCreation
from minikafka.coordination.partitioning import partition_for
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

AUTHORIZATION: Final = (
    ByHandler(
        "DESCRIBE on each group or transactional id",
        ((AclOperation.DESCRIBE, ResourceType.GROUP), (AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)),
    ),
)

GROUP, TRANSACTION, BATCHED_FROM_VERSION = 0, 1, 4
KEYS_AT_ONCE = 500
KINDS: Final = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}


@dataclass(frozen=True, slots=True)
class Locator:
    """Finds coordinators."""

    metadata: Metadata
    topic_creation: TopicCreation

    async def find(self, key: str, key_type: int, listener: str) -> Coordinator:
        """The leader of the key's partition, as ``listener`` reaches it. KafkaError when there is none."""
        if key_type not in (GROUP, TRANSACTION):
            message = f"key type {key_type} is not supported; it must be 0 (group) or 1 (transaction)"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if not key and key_type == GROUP:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        if not key:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        name = CONSUMER_OFFSETS_TOPIC if key_type == GROUP else TRANSACTION_STATE_TOPIC
        if self.metadata.image.topic(name) is None:
            await self.topic_creation.create_internal(name)
        image = self.metadata.image
        topic = image.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"topic {name} is being created")
        leader = image.broker(topic.partitions[partition_for(key, len(topic.partitions))].leader)
        endpoint = leader.listeners.get(listener) if leader is not None else None
        if leader is None or endpoint is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {name} for it has no leader now")
        return Coordinator(key=key, node_id=leader.broker_id, host=endpoint.host, port=endpoint.port)


async def handle(
    request: FindCoordinatorRequest, context: RequestContext, locator: Locator, authorizer: Authorizer
) -> FindCoordinatorResponse:
    """One coordinator per key; from version 4 the keys come in a list, each once, and each has its own error."""
    keys = dict.fromkeys(request.coordinator_keys) if context.version >= BATCHED_FROM_VERSION else [request.key]
    portions = paced(keys, KEYS_AT_ONCE, context)
    found = [await _find(key, request.key_type, context, locator, authorizer) async for key in portions]
    if context.version >= BATCHED_FROM_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    one = found[0]
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message if one.error_code else ErrorCode.NONE.name,  # as in Kafka
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(
    key: str, key_type: int, context: RequestContext, locator: Locator, authorizer: Authorizer
) -> Coordinator:
    try:
        kind = KINDS.get(key_type)
        if kind is not None and not authorizer.permits(context, AclOperation.DESCRIBE, kind, key):
            raise KafkaError(ERRORS[kind])
        return await locator.find(key, key_type, context.listener)
    except KafkaError as error:
        return Coordinator(key=key, error_code=error.code, error_message=error.told, node_id=-1, host="", port=-1)
