"""CreateTopics (key 19), versions 2-7: forwarded to the active controller, answered when committed and seen here.

A created topic's settings are in the answer (KIP-525), as DescribeConfigs would show them: Java's admin client takes
them for granted.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from minikafka.broker.authorization import ByHandler, Each
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.broker.pacing import PER_REQUEST, paced, portions
from minikafka.config import BrokerConfig, TopicConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.topics import PARTITIONS_PER_REQUEST_MAX
from minikafka.metadata.effective import broker_config
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

AUTHORIZATION: Final = (
    Each("topics", AclOperation.CREATE, ResourceType.TOPIC, on_cluster=AclOperation.CREATE),
    ByHandler("DESCRIBE_CONFIGS on each topic whose settings are told", ()),
)

FIRST_THAT_KNOWS_QUOTAS: Final = 6
TOPICS_AT_ONCE: Final = 100
PORTIONS_MAX: Final = PARTITIONS_PER_REQUEST_MAX // PER_REQUEST
TOO_MANY: Final = KafkaError(
    ErrorCode.POLICY_VIOLATION, f"one request creates at most {PARTITIONS_PER_REQUEST_MAX} partitions"
)


async def handle(
    request: CreateTopicsRequest,
    context: RequestContext,
    controller: ControllerClient,
    metadata: Metadata,
    config: BrokerConfig,
    authorizer: Authorizer,
) -> CreateTopicsResponse:
    """One result per topic; the others proceed when one is refused.

    A topic has a partition at least, so those beyond what one request may create are not even asked about.
    """
    named = portions(request.topics, lambda topic: topic.name)
    asked, too_many = named[:PORTIONS_MAX], {topic.name for portion in named[PORTIONS_MAX:] for topic in portion}
    forwarded = CreateTopicsRequest(
        topics=list(chain(*asked)),
        validate_only=request.validate_only,
        client_id=context.client.client_id,
        user=context.client.user,
        knows_quotas=context.version >= FIRST_THAT_KNOWS_QUOTAS,
    )
    try:
        timeout_s = controller_timeout_s(request.timeout_ms)
        answer = await controller.call(forwarded, CreateTopicsResponse, timeout_s=timeout_s)
    except KafkaError as error:
        return CreateTopicsResponse(topics=[_refused(topic.name, error) for topic in request.topics])
    context.throttle(answer.throttle_time_ms)
    made = [result for result in answer.topics if not result.error_code]
    if not request.validate_only:
        await wait_until_seen(metadata, lambda image: all(image.topic(each.name) is not None for each in made))
    overrides = {
        topic.name: {row.name: row.value for row in topic.configs if row.value is not None} for topic in request.topics
    }
    broker = broker_config(metadata.image, config)
    async for result in paced(made, TOPICS_AT_ONCE, context):
        if authorizer.sees(context, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name):
            result.configs = _configs(overrides[result.name], broker)
        else:
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.num_partitions = result.replication_factor = -1
    answer.topics += [_refused(name, TOO_MANY) for name in sorted(too_many)]
    return answer


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.told)


def _configs(overrides: dict[str, str], broker: BrokerConfig) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in TopicConfig(overrides, broker).describe()
    ]
