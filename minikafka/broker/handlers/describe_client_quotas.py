"""DescribeClientQuotas (key 48), versions 0-1: the quotas of entities that match a filter (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.long_answers import LongAnswers
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.client_quotas import CLIENT_ID, USER
from minikafka.metadata.records import QuotaEntity
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

AUTHORIZATION: Final = (Whole(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),)

KNOWN_TYPES = (USER, CLIENT_ID, "ip")
ENTITIES_OF_A_ROW = 5
"""That do not match."""


class MatchType(IntEnum):
    """What a part of an entity must be."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Of that type: any name, or the default."""


async def handle(
    request: DescribeClientQuotasRequest, context: RequestContext, metadata: Metadata, long_answers: LongAnswers
) -> None:
    """Entities with all parts that are asked for, and no others if it is strict."""
    try:
        _check(request.components)
    except KafkaError as error:
        context.send(DescribeClientQuotasResponse(error_code=error.code, error_message=error.told, entries=None))
        return
    entries: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for at, (entity, values) in enumerate(metadata.image.client_quotas.items()):
            if not _matches(entity, request):
                await answer.add(at % ENTITIES_OF_A_ROW == 0)
                continue
            entry = EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
            entries.append(await answer.encoded(entry, 1))
        response = DescribeClientQuotasResponse(error_message=None)
        context.send_around(response, "entries", entries)


def _check(components: Iterable[ComponentData]) -> None:
    seen = set()
    for component in components:
        kind, match_type = component.entity_type, component.match_type
        if kind not in KNOWN_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"entity type {kind!r} is unknown")
        if kind in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"duplicate entity type {kind}")
        if match_type not in tuple(MatchType) or (match_type == MatchType.EXACT) != (component.match is not None):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a {kind} is to match by name, as the default, or as any")
        seen.add(kind)


def _matches(entity: QuotaEntity, request: DescribeClientQuotasRequest) -> bool:
    names = dict(entity)
    for component in request.components:
        if component.entity_type not in names:
            return False
        name = names[component.entity_type]
        if component.match_type != MatchType.SPECIFIED and name != component.match:
            return False
    return not request.strict or len(names) == len(request.components)
