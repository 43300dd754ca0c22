"""DescribeAcls (key 29), versions 1-3: the ACLs that a filter matches (KIP-140), from this node's metadata.

SECURITY_DISABLED without an authorizer.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.no_security import NO_AUTHORIZER
from minikafka.broker.long_answers import LongAnswers
from minikafka.errors import KafkaError
from minikafka.metadata.acl_messages import filter_of
from minikafka.security.acls import AclBinding, AclOperation, ResourcePattern, ResourceType
from minikafka.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

AUTHORIZATION: Final = (Whole(AclOperation.DESCRIBE, ResourceType.CLUSTER),)
ACLS_OF_A_ROW: Final = 10
"""That are looked at."""


async def handle(
    request: DescribeAclsRequest,
    context: RequestContext,
    metadata: Metadata,
    long_answers: LongAnswers,
    authorizer: Authorizer,
) -> DescribeAclsResponse | None:
    """In order of their resources."""
    try:
        if not authorizer.is_enabled:
            raise NO_AUTHORIZER
        wanted = filter_of(request)
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.told)
    by_pattern: defaultdict[ResourcePattern, list[AclBinding]] = defaultdict(list)
    resources: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for at, acl in enumerate(metadata.image.acls.values()):
            await answer.add(at % ACLS_OF_A_ROW == 0)
            if wanted.matches(acl):
                by_pattern[acl.pattern].append(acl)
        for pattern, acls in sorted(by_pattern.items()):
            resources.append(await answer.encoded(_resource(pattern, acls), len(acls)))
        context.send_around(DescribeAclsResponse(error_message=None), "resources", resources)
    return None


def _resource(pattern: ResourcePattern, acls: list[AclBinding]) -> DescribeAclsResource:
    return DescribeAclsResource(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=[
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
            for acl in sorted(acls)
        ],
    )
