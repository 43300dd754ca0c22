"""CreateAcls (key 30), versions 1-3: who may do what (KIP-140). SECURITY_DISABLED without an authorizer.

Forwarded to the active controller, answered when they are committed and hold here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S, asked_in_portions, wait_until_seen
from minikafka.broker.handlers.no_security import NO_AUTHORIZER
from minikafka.broker.pacing import PER_REQUEST
from minikafka.errors import KafkaError
from minikafka.metadata.acl_messages import acl_of
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

AUTHORIZATION: Final = (Whole(AclOperation.ALTER, ResourceType.CLUSTER),)


async def handle(
    request: CreateAclsRequest,
    context: RequestContext,
    controller: ControllerClient,
    metadata: Metadata,
    authorizer: Authorizer,
) -> CreateAclsResponse:
    """One result per ACL, in order. Long lists go to the controller in several requests."""
    if not authorizer.is_enabled:
        return CreateAclsResponse(results=[_refused(each, NO_AUTHORIZER) for each in request.creations])

    async def ask(creations: Sequence[AclCreation]) -> list[AclCreationResult]:
        forwarded = CreateAclsRequest(creations=list(creations))
        return (await controller.call(forwarded, CreateAclsResponse, timeout_s=LONGEST_TIMEOUT_S / 2)).results

    starts = range(0, len(request.creations), PER_REQUEST)
    portions = (request.creations[start : start + PER_REQUEST] for start in starts)
    results = await asked_in_portions(portions, ask, _refused)
    pairs = zip(request.creations, results, strict=True)
    last = next((creation for creation, result in reversed([*pairs]) if not result.error_code), None)
    if last is not None:
        acl_id = acl_of(last).acl_id
        await wait_until_seen(metadata, lambda image: acl_id in image.acls)
    return CreateAclsResponse(results=results)


def _refused(_creation: AclCreation, error: KafkaError) -> AclCreationResult:
    return AclCreationResult(error_code=error.code, error_message=error.told)
