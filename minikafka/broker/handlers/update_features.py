"""UpdateFeatures (key 57), versions 0-2: the level of a feature, for the whole cluster (KIP-584, KIP-1022).

Forwarded to the active controller.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.errors import KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

AUTHORIZATION: Final = (Whole(AclOperation.ALTER, ResourceType.CLUSTER),)


async def handle(
    request: UpdateFeaturesRequest, context: RequestContext, controller: ControllerClient, metadata: Metadata
) -> UpdateFeaturesResponse:
    """All changes or none; answered when they are committed, and seen here."""
    try:
        answer = await controller.call(
            request, UpdateFeaturesResponse, timeout_s=controller_timeout_s(request.timeout_ms)
        )
    except KafkaError as error:
        answer = UpdateFeaturesResponse(error_code=error.code, error_message=error.told)
    answer.results = [  # before version 2, each feature says so, too
        UpdatableFeatureResult(feature=update.feature, error_code=answer.error_code, error_message=answer.error_message)
        for update in request.feature_updates
    ]
    if not request.validate_only and not answer.error_code:
        await wait_until_seen(metadata, lambda image: _shows(image, request))
    return answer


def _shows(image: MetadataImage, request: UpdateFeaturesRequest) -> bool:
    return all(image.features.get(each.feature, 0) == each.max_version_level for each in request.feature_updates)
