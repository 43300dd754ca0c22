"""DescribeConfigs (key 32), versions 1-4: settings of topics, groups and this node, with source and synonyms.

Also the level of this node's log (KIP-412).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minikafka.broker.authorization import EachConfigResource
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.loggers import BROKER_LOGGER, ROOT, RootLogger, check_node
from minikafka.broker.long_answers import LongAnswers
from minikafka.config import BrokerConfig, ConfigEntry, TopicConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.effective import broker_config, group_config
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

AUTHORIZATION: Final = (EachConfigResource("resources", AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),)

DYNAMIC_BROKER_LOGGER: Final = 6
"""Kafka's number of this source of a value."""
RESOURCE_ROWS: Final = 10
"""A resource costs as much as these, beside its settings."""


async def handle(
    request: DescribeConfigsRequest,
    context: RequestContext,
    metadata: Metadata,
    config: BrokerConfig,
    logger: RootLogger,
    long_answers: LongAnswers,
) -> None:
    """One result per resource, however often it is named."""
    wanted = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    results: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for resource in wanted.values():
            result = _describe(resource, request, metadata.image, config, logger)
            results.append(await answer.encoded(result, RESOURCE_ROWS + len(result.configs)))
        context.send_around(DescribeConfigsResponse(), "results", results)


def _describe(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    image: MetadataImage,
    config: BrokerConfig,
    logger: RootLogger,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        if resource.resource_type == BROKER_LOGGER:
            check_node(resource.resource_name, config.node_id)
            rows = [DescribeConfigsResourceResult(name=ROOT, value=logger.level, config_source=DYNAMIC_BROKER_LOGGER)]
        else:
            rows = [_row(entry, request) for entry in _entries(resource, image, config)]
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    keys = set(resource.configuration_keys or ())  # none: all, as in Kafka
    result.configs = [row for row in rows if not keys or row.name in keys]
    return result


def _entries(resource: DescribeConfigsResource, image: MetadataImage, config: BrokerConfig) -> Iterable[ConfigEntry]:
    name, effective = resource.resource_name, broker_config(image, config)
    if resource.resource_type == ConfigResourceType.TOPIC:
        if image.topic(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} not found")
        return TopicConfig(image.topic_overrides(name), effective).describe()
    if resource.resource_type == ConfigResourceType.BROKER:
        if name not in ("", str(config.node_id)):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"this is node {config.node_id}; ask node {name} for its settings"
            )
        return effective.describe() if name else effective.describe_cluster_wide()
    if resource.resource_type == ConfigResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the group has no name; each group has settings of its own")
        return group_config(image, name, effective).describe()
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"resource type {resource.resource_type} is not supported; topic, broker, broker's loggers and group are",
    )


def _row(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=None if entry.is_sensitive else entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=each.name, value=None if entry.is_sensitive else each.value, source=each.source)
            for each in synonyms
        ],
        config_type=entry.config_type,
        documentation=entry.documentation if request.include_documentation else None,
    )
