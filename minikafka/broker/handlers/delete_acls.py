"""DeleteAcls (key 31), versions 1-3: all ACLs that filters match (KIP-140). SECURITY_DISABLED without an authorizer.

Forwarded to the active controller, answered when they are gone here. An ACL that several filters match is in the result
of the first.
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
from minikafka.metadata.acl_messages import deleted_acl
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

AUTHORIZATION: Final = (Whole(AclOperation.ALTER, ResourceType.CLUSTER),)


async def handle(
    request: DeleteAclsRequest,
    context: RequestContext,
    controller: ControllerClient,
    metadata: Metadata,
    authorizer: Authorizer,
) -> DeleteAclsResponse:
    """One result per filter, in order. Long lists go to the controller in several requests."""
    if not authorizer.is_enabled:
        return DeleteAclsResponse(filter_results=[_refused(each, NO_AUTHORIZER) for each in request.filters])

    async def ask(filters: Sequence[DeleteAclsFilter]) -> list[DeleteAclsFilterResult]:
        forwarded = DeleteAclsRequest(filters=list(filters))
        return (await controller.call(forwarded, DeleteAclsResponse, timeout_s=LONGEST_TIMEOUT_S / 2)).filter_results

    starts = range(0, len(request.filters), PER_REQUEST)
    portions = (request.filters[start : start + PER_REQUEST] for start in starts)
    results = await asked_in_portions(portions, ask, _refused)
    deleted = [matching for result in results for matching in result.matching_acls]
    if deleted:
        last = deleted_acl(deleted[-1]).acl_id  # all of a request are deleted at once
        await wait_until_seen(metadata, lambda image: last not in image.acls)
    return DeleteAclsResponse(filter_results=results)


def _refused(_filter: DeleteAclsFilter, error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.told)
