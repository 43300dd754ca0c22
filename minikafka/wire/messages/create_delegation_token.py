"""CreateDelegationToken (API key 38)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, bytes_, int16, int32, int64, string


class CreatableRenewers(Message):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class CreateDelegationTokenRequest(Message, versions="1-3", flexible="2+"):
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers, "0+")
    max_lifetime_ms: int = int64("0+")


class CreateDelegationTokenResponse(Message, versions="1-3", flexible="2+"):
    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = bytes_("0+")
    throttle_time_ms: int = int32("0+")
