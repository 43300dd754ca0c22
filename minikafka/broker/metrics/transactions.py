"""What a scrape shows of transactions: of the coordinators of this node, and of its partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.transactions import Transactions
from minikafka.broker.replicas import Replicas
from minikafka.broker.transaction_admission import TransactionAdmission
from minikafka.metrics import catalogue as of
from minikafka.metrics.catalogue import Family
from minikafka.transactions.transaction import TransactionState

PORTION: Final = 500
LATE_MS: Final = 5 * 60_000
"""Beyond the longest time-out, as in Kafka."""
LASTING: Final = tuple(
    state for state in TransactionState if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
)
"""States that are in records."""


@dataclass(frozen=True, slots=True)
class TransactionSources:
    """What is read."""

    transactions: Transactions
    admission: TransactionAdmission
    replicas: Replicas
    clock: Clock


def collect_transactions(sources: TransactionSources) -> Iterator[Family | None]:
    """All of the catalogue's section, with pauses (None) where a portion of work is done."""
    states: Counter[TransactionState] = Counter()
    unwritten = 0
    for shard in sources.transactions:
        for entry in shard.coordinator.shard.entries.values():
            states[entry.transaction.state] += 1
            unwritten += entry.has_unwritten_end
        yield None
    late = producers = 0
    before_ms = sources.clock.wall_ms() - sources.transactions.timeout_max_ms - LATE_MS
    for count, partition in enumerate(sources.replicas, 1):
        known = partition.log.producers
        producers += len(known)
        late += partition.replica.leader is not None and known.has_late_transaction(before_ms)
        if not count % PORTION:
            yield None
    markers, loads = sources.transactions.markers, sources.transactions.loads
    yield Family(of.TRANSACTIONAL_IDS, [((state.camel_name,), states[state]) for state in LASTING])
    yield Family(of.LATE_TRANSACTIONS, [((), late)])
    yield Family(of.PRODUCER_IDS, [((), producers)])
    yield Family(of.VERIFICATION_FAILURES, [((), sources.admission.failures)])
    yield Family(of.MARKERS, [((), markers.written)])
    yield Family(of.MARKER_REQUESTS, [((), markers.requests)])
    yield Family(of.UNKNOWN_DESTINATION, [((), markers.leaderless)])
    yield Family(of.LOG_APPEND_RETRY, [((), unwritten)])
    yield Family(of.PARTITION_LOAD_MAX, [((), loads.longest_ms)])
    yield Family(of.PARTITION_LOAD_AVG, [((), loads.average_ms)])
