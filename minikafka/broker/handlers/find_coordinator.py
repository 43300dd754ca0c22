"""FindCoordinator (key 10), versions 0-4: the leader of the offsets partition that a group hashes to.

The offsets topic is created when it is first needed. Only groups have a coordinator here: a transactional id gets
TRANSACTIONAL_ID_NOT_FOUND with a message, because the transaction APIs are not offered.
"""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.pacing import paced
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.partitioning import partition_for
from minikafka.model import CONSUMER_OFFSETS_TOPIC
from minikafka.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, BATCHED_FROM_VERSION = 0, 4
KEYS_AT_ONCE = 500


async def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """One coordinator per key; from version 4 the keys come in a list, each once, and each has its own error."""
    keys = dict.fromkeys(request.coordinator_keys) if context.version >= BATCHED_FROM_VERSION else [request.key]
    found = [await _find(key, request.key_type, context) async for key in paced(keys, KEYS_AT_ONCE)]
    if context.version >= BATCHED_FROM_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    one = found[0]
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


async def _find(key: str, key_type: int, context: RequestContext) -> Coordinator:
    try:
        return await _find_or_raise(key, key_type, context)
    except KafkaError as error:
        return Coordinator(
            key=key, error_code=error.code, error_message=error.message or None, node_id=-1, host="", port=-1
        )


async def _find_or_raise(key: str, key_type: int, context: RequestContext) -> Coordinator:
    node = context.node
    if key_type != GROUP:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "transactions are not offered by this cluster")
    if not key:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    topic = node.image.topic(CONSUMER_OFFSETS_TOPIC)
    if topic is None:
        await node.topic_creation.create_offsets_topic()
        topic = node.image.topic(CONSUMER_OFFSETS_TOPIC)
    if topic is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the offsets topic is being created")
    leader = node.image.broker(topic.partitions[partition_for(key, len(topic.partitions))].leader)
    endpoint = leader.listeners.get(context.listener) if leader is not None else None
    if leader is None or endpoint is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group's offsets partition has no leader now")
    return Coordinator(key=key, node_id=leader.broker_id, host=endpoint.host, port=endpoint.port)
