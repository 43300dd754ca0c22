"""SaslHandshake (API key 17)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, int16, string


class SaslHandshakeRequest(Message, versions="0-1", flexible="none"):
    mechanism: str = string("0+")


class SaslHandshakeResponse(Message, versions="0-1", flexible="none"):
    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")
