"""Blocks of producer ids: no two idempotent producers of the cluster ever get the same id."""

from __future__ import annotations

from typing import Final

from minikafka.metadata.controller.commands import AllocateProducerIds, AllocateProducerIdsResponse
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.records import ProducerIdsRecord

BLOCK_LENGTH: Final = 1000


def allocate_producer_ids(state: ControllerState, command: AllocateProducerIds) -> AllocateProducerIdsResponse:
    """Give the broker the next block; ids it does not use are lost."""
    state.registered(command.broker_id, command.broker_epoch)
    first = state.image.next_producer_id
    state.write(ProducerIdsRecord(command.broker_id, command.broker_epoch, first + BLOCK_LENGTH))
    return AllocateProducerIdsResponse(first, BLOCK_LENGTH)
