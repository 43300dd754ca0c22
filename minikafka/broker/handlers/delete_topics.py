"""DeleteTopics (key 20), versions 1-6: by name, or from version 6 by id."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.broker.pacing import PER_COMMAND
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import DeleteTopics, DeleteTopicsResult, TopicReference
from minikafka.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

FIRST_VERSION_WITH_IDS = 6


async def handle(
    request: DeleteTopicsRequest, context: RequestContext, controller: ControllerClient, metadata: Metadata
) -> DeleteTopicsResponse:
    """One result per topic. Long lists go to the controller in several commands."""
    named: Sequence[DeleteTopicState | str] = (
        request.topics if context.version >= FIRST_VERSION_WITH_IDS else request.topic_names
    )
    results: list[DeleteTopicsResult] = []
    failure: KafkaError | None = None
    for first in range(0, len(named), PER_COMMAND):
        await asyncio.sleep(0)
        references = tuple(map(_reference, named[first : first + PER_COMMAND]))
        if failure is None:
            try:
                timeout_s = controller_timeout_s(request.timeout_ms)
                results += (await controller.call(DeleteTopics(references), timeout_s=timeout_s)).topics
                continue
            except KafkaError as error:
                failure = error  # there is no controller: do not wait for one again
        results += (DeleteTopicsResult(each.name, each.topic_id, failure.code, failure.message) for each in references)
    deleted = [result.topic_id for result in results if result.error is ErrorCode.NONE]
    await wait_until_seen(metadata, lambda image: all(image.topic_by_id(each) is None for each in deleted))
    return DeleteTopicsResponse(responses=[_response(result) for result in results])


def _reference(named: DeleteTopicState | str) -> TopicReference:
    return TopicReference(named) if isinstance(named, str) else TopicReference(named.name, named.topic_id)


def _response(result: DeleteTopicsResult) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=result.name, topic_id=result.topic_id, error_code=result.error, error_message=result.message
    )
