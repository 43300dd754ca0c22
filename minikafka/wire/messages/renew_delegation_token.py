"""RenewDelegationToken (API key 39)."""

from __future__ import annotations

from minikafka.wire.schema import Message, bytes_, int16, int32, int64


class RenewDelegationTokenRequest(Message, versions="1-2", flexible="2+"):
    hmac: bytes = bytes_("0+")
    renew_period_ms: int = int64("0+")


class RenewDelegationTokenResponse(Message, versions="1-2", flexible="2+"):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
