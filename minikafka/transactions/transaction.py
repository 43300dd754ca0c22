"""A transactional id as its coordinator knows it; no input, no output, no time (KIP-98, KIP-360, KIP-890).

States and the transitions between them (Kafka's ``TransactionState``)::

    Empty             --partitions are added----------------------------------> Ongoing
    Ongoing           --EndTxn--------------------------------------> PrepareCommit, PrepareAbort
    Ongoing           --time is up, or another producer has begun-------------> PrepareEpochFence
    PrepareEpochFence --in the next epoch-------------------------------------> PrepareAbort
    PrepareCommit     --every partition has its marker------------------------> CompleteCommit
    PrepareAbort      --every partition has its marker------------------------> CompleteAbort
    Complete*         --partitions are added----------------------------------> Ongoing
    Complete*, Empty  --InitProducerId----------------------------------------> Empty
    Complete*, Empty  --EndTxn aborts what has no partition (version 2)-------> PrepareAbort
    Complete*, Empty  --the id was unused for too long------------------------> Dead

Each transition makes a new value. It is true once its record is committed: until then the old one counts, and another
request for this id is told CONCURRENT_TRANSACTIONS. PrepareEpochFence and Dead are in no record: the abort that follows
the first is, and a tombstone follows the second.

The producer's *epoch* keeps older producers of the id, and in version 2 older transactions of the same producer, from
writing: markers get the next one. With the last epoch an id gets another producer id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Self

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, ProducerIdentity, TopicPartition

EPOCH_MAX: Final = (1 << 15) - 1
"""Kept for fencing: a producer never gets it."""
EPOCH_BUMPS: Final = 2
"""From this transaction version on, each transaction has an epoch of its own (KIP-890)."""


class TransactionState(Enum):
    """The value is the id in records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def camel_name(self) -> str:
        """Kafka's name, as DescribeTransactions has it: ``PrepareCommit``."""
        return self.name.title().replace("_", "")


_FROM_REST: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,
        TransactionState.DEAD,
    }
)

TRANSITIONS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _FROM_REST,
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.PREPARE_ABORT,
            TransactionState.PREPARE_EPOCH_FENCE,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: _FROM_REST,
    TransactionState.COMPLETE_ABORT: _FROM_REST,
    TransactionState.DEAD: frozenset(),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT}),
}
"""To which states each leads."""

