"""Blocks of producer ids: every idempotent producer of the cluster gets an id of its own."""

from __future__ import annotations

from typing import Final

from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.records import ProducerIdsRecord
from minikafka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_LENGTH: Final = 1000


def allocate_producer_ids(state: ControllerState, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    """Give the broker the next block. Its unused ids are lost. Errors: STALE_BROKER_EPOCH."""
    state.registered(request.broker_id, request.broker_epoch)
    first = state.image.next_producer_id
    state.write(ProducerIdsRecord(request.broker_id, request.broker_epoch, first + BLOCK_LENGTH))
    return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_LENGTH)
