"""IncrementalAlterConfigs (key 44), versions 0-1: set, delete, append to, subtract from settings (KIP-339).

The level of this node's log is set here (KIP-412), all else by the controller, certificates once this node can use
them (KIP-226).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Final

from minikafka.broker.authorization import EachConfigResource
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S, asked_in_portions, with_keys_taken_up
from minikafka.broker.key_change import KeyChange
from minikafka.broker.loggers import BROKER_LOGGER, RootLogger, check_node
from minikafka.broker.pacing import portions
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.records import ConfigResourceType
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

AUTHORIZATION: Final = (EachConfigResource("resources", AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),)
BROKER: Final = ConfigResourceType.BROKER


async def handle(
    request: IncrementalAlterConfigsRequest,
    context: RequestContext,
    controller: ControllerClient,
    config: BrokerConfig,
    logger: RootLogger,
    keys: KeyChange,
    metadata: Metadata,
) -> IncrementalAlterConfigsResponse:
    """One result per resource, each altered whole or not at all."""

    async def ask(resources: Sequence[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        forwarded = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=request.validate_only)
        timeout_s = LONGEST_TIMEOUT_S / 2
        return (await controller.call(forwarded, IncrementalAlterConfigsResponse, timeout_s=timeout_s)).responses

    async def ask_about_keys(resources: Sequence[AlterConfigsResource]) -> Sequence[AlterConfigsResourceResponse]:
        def look(resource: AlterConfigsResource) -> Awaitable[BrokerConfig]:
            return keys.check(resource.resource_name, resource.configs)

        return await with_keys_taken_up(resources, look, ask, keys, metadata, validate_only=request.validate_only)

    async def alter_loggers(resources: Sequence[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        return _altered(resources, config.node_id, logger, validate_only=request.validate_only)

    of_loggers: list[AlterConfigsResource] = []
    of_keys: list[AlterConfigsResource] = []
    of_settings: list[AlterConfigsResource] = []
    for each in request.resources:
        if each.resource_type == BROKER_LOGGER:
            of_loggers.append(each)
        elif each.resource_type == BROKER and keys.concerns(each.configs):
            of_keys.append(each)
        else:
            of_settings.append(each)
    responses: list[AlterConfigsResourceResponse] = []
    for resources, alter in ((of_settings, ask), (of_keys, ask_about_keys), (of_loggers, alter_loggers)):
        if resources:
            named = portions(resources, lambda each: (each.resource_type, each.resource_name), _characters)
            responses += await asked_in_portions(named, alter, _refused)
    return IncrementalAlterConfigsResponse(responses=responses)


def _altered(
    resources: Sequence[AlterConfigsResource], node_id: int, logger: RootLogger, *, validate_only: bool
) -> list[AlterConfigsResourceResponse]:
    responses: dict[str, AlterConfigsResourceResponse] = {}
    counts = Counter(resource.resource_name for resource in resources)
    for resource in resources:
        name = resource.resource_name
        response = AlterConfigsResourceResponse(resource_type=BROKER_LOGGER, resource_name=name, error_message=None)
        try:
            check_node(name, node_id)
            if counts[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the loggers of node {name} are named more than once")
            logger.alter(resource.configs, validate_only=validate_only)
        except KafkaError as error:
            response = _refused(resource, error)
        responses[name] = response
    return list(responses.values())


def _characters(resource: AlterConfigsResource) -> int:
    return sum(len(config.name) + len(config.value or "") for config in resource.configs)


def _refused(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.told,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
