"""DeleteAcls (key 31), versions 1-3: as Apache Kafka without an authorizer, SECURITY_DISABLED."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.no_security import NO_AUTHORIZER
from minikafka.errors import ErrorCode
from minikafka.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Each is refused."""
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
