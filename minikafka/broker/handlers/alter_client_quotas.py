"""AlterClientQuotas (key 49), versions 0-1: bounds on what clients may ask, by user and client id (KIP-546).

Forwarded to the active controller.
"""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S, wait_until_seen
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import QuotaPart
from minikafka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntityData,
    AlteredEntryData,
    EntryData,
)


async def handle(
    request: AlterClientQuotasRequest, context: RequestContext, controller: ControllerClient, metadata: Metadata
) -> AlterClientQuotasResponse:
    """One result per entity; answered when they are committed, and seen here."""
    try:
        answer = await controller.call(request, AlterClientQuotasResponse, timeout_s=LONGEST_TIMEOUT_S / 2)
    except KafkaError as error:
        return AlterClientQuotasResponse(entries=[_refused(entry, error) for entry in request.entries])
    if not request.validate_only:
        made = [
            entry
            for entry, result in zip(request.entries, answer.entries, strict=True)
            if result.error_code == ErrorCode.NONE
        ]
        await wait_until_seen(metadata, lambda image: all(_shows(image, entry) for entry in made))
    return answer


def _shows(image: MetadataImage, entry: EntryData) -> bool:
    entity = tuple(sorted((QuotaPart(part.entity_type, part.entity_name) for part in entry.entity), key=str))
    values = image.client_quotas.get(entity, {})
    return all(values.get(op.key) == (None if op.remove else op.value) for op in entry.ops)


def _refused(entry: EntryData, error: KafkaError) -> AlteredEntryData:
    return AlteredEntryData(
        error_code=error.code,
        error_message=error.message,
        entity=[AlteredEntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity],
    )
