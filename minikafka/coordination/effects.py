"""The effects that the driver of a shard carries out, in order.

``Respond``      send a response for the request that came with this token
``Write``        append the records, as one batch, to the shard's partition with acks=all; as part of the transaction
                 of `producer`, if there is one (a batch without a sequence). The driver calls
                 ``on_committed(write_id)`` when the high watermark has passed them, in append order, or
                 ``on_write_failed(write_id, error)`` when they will never be in the log. For a slow append it calls
                 neither: the coordinator has a timer of its own.
``SetTimer``     call ``on_timer(key)`` at `deadline_ms` (monotonic); it replaces an earlier timer of that key
``CancelTimer``  cancel the timer of that key
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, NamedTuple

from minikafka.errors import ErrorCode
from minikafka.model import ProducerIdentity
from minikafka.wire.versioned import Record

Token = object
"""The driver's handle of a request that awaits its response. Never None."""


class Respond(NamedTuple):
    """Send `response` to the request of `token`: a message, or what its handler makes one of."""

    token: Token
    response: Any


class Write(NamedTuple):
    """Append `records` as one batch, in the transaction of `producer`."""

    write_id: int
    records: tuple[Record, ...]
    producer: ProducerIdentity | None = None


class SetTimer(NamedTuple):
    """Wake the coordinator with `key` at `deadline_ms`."""

    key: Hashable
    deadline_ms: int
    weight: int = 1
    """Of a hundred in a turn of the loop, for what this will cost."""


class CancelTimer(NamedTuple):
    """Do not wake the coordinator with `key`."""

    key: Hashable


NOT_WRITTEN: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""What a client is told in place of the error of a failed append."""

Effect = Respond | Write | SetTimer | CancelTimer
