"""Producer ids for idempotent and transactional producers, in blocks from the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

CALL_TIMEOUT_S: Final = 5.0


class ProducerIds:
    """Gives every id out once; a crash wastes the rest of a block."""

    def __init__(self, node_id: int, controller: ControllerClient, broker_epoch: Callable[[], int]) -> None:
        self._node_id = node_id
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._next = self._end = self._failures = 0
        self._refilling = asyncio.Lock()

    async def next(self) -> int:
        """A fresh id. KafkaError when the controller is not reached."""
        await self.ensure()
        return self.take()

    async def ensure(self) -> None:
        """Have an id at hand. KafkaError when the controller is not reached.

        Those who wait for an attempt share its failure: each of its own would take seconds, one after the other.
        """
        failures = self._failures
        while self._next == self._end:
            async with self._refilling:
                if self._failures != failures:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the controller gives no producer ids now")
                if self._next == self._end:
                    await self._refill()

    def take(self) -> int:
        """A fresh id, if one is at hand (:meth:`ensure`). KafkaError(COORDINATOR_LOAD_IN_PROGRESS) otherwise."""
        if self._next == self._end:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand; try again")
        self._next += 1
        return self._next - 1

    async def _refill(self) -> None:
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        try:
            answer = await self._controller.call(request, AllocateProducerIdsResponse, timeout_s=CALL_TIMEOUT_S)
        except KafkaError:
            self._failures += 1
            raise
        self._next = answer.producer_id_start
        self._end = self._next + answer.producer_id_len
