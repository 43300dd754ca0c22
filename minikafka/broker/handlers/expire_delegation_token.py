"""ExpireDelegationToken (key 40), versions 1-2: refused, as where there are no delegation tokens (KIP-48)."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Anyone
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.no_security import why_no_tokens
from minikafka.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

AUTHORIZATION: Final = (Anyone(),)


def handle(request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    """Refuse it."""
    return ExpireDelegationTokenResponse(error_code=why_no_tokens(context), expiry_timestamp_ms=-1)
