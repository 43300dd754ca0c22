"""DescribeDelegationToken (key 41), versions 1-3: refused, as where there are no delegation tokens (KIP-48)."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Anyone
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.no_security import why_no_tokens
from minikafka.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

AUTHORIZATION: Final = (Anyone(),)


def handle(request: DescribeDelegationTokenRequest, context: RequestContext) -> DescribeDelegationTokenResponse:
    """Refuse it."""
    return DescribeDelegationTokenResponse(error_code=why_no_tokens(context))
