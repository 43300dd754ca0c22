"""CreateAcls (key 30), versions 1-3: as Apache Kafka without an authorizer, SECURITY_DISABLED."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.no_security import NO_AUTHORIZER
from minikafka.errors import ErrorCode
from minikafka.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Each is refused."""
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))
