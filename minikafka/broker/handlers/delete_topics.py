"""DeleteTopics (key 20), versions 1-6: by name, or from version 6 by id."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import DeleteTopics, TopicReference
from minikafka.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

FIRST_VERSION_WITH_IDS = 6


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """One result per topic."""
    if context.version >= FIRST_VERSION_WITH_IDS:
        references = tuple(TopicReference(topic.name, topic.topic_id) for topic in request.topics)
    else:
        references = tuple(TopicReference(name) for name in request.topic_names)
    try:
        answer = await context.node.controller.call(
            DeleteTopics(references), timeout_s=controller_timeout_s(request.timeout_ms)
        )
    except KafkaError as error:
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(
                    name=reference.name,
                    topic_id=reference.topic_id,
                    error_code=error.code,
                    error_message=error.message,
                )
                for reference in references
            ]
        )
    deleted = [result.topic_id for result in answer.topics if result.error is ErrorCode.NONE]
    await wait_until_seen(context.node, lambda image: all(image.topic_by_id(each) is None for each in deleted))
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=result.name, topic_id=result.topic_id, error_code=result.error, error_message=result.message
            )
            for result in answer.topics
        ]
    )
