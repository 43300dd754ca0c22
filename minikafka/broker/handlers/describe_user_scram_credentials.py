"""DescribeUserScramCredentials (key 50), version 0: there are none, as SASL for clients is not there yet."""

from __future__ import annotations

from collections import Counter

from minikafka.broker.context import RequestContext
from minikafka.errors import ErrorCode
from minikafka.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Nothing for all users; for one that is named RESOURCE_NOT_FOUND, or DUPLICATE_RESOURCE (KIP-554)."""
    named = Counter(user.name for user in request.users or ())
    results = [_result(name, count) for name, count in named.items()]
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _result(user: str, count: int) -> DescribeUserScramCredentialsResult:
    code, message = ErrorCode.RESOURCE_NOT_FOUND, f"user {user!r} has no SCRAM credentials"
    if count > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"user {user!r} is named {count} times"
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)
