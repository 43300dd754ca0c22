"""CreateDelegationToken (key 38), versions 1-3: refused, as where there are no delegation tokens (KIP-48)."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Anyone
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.no_security import why_no_tokens
from minikafka.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

AUTHORIZATION: Final = (Anyone(),)


def handle(request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    """Refuse it."""
    return CreateDelegationTokenResponse(
        error_code=why_no_tokens(context), issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1
    )
