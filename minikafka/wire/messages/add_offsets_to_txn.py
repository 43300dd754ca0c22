"""AddOffsetsToTxn (API key 25)."""

from __future__ import annotations

from minikafka.wire.schema import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, versions="0-4", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(Message, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
