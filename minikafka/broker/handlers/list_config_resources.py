"""ListConfigResources (key 74), versions 0-1: what has settings (KIP-1142).

Version 0 asks for those of telemetry only, and there are none. Of groups, those that have settings of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.loggers import BROKER_LOGGER
from minikafka.broker.long_answers import LongAnswers
from minikafka.errors import ErrorCode
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

AUTHORIZATION: Final = (Whole(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),)

CLIENT_METRICS: Final = 16
NAMES_OF_A_ROW: Final = 10
LOOKS_OF_A_ROW: Final = 50
"""At resources with settings of their own, for those that are groups."""

Names = Callable[[MetadataImage], Iterable[str]]
NAMES: Final[dict[int, Names]] = {
    ConfigResourceType.TOPIC: lambda image: sorted(image.topics_by_name),
    ConfigResourceType.BROKER: lambda image: map(str, sorted(image.brokers)),
    BROKER_LOGGER: lambda image: map(str, sorted(image.brokers)),
    CLIENT_METRICS: lambda image: (),
    ConfigResourceType.GROUP: lambda image: sorted(
        each.name for each in image.configs if each.resource_type is ConfigResourceType.GROUP
    ),
}


async def handle(
    request: ListConfigResourcesRequest, context: RequestContext, metadata: Metadata, long_answers: LongAnswers
) -> None:
    """Of the types that are named, or of all. UNSUPPORTED_VERSION for a type that is not known."""
    wanted = [CLIENT_METRICS] if context.version == 0 else list(dict.fromkeys(request.resource_types)) or list(NAMES)
    if not NAMES.keys() >= set(wanted):
        context.send(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    image, resources = metadata.image, []
    async with long_answers.prepare(context) as answer:
        for kind in wanted:
            if kind == ConfigResourceType.GROUP:
                await answer.add(len(image.configs) // LOOKS_OF_A_ROW)
            for at, name in enumerate(NAMES[kind](image)):
                found = ConfigResource(resource_name=name, resource_type=kind)
                resources.append(await answer.encoded(found, at % NAMES_OF_A_ROW == 0))
        context.send_around(ListConfigResourcesResponse(), "config_resources", resources)
