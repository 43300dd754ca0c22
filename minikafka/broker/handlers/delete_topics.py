"""DeleteTopics (key 20), versions 1-6: by name, or from version 6 by id."""

from __future__ import annotations

import asyncio

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.broker.pacing import PER_REQUEST
from minikafka.errors import KafkaError
from minikafka.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


async def handle(
    request: DeleteTopicsRequest, context: RequestContext, controller: ControllerClient, metadata: Metadata
) -> DeleteTopicsResponse:
    """One result per topic. Long lists go to the controller in several requests."""
    named = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    results: list[DeletableTopicResult] = []
    failure: KafkaError | None = None
    for first in range(0, len(named), PER_REQUEST):
        await asyncio.sleep(0)
        some = named[first : first + PER_REQUEST]
        if failure is None:
            try:
                forwarded, timeout_s = DeleteTopicsRequest(topics=some), controller_timeout_s(request.timeout_ms)
                results += (await controller.call(forwarded, DeleteTopicsResponse, timeout_s=timeout_s)).responses
                continue
            except KafkaError as error:
                failure = error  # there is no controller: do not wait for one again
        results += [_refused(each, failure) for each in some]
    deleted = [result.topic_id for result in results if not result.error_code]
    await wait_until_seen(metadata, lambda image: all(image.topic_by_id(each) is None for each in deleted))
    return DeleteTopicsResponse(responses=results)


def _refused(named: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=named.name, topic_id=named.topic_id, error_code=error.code, error_message=error.message
    )
