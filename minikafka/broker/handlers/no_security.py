"""What is answered, as Apache Kafka does, where security is not configured: about ACLs on a node without an authorizer,
and about delegation tokens, of which there are none on any node."""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ANONYMOUS

NO_AUTHORIZER: Final = KafkaError(
    ErrorCode.SECURITY_DISABLED,
    "No Authorizer is configured: whoever reaches a port may do everything; set authorizer.class.name on each node, or "
    "make a cluster with: minikafka cluster start --secure",
)
"""Tools show it; it begins as in Apache Kafka."""


def why_no_tokens(context: RequestContext) -> ErrorCode:
    """As of a broker without ``delegation.token.secret.key``, which first looks whether it knows who asks (KIP-48)."""
    if context.connection.user == ANONYMOUS:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
