"""AllocateProducerIds (API key 67): a broker needs producer ids to give out."""

from __future__ import annotations

from minikafka.wire.schema import Message, int16, int32, int64


class AllocateProducerIdsRequest(Message, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)


class AllocateProducerIdsResponse(Message, versions="0", flexible="0+"):
    """The ids ``producer_id_start`` up to, not including, ``producer_id_start + producer_id_len``; nobody else has
    them."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")
    producer_id_len: int = int32("0+")
