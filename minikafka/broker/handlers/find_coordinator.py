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
TOPICS: Final = {GROUP: CONSUMER_OFFSETS_TOPIC, TRANSACTION: TRANSACTION_STATE_TOPIC}


@dataclass(frozen=True, slots=True)
class Locator:
    """Finds coordinators."""

    metadata: Metadata
    topic_creation: TopicCreation

    def find(self, key: str, key_type: int, listener: str) -> Coordinator:
        """The leader of the key's partition, as ``listener`` reaches it. KafkaError when there is none."""
        name = TOPICS[key_type]
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
    search = _Search(request.key_type, context, locator, authorizer)
    found = [await search.find(key) async for key in portions]
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


class _Search:
    """One request's."""

    def __init__(self, key_type: int, context: RequestContext, locator: Locator, authorizer: Authorizer) -> None:
        self._key_type = key_type
        self._context = context
        self._locator = locator
        self._authorizer = authorizer
        self._has_tried = False  # to create the topic
        self._why_not = ""

    async def find(self, key: str) -> Coordinator:
        """The coordinator, or the error."""
        try:
            self._check(key)
            await self._ensure_topic()
            return self._locator.find(key, self._key_type, self._context.listener)
        except KafkaError as error:
            return Coordinator(key=key, error_code=error.code, error_message=error.told, node_id=-1, host="", port=-1)

    def _check(self, key: str) -> None:
        kind = KINDS.get(self._key_type)
        if kind is None:
            message = f"key type {self._key_type} is not supported; it must be 0 (group) or 1 (transaction)"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if not self._authorizer.permits(self._context, AclOperation.DESCRIBE, kind, key):
            raise KafkaError(ERRORS[kind])
        if not key and self._key_type == GROUP:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        if not key:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")

    async def _ensure_topic(self) -> None:
        """Once it could not be created, that is not tried for each of a hundred keys, five seconds each."""
        name = TOPICS[self._key_type]
        if self._locator.metadata.image.topic(name) is not None:
            return
        if not self._has_tried:
            self._has_tried = True
            if self._context.may_wait_for_controller():
                try:
                    await self._locator.topic_creation.create_internal(name)
                except KafkaError as error:
                    self._why_not = error.message
            else:
                self._why_not = f"{name} cannot be created now: many requests wait for the controller"
        if self._why_not:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._why_not)
