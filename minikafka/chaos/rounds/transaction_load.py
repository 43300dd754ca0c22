"""The load of producers in transactions, which commit and abort."""

from __future__ import annotations

from typing import Final

from minikafka.chaos.rounds.loads import Load, Worker
from minikafka.chaos.rounds.reading import note_stable_ends
from minikafka.chaos.rounds.records import TOPIC

PRODUCERS: Final = 3
RECORDS: Final = 100
ABORTED: Final = 0.15
PATIENCE_S: Final = 30.0
TRANSACTION_TIMEOUT_MS: Final = 20_000
STABLE_S: Final = TRANSACTION_TIMEOUT_MS / 1000 + PATIENCE_S
"""Until no transaction can be open any more."""


class Transactions(Load):
    """Three producers in transactions, some of which abort; a read_committed consumer and another one read along."""

    name = "transactions"
    is_transactional = True

    def make_writers(self) -> list[Worker]:
        rate = self.rate / PRODUCERS
        return [self.clients.transactor(f"transactor-{n}", self, rate) for n in range(1, PRODUCERS + 1)]

    def make_readers(self) -> list[Worker]:
        committed = self.clients.follower("committed", self, TOPIC, committed=True)
        return [committed, self.clients.follower("uncommitted", self, TOPIC)]

    def drain(self) -> None:
        """Once the time of transactions that were left open is over."""
        note_stable_ends(self.cluster, self.history, TOPIC, STABLE_S)
        super().drain()
