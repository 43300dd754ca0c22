"""DeleteTopics (key 20), versions 1-6: by name, or from version 6 by id."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from minikafka.broker.authorization import Asker, Each
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import asked_in_portions, controller_timeout_s, wait_until_seen
from minikafka.broker.pacing import PER_REQUEST
from minikafka.errors import ErrorCode, KafkaError
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minikafka.wire.schema import Message


class EachTopic(Each):
    """The name of a topic that is named by its id is told to who may describe it, as in Apache Kafka."""

    __slots__ = ()

    def take_refused(self, request: Message, asker: Asker) -> Generator[None, None, list[tuple[ErrorCode, list[Any]]]]:
        taken = yield from Each.take_refused(self, request, asker)
        for _, refused in taken:
            for element in refused:
                name = None if element.name else asker.image.topic_names.get(element.topic_id)
                if name and asker.authorizer.sees(asker.context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                    element.name = name
        return taken


AUTHORIZATION: Final = tuple(
    kind(named, AclOperation.DELETE, ResourceType.TOPIC, on_cluster=AclOperation.DELETE)
    for kind, named in ((EachTopic, "topics"), (Each, "topic_names"))
)

FIRST_THAT_KNOWS_QUOTAS: Final = 5


async def handle(
    request: DeleteTopicsRequest, context: RequestContext, controller: ControllerClient, metadata: Metadata
) -> DeleteTopicsResponse:
    """One result per topic. Long lists go to the controller in several requests."""
    asked = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    (user, client_id), knows_quotas = context.client, context.version >= FIRST_THAT_KNOWS_QUOTAS
    timeout_s = controller_timeout_s(request.timeout_ms)

    async def ask(some: Sequence[DeleteTopicState]) -> list[DeletableTopicResult]:
        forwarded = DeleteTopicsRequest(topics=list(some), client_id=client_id, user=user, knows_quotas=knows_quotas)
        answer = await controller.call(forwarded, DeleteTopicsResponse, timeout_s=timeout_s)
        context.throttle(answer.throttle_time_ms)
        return answer.responses

    starts = range(0, len(asked), PER_REQUEST)
    results = await asked_in_portions((asked[start : start + PER_REQUEST] for start in starts), ask, _refused)
    deleted = [result.topic_id for result in results if not result.error_code]
    await wait_until_seen(metadata, lambda image: all(image.topic_by_id(each) is None for each in deleted))
    return DeleteTopicsResponse(responses=results)


def _refused(named: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=named.name, topic_id=named.topic_id, error_code=error.code, error_message=error.told
    )
