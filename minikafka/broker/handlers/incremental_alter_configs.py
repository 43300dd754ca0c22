"""IncrementalAlterConfigs (key 44), versions 0-1: set, delete, append to, subtract from settings (KIP-339)."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S
from minikafka.errors import KafkaError
from minikafka.metadata.controller.commands import ConfigAlteration, ConfigOperation, IncrementalAlterConfigs
from minikafka.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    """One result per resource."""
    command = IncrementalAlterConfigs(
        tuple(
            ConfigAlteration(
                resource.resource_type,
                resource.resource_name,
                tuple(
                    ConfigOperation(config.name, config.config_operation, config.value) for config in resource.configs
                ),
            )
            for resource in request.resources
        ),
        request.validate_only,
    )
    try:
        answer = await context.node.controller.call(command, timeout_s=LONGEST_TIMEOUT_S / 2)
    except KafkaError as error:
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=error.code,
                    error_message=error.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.resources
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
            for result in answer.resources
        ]
    )