_AT_REST: Final = tuple(state for state, after in TRANSITIONS.items() if TransactionState.DEAD in after)
ENDING: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
"""Markers are on their way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The last transaction of a transactional id, or none yet. Times are wall-clock milliseconds."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    """Before the last transition."""
    next_producer_id: int = NO_PRODUCER_ID
    """That the producer has already been told, for when this transaction is complete."""
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """Of a request that may be repeated: whoever names it gets the answer again."""
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    """That have no marker yet."""
    started_ms: int = NO_TIMESTAMP
    updated_ms: int
    client_version: int = 0
    """The transaction version of the client in the last transition."""

    @property
    def identity(self) -> ProducerIdentity:
        """Producer id and epoch that the producer goes on with, as it was or will be told."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdentity(self.next_producer_id, 0)
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def is_epoch_exhausted(self) -> bool:
        """The next epoch is not for producers."""
        return self.producer_epoch >= EPOCH_MAX - 1

    @property
    def is_at_rest(self) -> bool:
        """Nothing is under way: the id may expire."""
        return self.state in _AT_REST

    # -- InitProducerId ---------------------------------------------------------------------------------------------

    def initialised(self, timeout_ms: int, expected_epoch: int | None, wall_ms: int) -> Self:
        """A producer begins, or begins anew after an error, in the next epoch.

        ``expected_epoch``: the producer's own, when it goes on (KIP-360). PRODUCER_FENCED when another one has begun
        since. The repetition of a request whose answer was lost gets the same epoch again.
        """
        epoch, last = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None and self.producer_epoch != NO_PRODUCER_EPOCH:
            if expected_epoch == self.producer_epoch:
                last = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last = self.producer_epoch, self.last_producer_epoch
            else:
                raise KafkaError(
                    ErrorCode.PRODUCER_FENCED,
                    f"transactional id {self.transactional_id!r} is in epoch {self.producer_epoch}, not"
                    f" {expected_epoch}: another producer has taken it over",
                )
        assert epoch < EPOCH_MAX, f"{self.transactional_id} needs another producer id"
        return self._begun(timeout_ms, wall_ms, producer_epoch=epoch, last_producer_epoch=last)

    def renewed(self, producer_id: int, timeout_ms: int, wall_ms: int, *, keeps_last_epoch: bool) -> Self:
        """The same with another producer id, when the epochs of the present one are used up (row T7).

        ``keeps_last_epoch``: the producer goes on, and may repeat its request.
        """
        last = self.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH
        return self._begun(timeout_ms, wall_ms, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last)

    def _begun(self, timeout_ms: int, wall_ms: int, **changes: Any) -> Self:
        return self._to(
            TransactionState.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP,
            updated_ms=wall_ms,
            **changes,
        )

    # -- a transaction ----------------------------------------------------------------------------------------------

    def extended(self, partitions: Iterable[TopicPartition], wall_ms: int, client_version: int) -> Self:
        """The transaction writes to these partitions, too; with the first ones it begins."""
        begins = self.state is not TransactionState.ONGOING
        return self._to(
            TransactionState.ONGOING,
            partitions=self.partitions.union(partitions),
            started_ms=wall_ms if begins else self.started_ms,
            updated_ms=wall_ms,
            client_version=client_version,
        )

    def fenced(self) -> Self:
        """The producer did not ask for the abort, and must not write any more: that comes in the next epoch."""
        return self._to(TransactionState.PREPARE_EPOCH_FENCE)

    def prepared(
        self, *, commits: bool, wall_ms: int, client_version: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> Self:
        """The end of the transaction is decided: it holds once this is committed, whatever happens.

        In version 2, and after :meth:`fenced`, the markers get the next epoch: what the producer sent before, and is
        late, comes after them in an epoch that is over. ``next_producer_id``: for the producer, when that was its last
        epoch. In version 2 a producer that was fenced may repeat its request, and learn of the abort and the epoch.
        """
        assert client_version >= EPOCH_BUMPS or next_producer_id == NO_PRODUCER_ID, "only a bump uses up epochs"
        is_fenced = self.state is TransactionState.PREPARE_EPOCH_FENCE
        bumps = (client_version >= EPOCH_BUMPS or is_fenced) and self.producer_epoch < EPOCH_MAX
        last = NO_PRODUCER_EPOCH if is_fenced else self.last_producer_epoch
        return self._to(
            TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT,
            producer_epoch=self.producer_epoch + bumps,
            last_producer_epoch=self.producer_epoch if client_version >= EPOCH_BUMPS else last,
            next_producer_id=next_producer_id,
            started_ms=self.started_ms if self.partitions else wall_ms,
            updated_ms=wall_ms,
            client_version=client_version,
        )

    def completed(self, wall_ms: int) -> Self:
        """Every partition has its marker. Producer id and epoch are those that the producer goes on with."""
        commits = self.state is TransactionState.PREPARE_COMMIT
        is_renewed = self.next_producer_id != NO_PRODUCER_ID
        return self._to(
            TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT,
            producer_id=self.next_producer_id if is_renewed else self.producer_id,
            producer_epoch=0 if is_renewed else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=wall_ms,
        )

    def marked(self, partitions: Iterable[TopicPartition]) -> Self:
        """These have their markers. No transition, and no record: after a failover they get others."""
        assert self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT), self.state
        return replace(self, partitions=self.partitions.difference(partitions))

    def dead(self) -> Self:
        """The id has expired."""
        return self._to(TransactionState.DEAD)

    def _to(self, state: TransactionState, **changes: Any) -> Self:
        assert state in TRANSITIONS[self.state], (
            f"{self.transactional_id}: {self.state.name} never becomes {state.name}"
        )
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)
