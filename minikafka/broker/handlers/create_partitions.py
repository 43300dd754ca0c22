"""CreatePartitions (key 37), versions 0-3: give topics more partitions (row C5)."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Each
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.broker.pacing import paced
from minikafka.errors import KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

AUTHORIZATION: Final = (Each("topics", AclOperation.ALTER, ResourceType.TOPIC),)

FIRST_THAT_KNOWS_QUOTAS: Final = 3
TOPICS_AT_ONCE: Final = 500


async def handle(
    request: CreatePartitionsRequest,
    context: RequestContext,
    controller: ControllerClient,
    metadata: Metadata,
) -> CreatePartitionsResponse:
    """One result per topic."""
    request.user, request.client_id = context.client
    request.knows_quotas = context.version >= FIRST_THAT_KNOWS_QUOTAS
    try:
        answer = await controller.call(
            request, CreatePartitionsResponse, timeout_s=controller_timeout_s(request.timeout_ms)
        )
    except KafkaError as error:
        unreached = [_refused(topic, error) async for topic in paced(request.topics, TOPICS_AT_ONCE, context)]
        return CreatePartitionsResponse(results=unreached)
    context.throttle(answer.throttle_time_ms)
    accepted = {result.name for result in answer.results if not result.error_code}
    totals = {topic.name: topic.count for topic in request.topics if topic.name in accepted}
    if not request.validate_only:
        await wait_until_seen(metadata, lambda image: _has(image, totals))
    return answer


def _refused(topic: CreatePartitionsTopic, error: KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.told)


def _has(image: MetadataImage, totals: dict[str, int]) -> bool:
    return all((topic := image.topic(name)) is None or len(topic.partitions) >= total for name, total in totals.items())
