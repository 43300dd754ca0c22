"""Asks the cluster for the producer id of an idempotent producer (KIP-98).

Any broker gives out ids, from a block of the controller. A broker that cannot reach the controller answers with an
error; the next attempt goes to another broker.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from minikafka.client.backoff import RETRY_BACKOFF
from minikafka.client.connections import ANY_BROKER_TIMEOUT_S, Connections
from minikafka.client.producing.sequences import Sequences
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.tasks import TaskOwner
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@dataclass(eq=False)
class Identity:
    """Gives ``sequences`` an id, then calls ``on_begun``. ``failure``: error of the last attempt."""

    _connections: Connections
    _sequences: Sequences
    _tasks: TaskOwner
    _rng: random.Random
    _on_begun: Callable[[], None]
    _asking: asyncio.Task[None] | None = field(default=None, init=False)
    failure: KafkaError | None = field(default=None, init=False)

    def maybe_ask(self) -> None:
        """Ask, if an id is needed and no request is under way."""
        if self._sequences.needs_producer_id and (self._asking is None or self._asking.done()):
            self._asking = self._tasks.start(self._ask(), "identity")

    async def _ask(self) -> None:
        """Repeat until it succeeds; waiting batches expire by themselves. A permanent refusal ends the producer."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        failures = 0
        while True:
            try:
                answer = await self._connections.call_once(
                    request, InitProducerIdResponse, ANY_BROKER_TIMEOUT_S, _check_given
                )
                break
            except KafkaError as error:
                if not error.retriable:
                    message = "the cluster returned no producer id; an idempotent producer needs one"
                    raise KafkaError(error.code, message) from error
                self.failure = error
            failures += 1
            await asyncio.sleep(RETRY_BACKOFF.delay_s(failures, self._rng))
        self.failure = None
        self._sequences.begin(answer.producer_id, answer.producer_epoch)
        self._on_begun()


def _check_given(answer: InitProducerIdResponse) -> None:
    if answer.error_code:
        raise KafkaError(ErrorCode.of(answer.error_code), "the broker returned no producer id")
