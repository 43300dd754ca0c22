"""IncrementalAlterConfigs (key 44), versions 0-1: set, delete, append to, subtract from settings (KIP-339)."""

from __future__ import annotations

import asyncio

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S
from minikafka.broker.pacing import portions
from minikafka.errors import KafkaError
from minikafka.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Results = list[AlterConfigsResourceResponse]


async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext, controller: ControllerClient
) -> IncrementalAlterConfigsResponse:
    """One result per resource, each altered whole or not at all."""
    results: Results = []
    failure: KafkaError | None = None
    for resources in portions(request.resources, lambda each: (each.resource_type, each.resource_name)):
        await asyncio.sleep(0)
        if failure is None:
            forwarded = IncrementalAlterConfigsRequest(resources=resources, validate_only=request.validate_only)
            try:
                answer = await controller.call(
                    forwarded, IncrementalAlterConfigsResponse, timeout_s=LONGEST_TIMEOUT_S / 2
                )
                results += answer.responses
                continue
            except KafkaError as error:
                failure = error  # there is no controller: do not wait for one again
        results += (_refused(each, failure) for each in resources)
    return IncrementalAlterConfigsResponse(responses=results)


def _refused(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
