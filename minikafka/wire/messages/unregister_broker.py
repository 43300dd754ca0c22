"""UnregisterBroker (API key 64)."""

from __future__ import annotations

from minikafka.wire.schema import Message, int16, int32, string


class UnregisterBrokerRequest(Message, versions="0", flexible="0+"):
    broker_id: int = int32("0+")


class UnregisterBrokerResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
