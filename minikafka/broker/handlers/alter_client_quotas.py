"""AlterClientQuotas (key 49), versions 0-1: bounds on what clients may ask, by user and client id (KIP-546).

Forwarded to the active controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S, asked_in_portions, wait_until_seen
from minikafka.broker.pacing import portions
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import QuotaEntity, QuotaPart
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntityData,
    AlteredEntryData,
    EntryData,
)

AUTHORIZATION: Final = (
    ByHandler("ALTER_CONFIGS on the cluster", ((AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),)),
)


async def handle(
    request: AlterClientQuotasRequest,
    context: RequestContext,
    controller: ControllerClient,
    metadata: Metadata,
    authorizer: Authorizer,
) -> AlterClientQuotasResponse:
    """One result per entity; answered when they are committed, and the last of them is seen here."""
    if not authorizer.permits(context, AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER):
        denied = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return AlterClientQuotasResponse(entries=[_refused(entry, denied) for entry in request.entries])
    made: list[EntryData] = []

    async def ask(entries: Sequence[EntryData]) -> list[AlteredEntryData]:
        forwarded = AlterClientQuotasRequest(entries=list(entries), validate_only=request.validate_only)
        answer = await controller.call(forwarded, AlterClientQuotasResponse, timeout_s=LONGEST_TIMEOUT_S / 2)
        results = zip(entries, answer.entries, strict=True)
        made[:] = [entry for entry, result in results if result.error_code == ErrorCode.NONE] or made
        return answer.entries

    results = await asked_in_portions(portions(request.entries, _entity), ask, _refused)
    if not request.validate_only:
        await wait_until_seen(metadata, lambda image: all(_shows(image, entry) for entry in made))
    return AlterClientQuotasResponse(entries=results)


def _entity(entry: EntryData) -> QuotaEntity:
    return tuple(sorted((QuotaPart(part.entity_type, part.entity_name) for part in entry.entity), key=str))


def _shows(image: MetadataImage, entry: EntryData) -> bool:
    values = image.client_quotas.get(_entity(entry), {})
    return all(values.get(op.key) == (None if op.remove else op.value) for op in entry.ops)


def _refused(entry: EntryData, error: KafkaError) -> AlteredEntryData:
    return AlteredEntryData(
        error_code=error.code,
        error_message=error.told,
        entity=[AlteredEntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity],
    )
