"""DescribeAcls (key 29), versions 1-3: as Apache Kafka without an authorizer, SECURITY_DISABLED."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.no_security import NO_AUTHORIZER
from minikafka.errors import ErrorCode
from minikafka.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """There are none."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
