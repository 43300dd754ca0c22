"""What the handlers of the transaction APIs share: finding the coordinator of an id, and handing it a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.transactions import Transactions
from minikafka.broker.transaction_admission import COMPLETION_PAUSE_S, COMPLETION_WAIT_S
from minikafka.errors import ErrorCode
from minikafka.transactions.coordinator import TransactionCoordinator
from minikafka.transactions.effects import Effect, Outcome
from minikafka.transactions.transaction import EPOCH_BUMPS

WAITING_MAX: Final = 100
"""Transactional ids that wait to begin the next transaction; others are told to try again."""
CLASSIC: Final = 0
"""The transaction version that clients have before version 2, as Kafka writes it."""
VERSION_2: Final = EPOCH_BUMPS

Answer = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class TransactionCoordinators:
    """The transaction coordinators of this node, and the time that they are told."""

    transactions: Transactions
    clock: Clock

    def serve(
        self,
        transactional_id: str,
        call: Callable[[TransactionCoordinator, Answer, int], Iterable[Effect]],
        answer: Answer,
    ) -> None:
        """Let the id's coordinator call ``answer``, now or later; NOT_COORDINATOR when that is another node."""
        shard = self.transactions.shard_of(transactional_id)
        if shard is None:
            answer(Outcome(why_not_here(transactional_id)))
            return
        shard.step(call(shard.coordinator, answer, self.clock.monotonic_ms()))

    async def ask(
        self, transactional_id: str, call: Callable[[TransactionCoordinator, Answer, int], Iterable[Effect]]
    ) -> Outcome:
        """The same, for a handler that waits."""
        answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.serve(transactional_id, call, lambda outcome: None if answered.done() else answered.set_result(outcome))
        return await answered

    async def ask_when_complete(
        self, transactional_id: str, call: Callable[[TransactionCoordinator, Answer, int], Iterable[Effect]]
    ) -> Outcome:
        """The same, but wait a little for the end of the transaction before: mostly its markers are on their way.

        A client that is told CONCURRENT_TRANSACTIONS waits longer before it asks again, librdkafka 20 ms.
        """
        give_up_s = asyncio.get_running_loop().time() + COMPLETION_WAIT_S
        with self._addition(transactional_id):
            while True:
                outcome = await self.ask(transactional_id, call)
                is_completing = outcome.error is ErrorCode.CONCURRENT_TRANSACTIONS
                is_over = asyncio.get_running_loop().time() >= give_up_s or self._is_crowded
                if is_over or not is_completing:
                    return outcome
                await asyncio.sleep(COMPLETION_PAUSE_S)

    async def wait_for_additions(self, transactional_id: str) -> None:
        """What came before is done: librdkafka aborts a transaction without an answer to what it wanted to add."""
        if under_way := self.transactions.additions.get(transactional_id):
            await asyncio.wait(under_way)

    @property
    def _is_crowded(self) -> bool:
        """So many wait that others would find no place (``broker.places``): their ends may not be written for long."""
        return len(self.transactions.additions) > WAITING_MAX

    @contextmanager
    def _addition(self, transactional_id: str) -> Iterator[None]:
        additions = self.transactions.additions
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        additions.setdefault(transactional_id, set()).add(done)
        try:
            yield
        finally:
            done.set_result(None)
            additions[transactional_id].discard(done)
            if not additions[transactional_id]:
                del additions[transactional_id]


def why_not_here(transactional_id: str) -> ErrorCode:
    """The error for an id that has no coordinator on this node."""
    return ErrorCode.NOT_COORDINATOR if transactional_id else ErrorCode.INVALID_REQUEST


def told(error: ErrorCode, version: int, first_with_fenced: int) -> ErrorCode:
    """Clients of older versions of the API know INVALID_PRODUCER_EPOCH only (KIP-588)."""
    is_unknown = error is ErrorCode.PRODUCER_FENCED and version < first_with_fenced
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error
