"""RenewDelegationToken (key 39), versions 1-2: refused, as where there are no delegation tokens (KIP-48)."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Anyone
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.no_security import why_no_tokens
from minikafka.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

AUTHORIZATION: Final = (Anyone(),)


def handle(request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    """Refuse it."""
    return RenewDelegationTokenResponse(error_code=why_no_tokens(context), expiry_timestamp_ms=-1)
