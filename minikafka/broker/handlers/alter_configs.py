"""AlterConfigs (key 33), versions 0-2: all settings of a resource at once; those that are not named go (KIP-133)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.broker.authorization import EachConfigResource
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S, asked_in_portions
from minikafka.broker.pacing import portions
from minikafka.errors import KafkaError
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

AUTHORIZATION: Final = (EachConfigResource("resources", AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),)


async def handle(
    request: AlterConfigsRequest, context: RequestContext, controller: ControllerClient
) -> AlterConfigsResponse:
    """One result per resource, each altered whole or not at all."""

    async def ask(resources: Sequence[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        forwarded = AlterConfigsRequest(resources=list(resources), validate_only=request.validate_only)
        timeout_s = LONGEST_TIMEOUT_S / 2
        return (await controller.call(forwarded, AlterConfigsResponse, timeout_s=timeout_s)).responses

    named = portions(request.resources, lambda each: (each.resource_type, each.resource_name))
    return AlterConfigsResponse(responses=await asked_in_portions(named, ask, _refused))


def _refused(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
