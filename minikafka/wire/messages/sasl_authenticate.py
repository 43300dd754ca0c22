"""SaslAuthenticate (API key 36)."""

from __future__ import annotations

from minikafka.wire.schema import Message, bytes_, int16, int64, string


class SaslAuthenticateRequest(Message, versions="0-2", flexible="2+"):
    """No text of it shows the bytes, which may be a password."""

    auth_bytes: bytes = bytes_("0+")

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest(hidden)"


class SaslAuthenticateResponse(Message, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = bytes_("0+")
    session_lifetime_ms: int = int64("1+")
