"""EndTxn (API key 26)."""

from __future__ import annotations

from minikafka.wire.schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, versions="0-5", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTxnResponse(Message, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
