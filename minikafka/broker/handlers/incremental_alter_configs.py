"""IncrementalAlterConfigs (key 44), versions 0-1: set, delete, append to, subtract from settings (KIP-339)."""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S
from minikafka.broker.pacing import paced
from minikafka.errors import KafkaError
from minikafka.metadata.controller.commands import ConfigAlteration, ConfigOperation, IncrementalAlterConfigs
from minikafka.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

RESOURCES_AT_ONCE: Final = 500


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    """One result per resource."""
    resources = paced(request.resources, RESOURCES_AT_ONCE)
    command = IncrementalAlterConfigs(tuple([_alteration(each) async for each in resources]), request.validate_only)
    try:
        answer = await context.node.controller.call(command, timeout_s=LONGEST_TIMEOUT_S / 2)
    except KafkaError as error:
        refused = paced(request.resources, RESOURCES_AT_ONCE)
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=error.code,
                    error_message=error.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                async for resource in refused
            ]
        )
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=result.error,
                error_message=result.message,
                resource_type=result.resource_type,
                resource_name=result.resource_name,
            )
            async for result in paced(answer.resources, RESOURCES_AT_ONCE)
        ]
    )


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    return ConfigAlteration(
        resource.resource_type,
        resource.resource_name,
        tuple(ConfigOperation(config.name, config.config_operation, config.value) for config in resource.configs),
    )
