"""The transaction coordinators of this node, as handlers and leaders ask them: an id's is found, and handed a request.

What is added to a transaction waits here for the end of the one before. The coordinator tells when to ask it again
(``AskAgain``): nobody polls it, and another node that asks for its partitions has one request under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.transactions import Additions, Transactions
from minikafka.errors import ErrorCode
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.transactions.coordinator import TransactionCoordinator
from minikafka.transactions.effects import Effect, Outcome
from minikafka.transactions.transaction import EPOCH_BUMPS

COMPLETION_WAIT_S: Final = 2.0
"""How long the end of the transaction before is waited for: less than another node waits for that.

Mostly its markers are on their way. On a busy machine those of 60 partitions take longer than half a second, and
franz-go, once refused, waits for 5 s before it tries again."""
WAITING_MAX: Final = 250
"""Requests that wait so; others are told to try again. It is half of an API's places (``broker.dispatch``): where
markers cannot be written for long, other transactions find a place."""
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
        with self._addition(transactional_id) as additions:
            may_ask_again = additions.may_ask_again
            outcome = await self.ask(transactional_id, call)
            if outcome.error is not ErrorCode.CONCURRENT_TRANSACTIONS or self.transactions.waiting >= WAITING_MAX:
                return outcome
            self.transactions.waiting += 1
            try:
                while outcome.error is ErrorCode.CONCURRENT_TRANSACTIONS:
                    left_s = give_up_s - asyncio.get_running_loop().time()
                    if left_s <= 0:
                        break
                    await asyncio.wait((may_ask_again,), timeout=left_s)
                    may_ask_again = additions.may_ask_again
                    outcome = await self.ask(transactional_id, call)
            finally:
                self.transactions.waiting -= 1
            return outcome

    def verify(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is part of the producer's open transaction."""
        shard = self.transactions.shard_of(transactional_id)
        if shard is None:
            return dict.fromkeys(partitions, why_not_here(transactional_id))
        return shard.coordinator.verify_partitions(transactional_id, producer, partitions)

    async def wait_for_additions(self, transactional_id: str) -> None:
        """What came before is done: librdkafka aborts a transaction without an answer to what it wanted to add."""
        if additions := self.transactions.additions.get(transactional_id):
            await asyncio.wait(additions.under_way)

    @contextmanager
    def _addition(self, transactional_id: str) -> Iterator[Additions]:
        by_id = self.transactions.additions
        additions = by_id.get(transactional_id)
        if additions is None:
            additions = by_id[transactional_id] = Additions()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        additions.under_way.add(done)
        try:
            yield additions
        finally:
            done.set_result(None)
            additions.under_way.discard(done)
            if not additions.under_way:
                del by_id[transactional_id]


def why_not_here(transactional_id: str) -> ErrorCode:
    """The error for an id that has no coordinator on this node."""
    return ErrorCode.NOT_COORDINATOR if transactional_id else ErrorCode.INVALID_REQUEST


def told(error: ErrorCode, version: int, first_with_fenced: int) -> ErrorCode:
    """Clients of older versions of the API know INVALID_PRODUCER_EPOCH only (KIP-588)."""
    is_unknown = error is ErrorCode.PRODUCER_FENCED and version < first_with_fenced
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error
