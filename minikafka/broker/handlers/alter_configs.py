"""AlterConfigs (key 33), versions 0-2: all settings of a resource at once; those that are not named go (KIP-133).

Certificates are changed once this node can use them (KIP-226).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from minikafka.broker.authorization import EachConfigResource
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S, asked_in_portions, with_keys_taken_up
from minikafka.broker.key_change import KeyChange
from minikafka.broker.pacing import portions
from minikafka.config import BrokerConfig
from minikafka.errors import KafkaError
from minikafka.metadata.records import ConfigResourceType
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

BROKER: Final = ConfigResourceType.BROKER
AUTHORIZATION: Final = (EachConfigResource("resources", AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),)


async def handle(
    request: AlterConfigsRequest,
    context: RequestContext,
    controller: ControllerClient,
    keys: KeyChange,
    metadata: Metadata,
) -> AlterConfigsResponse:
    """One result per resource, each altered whole or not at all."""

    async def ask(resources: Sequence[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        forwarded = AlterConfigsRequest(resources=list(resources), validate_only=request.validate_only)
        timeout_s = LONGEST_TIMEOUT_S / 2
        return (await controller.call(forwarded, AlterConfigsResponse, timeout_s=timeout_s)).responses

    async def ask_about_keys(resources: Sequence[AlterConfigsResource]) -> Sequence[AlterConfigsResourceResponse]:
        def look(resource: AlterConfigsResource) -> Awaitable[BrokerConfig]:
            return keys.checked(resource.resource_name, _set_by(resource))

        return await with_keys_taken_up(resources, look, ask, keys, metadata, validate_only=request.validate_only)

    of_keys: list[AlterConfigsResource] = []
    of_others: list[AlterConfigsResource] = []
    for each in request.resources:
        is_of_keys = each.resource_type == BROKER and keys.concerns(each.configs)
        (of_keys if is_of_keys else of_others).append(each)
    responses: list[AlterConfigsResourceResponse] = []
    for resources, alter in ((of_others, ask), (of_keys, ask_about_keys)):
        named = portions(resources, lambda each: (each.resource_type, each.resource_name), _characters)
        responses += await asked_in_portions(named, alter, _refused)
    return AlterConfigsResponse(responses=responses)


def _set_by(resource: AlterConfigsResource) -> dict[str, str]:
    return {config.name: config.value for config in resource.configs if config.value is not None}


def _characters(resource: AlterConfigsResource) -> int:
    return sum(len(config.name) + len(config.value or "") for config in resource.configs)


def _refused(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.told,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
