"""CreateTopics (key 19), versions 2-7: forwarded to the active controller, answered when committed and seen here.

A created topic's settings are in the answer (KIP-525), as DescribeConfigs would show them: Java's admin client takes
them for granted.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.broker.pacing import PER_COMMAND, paced, portions
from minikafka.config import BrokerConfig, TopicConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import (
    ConfigValue,
    CreateTopics,
    CreateTopicsResult,
    NewTopic,
    ReplicaAssignment,
)
from minikafka.metadata.controller.topics import PARTITIONS_PER_COMMAND_MAX
from minikafka.metadata.effective import broker_config
from minikafka.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

TOPICS_AT_ONCE: Final = 100
PORTIONS_MAX: Final = PARTITIONS_PER_COMMAND_MAX // PER_COMMAND


async def handle(
    request: CreateTopicsRequest,
    context: RequestContext,
    controller: ControllerClient,
    metadata: Metadata,
    config: BrokerConfig,
) -> CreateTopicsResponse:
    """One result per topic; the others proceed when one is refused.

    A topic has a partition at least, so those beyond what a command may create are not even asked about.
    """
    named = portions(request.topics, lambda topic: topic.name)
    asked, too_many = named[:PORTIONS_MAX], {topic.name for portion in named[PORTIONS_MAX:] for topic in portion}
    topics = tuple([_new_topic(each) async for each in paced(chain(*asked), TOPICS_AT_ONCE)])
    command = CreateTopics(topics, request.validate_only)
    try:
        answer = await controller.call(command, timeout_s=controller_timeout_s(request.timeout_ms))
    except KafkaError as error:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
                for topic in request.topics
            ]
        )
    created = [result.name for result in answer.topics if result.error is ErrorCode.NONE]
    if not request.validate_only:
        await wait_until_seen(metadata, lambda image: all(image.topic(name) is not None for name in created))
    overrides = {topic.name: {row.name: row.value for row in topic.configs if row.value} for topic in request.topics}
    broker = broker_config(metadata.image, config)
    results = paced(answer.topics, TOPICS_AT_ONCE)
    return CreateTopicsResponse(
        topics=[
            *[_result(each, overrides[each.name], broker) async for each in results],
            *[_refused(name) for name in sorted(too_many)],
        ]
    )


def _refused(name: str) -> CreatableTopicResult:
    message = f"one request creates at most {PARTITIONS_PER_COMMAND_MAX} partitions"
    return CreatableTopicResult(name=name, error_code=ErrorCode.POLICY_VIOLATION, error_message=message)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple(ReplicaAssignment(each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        tuple(ConfigValue(config.name, config.value) for config in topic.configs),
    )


def _result(result: CreateTopicsResult, overrides: dict[str, str], broker: BrokerConfig) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_code=result.error,
        error_message=result.message,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=_configs(overrides, broker) if result.error is ErrorCode.NONE else [],
    )


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
